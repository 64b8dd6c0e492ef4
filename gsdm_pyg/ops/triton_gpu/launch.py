"""Tensors in, tensors out: cuts the rows and starts the Triton kernels."""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from gsdm_pyg.ops.csr import EdgeTerms
from gsdm_pyg.ops.triton_gpu.backward_kernels import (
    combine_backward_kernel,
    edge_kernel,
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


def constants(channels: int, accum: torch.dtype) -> dict:
    """What kernels are specialised on: channels, and the type that sums run in."""
    kind = tl.float64 if accum == torch.float64 else tl.float32
    return {"ACCUM": kind, "C": channels, "BLOCK_C": triton.next_power_of_2(channels)}


def constants_of_edges(features: int) -> dict:
    return {"F": features, "BLOCK_F": triton.next_power_of_2(max(features, 1))}


def block_of_edges(width: int) -> int:
    """Edges that a program loads at once: up to 4096 numbers of each tensor."""
    return max(1, min(32, 4096 // triton.next_power_of_2(width)))


def strides(*tensors: Tensor) -> list[int]:
    """Strides of rows and heads, of all tensors [N, H, C]."""
    return [stride for tensor in tensors for stride in tensor.stride()[:2]]


def split(qkv: Sequence[Tensor]) -> Sequence[Tensor]:
    """Queries, keys and values, from three tensors or one packed [N, 3, H, C]."""
    return qkv if len(qkv) == 3 else qkv[0].unbind(1)


def forward(
    qkv: Sequence[Tensor], graph: Graph, terms: EdgeTerms, scale: float
) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C + F], and log2 of every softmax's denominator, [N_dst, H]."""
    q, k, v = split(qkv)
    rowptr, col = graph
    rows, heads, width = q.shape
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = q.new_empty(q.shape)
    lse = q.new_empty((rows, heads), dtype=accum)
    parts = cut_rows(rowptr, col.numel())
    sums = lse.new_empty(parts.num_slots, heads, width + 2)
    if out.numel() == 0:
        return out, lse
    forward_kernel[(parts.row.numel(), heads)](
        *(q, k, v, *or_any(terms, q), out, lse, sums),
        *(parts.row, parts.start, parts.end, parts.slot, col),
        *strides(q, k, v),
        heads,
        SCALE=scale * LOG2_E,
        BIASED=terms.bias is not None,
        FACTORED=terms.factor is not None,
        BLOCK_E=block_of_edges(width),
        **constants(k.size(-1), accum),
        **constants_of_edges(width - k.size(-1)),
    )
    if parts.num_slots:
        combine_forward_kernel[(parts.num_slots, heads)](
            out, lse, sums, parts.owner, heads, **constants(width, accum)
        )
    return out, lse


def or_any(terms: EdgeTerms, tensor: Tensor) -> list[Tensor]:
    """The terms; some tensor in the place of one that is missing and is not read."""
    return [tensor if term is None else term for term in terms]


def backward(
    grad: Tensor,
    qkv: Sequence[Tensor],
    out: Tensor,
    lse: Tensor,
    graph: Graph,
    transpose: Sequence[Tensor],
    terms: EdgeTerms,
    scale: float,
    edge_grad: bool,
) -> list[Tensor]:
    """Gradients of q, k and v, packed as they were, then of bias and edge if given.

    That of `edge` has no rows unless `edge_grad` says that it is wanted.
    """
    q, k, v = split(qkv)
    grads = [x.new_empty(x.shape) for x in qkv]
    dq, dk, dv = split(grads)
    rowptr, col = graph
    (heads, width), channels, edges = q.shape[1:], k.size(-1), col.numel()
    delta = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)  # [N_dst, H]
    ds, p = (lse.new_empty(edges if terms else 0, heads) for _ in range(2))
    dedge = lse.new_empty(edges if edge_grad else 0, width - channels)
    options = {"SCALE": scale * LOG2_E, "BLOCK_E": block_of_edges(width)}
    options |= constants(channels, lse.dtype)
    of_edges = constants_of_edges(width - channels)

    def sums_of(parts: Parts, gradient: Tensor) -> Tensor:
        return lse.new_empty(parts.num_slots, *gradient.shape[1:])

    def combine(gradient: Tensor, sums: Tensor, parts: Parts) -> None:
        if parts.num_slots:
            combine_backward_kernel[(parts.num_slots, heads)](
                *(gradient, sums, parts.owner, *strides(gradient), heads),
                **constants(gradient.size(-1), lse.dtype),
            )

    if dq.numel():
        parts = cut_rows(rowptr, edges)
        sums = sums_of(parts, dq)
        query_kernel[(parts.row.numel(), heads)](
            *(q, k, v, *or_any(terms, q), grad, lse, delta, dq, ds, p, sums),
            *(parts.row, parts.start, parts.end, parts.slot, col),
            *strides(q, k, v, grad, dq),
            heads,
            BIASED=terms.bias is not None,
            FACTORED=terms.factor is not None,
            TERMS=bool(terms),
            **options,
            **of_edges,
        )
        combine(dq, sums, parts)
        if dedge.numel():
            edge_kernel[(parts.row.numel(),)](
                *(q, grad, ds, p, dedge, parts.row, parts.start, parts.end),
                *strides(q, grad),
                heads,
                **{name: options[name] for name in ("SCALE", "ACCUM", "C", "BLOCK_E")},
                **of_edges,
            )
    if dk.numel():
        rowptr, col, perm = transpose or (rowptr, col, col)
        parts = cut_rows(rowptr, edges)
        k_sums, v_sums = sums_of(parts, dk), sums_of(parts, dv)
        key_kernel[(parts.row.numel(), heads)](
            *(q, k, v, grad, lse, delta, ds, p, dk, dv, k_sums, v_sums),
            *(parts.row, parts.start, parts.end, parts.slot, col, perm),
            *strides(q, k, v, grad, dk, dv),
            heads,
            TERMS=bool(terms),
            **options,
        )
        combine(dk, k_sums, parts)
        combine(dv, v_sums, parts)
    if terms.bias is not None:
        grads.append(ds.to(terms.bias.dtype))
    if terms.edge is not None:
        grads.append(dedge.to(terms.edge.dtype))
    return grads
