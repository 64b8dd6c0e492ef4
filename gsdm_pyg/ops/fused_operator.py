"""The operator `gsdm_pyg::csr_attention`: its registration with torch, its gradient.

Queries, keys and values are three tensors or one packed [N, 3, H, C]. Gradients have
the same form, so a packed projection gets its gradient as one tensor.
Compiled graphs contain the registered operator. Eager calls use the same functions
through a `torch.autograd.Function`, which costs a fifth of the dispatcher's time.
"""

from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.ops import reference
from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms
from gsdm_pyg.ops.checks import check_inputs, check_results
from gsdm_pyg.ops.csr import transpose_csr
from gsdm_pyg.ops.derivatives import differentiable_gradients
from gsdm_pyg.ops.kernel_inputs import (
    check_memory,
    has_storage,
    readable_gradient,
    readable_inputs,
)

try:
    from gsdm_pyg.ops import cpu
except ImportError:  # Numba is missing
    cpu = None  # type: ignore[assignment]

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_PLAIN = (Tensor, torch.nn.Parameter)
# Where fused kernels run: torch device -> name of the backend.
FUSED_BACKENDS = {"cpu": "cpu"} if cpu is not None else {}
if torch.cuda.is_available() and find_spec("triton") is not None:
    FUSED_BACKENDS["cuda"] = "triton"


def available_backend(x: Tensor) -> str | None:
    """The name of the fused backend for tensors like x, if there is one."""
    return FUSED_BACKENDS.get(x.device.type) if x.dtype in DTYPES else None


def attention(inputs: AttentionInputs) -> Tensor:
    """The fused operator, differentiable; compiled graphs contain it as one node."""
    plain = all(type(x) in _PLAIN for _, x in inputs.tensors())
    if torch.compiler.is_compiling() or not plain:
        return torch.ops.gsdm_pyg.csr_attention(*inputs.flatten())[0]
    if not torch.is_grad_enabled():
        return _forward(inputs)[0]
    bias, _, edge = inputs.terms
    return _EagerAttention.apply(inputs, bias, edge, *inputs.qkv)


def _kernels(device: torch.device) -> ModuleType:
    """The module whose `forward` and `backward` run on the device."""
    if device.type == "cpu":
        return cpu
    from gsdm_pyg.ops import triton_gpu

    return triton_gpu


def _forward(inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
    """The attention, and log2 of every softmax's denominator for the backward pass."""
    return _kernels(inputs.col.device).forward(inputs)


def _backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, inputs: AttentionInputs
) -> list[Tensor]:
    """Gradients of q, k, v (packed as they were), then of bias and edge if given.

    That of `edge` has no rows unless `edge_grad`. Tensors are checked again: their
    memory may have been freed since the forward pass.
    """
    grad, inputs = readable_gradient(grad), readable_inputs(inputs)
    check_memory("the output", out)
    check_memory("the log-sum-exp", lse)
    if inputs.terms and not inputs.transpose:
        transpose = transpose_csr(inputs.rowptr, inputs.col, inputs.num_src)
        inputs = inputs._replace(transpose=transpose)
    return _kernels(grad.device).backward(grad, out, lse, edge_grad, inputs)


# Registration with torch. The operator's arguments are `AttentionInputs.flatten()`.

_INPUTS = "Tensor[] qkv, Tensor rowptr, Tensor col, Tensor[] transpose, "
_INPUTS += "Tensor? bias, Tensor? factor, Tensor? edge, float scale"


def _operator(*flat: Any) -> tuple[Tensor, Tensor]:
    inputs = AttentionInputs.unflatten(*flat)
    check_inputs(inputs)
    return _forward(readable_inputs(inputs))


def _operator_backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, *flat: Any
) -> list[Tensor]:
    inputs = AttentionInputs.unflatten(*flat)
    check_inputs(inputs)
    check_results(grad, out, lse, inputs)
    return _backward(grad, out, lse, edge_grad, inputs)


def _fake_operator(*flat: Any) -> tuple[Tensor, Tensor]:
    """Tensors like those that `_operator` returns."""
    inputs = AttentionInputs.unflatten(*flat)
    q, rows = inputs.qkv[0], inputs.rowptr.size(0) - 1
    heads, channels = q.shape[-2:]
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty(rows, heads, channels), q.new_empty((rows, heads), dtype=accum)


def _fake_operator_backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, *flat: Any
) -> list[Tensor]:
    """Tensors like those that `_operator_backward` returns."""
    inputs = AttentionInputs.unflatten(*flat)
    bias, _, edge = inputs.terms
    grads = [x.new_empty(x.shape) for x in inputs.qkv]
    if bias is not None:
        grads.append(bias.new_empty(bias.shape))
    if edge is not None:
        grads.append(edge.new_empty(edge.shape if edge_grad else (0, edge.shape[1])))
    return grads


