"""Private attributes of torch and PyG that the library reads, all of them in this file.

`tests/test_private_api.py` checks each one against the installed versions, and
pyproject.toml bounds these versions.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor
from torch.distributions import Distribution
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing

# What PyG stores the hooks of a layer in, except those of `message_and_aggregate`.
_MESSAGE_HOOKS = [
    f"_{step}_forward{when}_hooks"
    for step in ("propagate", "edge_update", "message", "aggregate")
    for when in ("_pre", "")
]


def has_cached_pointers(edges: EdgeIndex) -> bool:
    """Whether a sorted `EdgeIndex` has its CSR or CSC pointers in its cache.

    `get_indptr` is public, but computes them if they are missing, and compiled code
    cannot change the cache.
    """
    return edges._indptr is not None


def has_message_hooks(conv: MessagePassing) -> bool:
    """Whether a hook sees the messages, so that they must be computed.

    PyG has public methods to register such hooks, and none to find them.
    """
    return any(getattr(conv, name) for name in _MESSAGE_HOOKS)


def has_module_hooks(module: nn.Module) -> bool:
    """Whether a hook sees the calls of a module, so that it must be called.

    torch has public methods to register such hooks, and none to find them.
    """
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def is_zero_tensor(x: Tensor) -> bool:
    """Whether x is one of autograd's zeros: it has a size, but no memory.

    torch has no public name for them, and `x.is_contiguous()` is true.
    """
    return x._is_zerotensor()


def is_functional(x: Tensor) -> bool:
    """Whether `torch.func.functionalize` wraps x: its storage has no memory.

    torch has no public name for that, and `x.untyped_storage()` does not fail.
    """
    return torch._is_functional_tensor(x)


def is_fake(x: Tensor) -> bool:
    """Whether x has a shape and no numbers, as while torch.export reads a model."""
    return isinstance(x, FakeTensor)


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v on the CPU, [B, H, n, C], and its log-sum-exp [B, H, n].

    It is what `scaled_dot_product_attention` calls, which does not return the
    log-sum-exp that the gradient needs.
    """
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = attention(q, k, v, 0.0, False, attn_mask=None, scale=scale)
    return out, lse


def dense_attention_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, from the results of `dense_attention`."""
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    inputs = (grad, q, k, v, out, lse)
    return backward(*inputs, 0.0, False, attn_mask=None, scale=scale)


class Arguments(NamedTuple):
    """The arguments of an ATen operator."""

    by_name: dict[str, Any]
    changed: list[str]  # those that the operator changes in place
    out: list[str]  # those of `out=`, which it only fills


def arguments_by_name(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Arguments:
    """The arguments of an ATen operator by name, and what it does to them.

    Operators have no public signature.
    """
    by_name, changed, out = {}, [], []
    for position, argument in enumerate(function._schema.arguments):
        name = argument.name
        value = argument.default_value if argument.has_default_value() else None
        value = kwargs.get(name, value)
        by_name[name] = args[position] if position < len(args) else value
        written = argument.alias_info is not None and argument.alias_info.is_write
        # Batch normalization changes these, and its signature does not say so.
        hidden = function.namespace == "aten" and name.startswith("running_")
        if argument.is_out:
            out.append(name)
        elif written or hidden:
            changed.append(name)
    return Arguments(by_name, changed, out)


@contextmanager
def without_validation() -> Iterator[None]:
    """Make distributions that do not look at their parameters, as vmap cannot.

    There is a public method to set this, and none to read what it was.
    """
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
