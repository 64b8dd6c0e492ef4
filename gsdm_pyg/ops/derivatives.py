"""Derivatives that fused kernels do not have: plain torch computes them instead."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from gsdm_pyg.ops.kernel_inputs import has_storage


def is_transformed(x: Tensor) -> bool:
    """Whether `torch.func` or forward-mode differentiation follows what x becomes."""
    return not has_storage(x) or unpack_dual(x).tangent is not None


def differentiable_gradients(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor | None],
    grad: Tensor,
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Gradients of function(*inputs), which autograd can differentiate again.

    Args:
        function: The definition in plain torch.
        inputs: The tensors it is differentiated in.
        grad: The gradient of its result; may be wrapped by vmap.
        needed: Which inputs need a gradient; the others get None.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views: one tensor may be several of the inputs.
        views = [x if x is None else x.view_as(x) for x in inputs]
        pairs = zip(views, needed, strict=True)
        wanted = [x for x, need in pairs if need and x is not None]
        out = function(*views)
        grads = iter(torch.autograd.grad(out, wanted, grad, create_graph=create_graph))
    return [next(grads) if need else None for need in needed]