def _save(ctx: Any, inputs: AttentionInputs, output: tuple[Tensor, Tensor]) -> None:
    """Keep for the backward pass what `_saved` returns."""
    _, rowptr, col, transpose, terms, scale = inputs
    graph = [_savable(x) for x in (rowptr, col, *transpose)]
    ctx.save_for_backward(*output, *terms, *graph, *inputs.qkv)
    ctx.scale, ctx.num_graph = scale, len(graph)


def _saved(ctx: Any) -> tuple[Tensor, Tensor, AttentionInputs]:
    """out, lse and the inputs."""
    out, lse, bias, factor, edge, *rest = ctx.saved_tensors
    (rowptr, col, *transpose), qkv = rest[: ctx.num_graph], rest[ctx.num_graph :]
    flat = (qkv, rowptr, col, transpose, bias, factor, edge, ctx.scale)
    return out, lse, AttentionInputs.unflatten(*flat)


def _savable(index: Tensor) -> Tensor:
    """Autograd saves no tensor of inference mode, where an `EdgeIndex` may be from."""
    return index.clone() if index.is_inference() else index


def _split_gradients(
    grads: list[Tensor], inputs: AttentionInputs, edge_grad: bool
) -> tuple[list[Tensor], Tensor | None, Tensor | None]:
    """(gradients of qkv, of the bias, of the edge features), None where missing."""
    dedge = grads.pop() if inputs.terms.edge is not None else None
    dbias = grads.pop() if inputs.terms.bias is not None else None
    return grads, dbias, dedge if edge_grad else None


def _setup_context(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]
) -> None:
    _save(ctx, AttentionInputs.unflatten(*inputs), output)


def _operator_gradient(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    edge_grad = ctx.needs_input_grad[6]
    out, lse, inputs = _saved(ctx)
    backward = torch.ops.gsdm_pyg.csr_attention_backward
    grads = backward(grad, out, lse, edge_grad, *inputs.flatten())
    grads, dbias, dedge = _split_gradients(grads, inputs, edge_grad)
    return grads, None, None, [None] * (ctx.num_graph - 2), dbias, None, dedge, None


def _reject_second_derivative(ctx: Any, *grads: Tensor) -> None:
    raise NotImplementedError(
        "Compiled attention has no second derivative: differentiate twice without "
        'torch.compile, or pass backend="reference" (got create_graph=True)'
    )


def _version_counter(x: Tensor) -> Tensor:
    """An empty tensor whose `_version` is that of x, and counts changes of x."""
    counter = x.detach()
    counter.data = x.new_empty(0)
    return counter


class _EagerAttention(torch.autograd.Function):
    """The operator and its gradient without the dispatcher.

    bias, edge and qkv are also arguments of their own: autograd does not look for
    tensors inside of `inputs`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: AttentionInputs,
        bias: Tensor | None,
        edge: Tensor | None,
        *qkv: Tensor,
    ) -> Tensor:
        out, lse = _forward(inputs)
        # The caller may change `out`, by relu_ for example. Saved without its counter
        # of changes, it can still be unpacked, and `backward` computes it again.
        _save(ctx, inputs, (out.data, lse))
        ctx.changes = _version_counter(out)
        ctx.num_changes = ctx.changes._version
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        edge_grad = ctx.needs_input_grad[2]
        out, lse, inputs = _saved(ctx)
        if torch.is_grad_enabled() or not has_storage(grad):
            # Differentiable once more (create_graph=True), or many gradients at once.
            bias, factor, edge = inputs.terms

            def attend(
                bias: Tensor | None, edge: Tensor | None, *qkv: Tensor
            ) -> Tensor:
                terms = EdgeTerms(bias, factor, edge)
                return reference.attention(inputs._replace(qkv=qkv, terms=terms))

            leaves, needed = (bias, edge, *inputs.qkv), ctx.needs_input_grad[1:]
            return None, *differentiable_gradients(attend, leaves, grad, needed)
        if ctx.changes._version != ctx.num_changes:
            out, lse = _forward(readable_inputs(inputs))
        grads = _backward(grad, out, lse, edge_grad, inputs)
        grads, dbias, dedge = _split_gradients(grads, inputs, edge_grad)
        return None, dbias, dedge, *grads


_library = torch.library.Library("gsdm_pyg", "DEF")
_library.define(f"csr_attention({_INPUTS}) -> (Tensor, Tensor)")
_library.define(
    "csr_attention_backward(Tensor grad, Tensor out, Tensor lse, bool edge_grad, "
    f"{_INPUTS}) -> Tensor[]"
)
for _key in ("CPU", "CUDA"):
    _library.impl("csr_attention", _operator, _key)
    _library.impl("csr_attention_backward", _operator_backward, _key)
torch.library.register_fake("gsdm_pyg::csr_attention", _fake_operator, lib=_library)
torch.library.register_fake(
    "gsdm_pyg::csr_attention_backward", _fake_operator_backward, lib=_library
)
torch.library.register_autograd(
    "gsdm_pyg::csr_attention",
    _operator_gradient,
    setup_context=_setup_context,
    lib=_library,
)
torch.library.register_autograd(
    "gsdm_pyg::csr_attention_backward", _reject_second_derivative, lib=_library
)
