"""Tensors in, tensors out: cuts the rows and starts the Triton kernels."""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from gsdm_pyg.ops.triton_gpu.backward_kernels import (
    combine_backward_kernel,
    key_kernel,
    query_kernel,
)
from gsdm_pyg.ops.triton_gpu.forward_kernels import (
    combine_forward_kernel,
    forward_kernel,
)
from gsdm_pyg.ops.triton_gpu.parts import Parts, cut_rows

Graph = tuple[Tensor, Tensor]  # rowptr [rows + 1], col [E]
LOG2_E = math.log2(math.e)


def constants(q: Tensor) -> dict:
    """What kernels are specialised on: channels and the type that sums run in."""
    accum = tl.float64 if q.dtype == torch.float64 else tl.float32
    channels = q.size(-1)
    return {"ACCUM": accum, "C": channels, "BLOCK_C": triton.next_power_of_2(channels)}


def block_of_edges(q: Tensor) -> int:
    """Edges that a program loads at once: up to 4096 numbers of each tensor."""
    return max(1, min(32, 4096 // triton.next_power_of_2(q.size(-1))))


def strides(*tensors: Tensor) -> list[int]:
    """Strides of rows and heads, of all tensors [N, H, C]."""
    return [stride for tensor in tensors for stride in tensor.stride()[:2]]


def split(qkv: Sequence[Tensor]) -> Sequence[Tensor]:
    """Queries, keys and values, from three tensors or one packed [N, 3, H, C]."""
    return qkv if len(qkv) == 3 else qkv[0].unbind(1)


def forward(
    qkv: Sequence[Tensor], graph: Graph, bias: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C], and log2 of every softmax's denominator, [N_dst, H]."""
    q, k, v = split(qkv)
    rowptr, col = graph
    rows, heads, channels = q.shape
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = q.new_empty(q.shape)
    lse = q.new_empty((rows, heads), dtype=accum)
    parts = cut_rows(rowptr, col.numel())
    sums = lse.new_empty(parts.num_slots, heads, channels + 2)
    options = constants(q)
    if out.numel() == 0:
        return out, lse
    forward_kernel[(parts.row.numel(), heads)](
        *(q, k, v, q if bias is None else bias, out, lse, sums),
        *(parts.row, parts.start, parts.end, parts.slot, col),
        *strides(q, k, v),
        heads,
        SCALE=scale * LOG2_E,
        BIASED=bias is not None,
        BLOCK_E=block_of_edges(q),
        **options,
    )
    if parts.num_slots:
        combine_forward_kernel[(parts.num_slots, heads)](
            out, lse, sums, parts.owner, heads, **options
        )
    return out, lse


def backward(
    grad: Tensor,
    qkv: Sequence[Tensor],
    out: Tensor,
    lse: Tensor,
    graph: Graph,
    transpose: Sequence[Tensor],
    bias: Tensor | None,
    scale: float,
) -> list[Tensor]:
    """Gradients of q, k and v, packed as they were, then of the bias if given."""
    q, k, v = split(qkv)
    inputs = qkv if bias is None else [*qkv, bias]
    grads = [x.new_empty(x.shape) for x in inputs]
    dq, dk, dv = split(grads[: len(qkv)])
    rowptr, col = graph
    heads, channels = q.shape[1:]
    delta = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)  # [N_dst, H]
    options = constants(q)
    shared = {"SCALE": scale * LOG2_E, "BIASED": bias is not None, **options}
    shared["BLOCK_E"] = block_of_edges(q)
    inputs = (q, k, v, q if bias is None else bias, grad, lse, delta)

    def sums_of(parts: Parts) -> Tensor:
        return lse.new_empty(parts.num_slots, heads, channels)

    def combine(gradient: Tensor, sums: Tensor, parts: Parts) -> None:
        if parts.num_slots:
            combine_backward_kernel[(parts.num_slots, heads)](
                gradient, sums, parts.owner, *strides(gradient), heads, **options
            )

    if dq.numel():
        parts = cut_rows(rowptr, col.numel())
        sums = sums_of(parts)
        query_kernel[(parts.row.numel(), heads)](
            *(*inputs, dq, dq if bias is None else grads[-1], sums),
            *(parts.row, parts.start, parts.end, parts.slot, col),
            *strides(q, k, v, grad, dq),
            heads,
            **shared,
        )
        combine(dq, sums, parts)
    if dk.numel():
        rowptr, col, perm = transpose or (rowptr, col, col)
        parts = cut_rows(rowptr, col.numel())
        sums, v_sums = sums_of(parts), sums_of(parts)
        key_kernel[(parts.row.numel(), heads)](
            *(*inputs, dk, dv, sums, v_sums),
            *(parts.row, parts.start, parts.end, parts.slot, col, perm),
            *strides(q, k, v, grad, dk, dv),
            heads,
            **shared,
        )
        combine(dk, sums, parts)
        combine(dv, v_sums, parts)
    return grads
