"""Tensors in, tensors out: splits the rows and launches the Triton kernels."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms, unpack_qkv
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
from gsdm_pyg.ops.triton_gpu.row_chunks import RowChunks, split_rows

LOG2_E = math.log2(math.e)


def _channel_options(channels: int, accum: torch.dtype) -> dict:
    """Compile-time options of a kernel: the channels, and the dtype of sums."""
    kind = tl.float64 if accum == torch.float64 else tl.float32
    return {"ACCUM": kind, "C": channels, "BLOCK_C": triton.next_power_of_2(channels)}


def _feature_options(features: int) -> dict:
    return {"F": features, "BLOCK_F": triton.next_power_of_2(max(features, 1))}


def _edges_per_block(width: int) -> int:
    """Edges that a program loads at once: up to 4096 numbers of each tensor."""
    return max(1, min(32, 4096 // triton.next_power_of_2(width)))


def _strides(*tensors: Tensor) -> list[int]:
    """Strides of rows and heads, of all tensors [N, H, C]."""
    return [stride for tensor in tensors for stride in tensor.stride()[:2]]


def _or_placeholder(terms: EdgeTerms, tensor: Tensor) -> list[Tensor]:
    """The terms, and `tensor` for each missing one: kernels get it, and ignore it."""
    return [tensor if term is None else term for term in terms]


def forward(inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C + F], and log2 of every softmax's denominator, [N_dst, H]."""
    (q, k, v), col, terms = unpack_qkv(inputs.qkv), inputs.col, inputs.terms
    rows, heads, width = q.shape
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = q.new_empty(q.shape)
    lse = q.new_empty((rows, heads), dtype=accum)
    chunks = split_rows(inputs.rowptr, col.numel())
    partials = lse.new_empty(chunks.num_slots, heads, width + 2)
    if out.numel() == 0:
        return out, lse
    forward_kernel[(chunks.row.numel(), heads)](
        *(q, k, v, *_or_placeholder(terms, q), out, lse, partials),
        *(chunks.row, chunks.start, chunks.end, chunks.slot, col),
        *_strides(q, k, v),
        heads,
        SCALE=inputs.scale * LOG2_E,
        BIASED=terms.bias is not None,
        FACTORED=terms.factor is not None,
        BLOCK_E=_edges_per_block(width),
        **_channel_options(k.size(-1), accum),
        **_feature_options(width - k.size(-1)),
    )
    if chunks.num_slots:
        combine_forward_kernel[(chunks.num_slots, heads)](
            out, lse, partials, chunks.slot_row, heads, **_channel_options(width, accum)
        )
    return out, lse


def backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, inputs: AttentionInputs
) -> list[Tensor]:
    """Gradients of q, k and v, packed as they were, then of bias and edge if given.

    That of `edge` has no rows unless `edge_grad`.
    """
    (q, k, v), terms = unpack_qkv(inputs.qkv), inputs.terms
    grads = [x.new_empty(x.shape) for x in inputs.qkv]
    dq, dk, dv = unpack_qkv(grads)
    rowptr, col = inputs.rowptr, inputs.col
    (heads, width), channels, edges = q.shape[1:], k.size(-1), col.numel()
    delta = (grad.to(lse.dtype) * out.to(lse.dtype)).sum(-1)  # [N_dst, H]
    ds, p = (lse.new_empty(edges if terms else 0, heads) for _ in range(2))
    dedge = lse.new_empty(edges if edge_grad else 0, width - channels)
    options = {"SCALE": inputs.scale * LOG2_E, "BLOCK_E": _edges_per_block(width)}
    options |= _channel_options(channels, lse.dtype)
    feature_options = _feature_options(width - channels)

    def partials_like(chunks: RowChunks, gradient: Tensor) -> Tensor:
        return lse.new_empty(chunks.num_slots, *gradient.shape[1:])

    def combine(gradient: Tensor, partials: Tensor, chunks: RowChunks) -> None:
        if chunks.num_slots:
            combine_backward_kernel[(chunks.num_slots, heads)](
                *(gradient, partials, chunks.slot_row, *_strides(gradient), heads),
                **_channel_options(gradient.size(-1), lse.dtype),
            )

    if dq.numel():
        chunks = split_rows(rowptr, edges)
        partials = partials_like(chunks, dq)
        query_kernel[(chunks.row.numel(), heads)](
            *(
                q,
                k,
                v,
                *_or_placeholder(terms, q),
                grad,
                lse,
                delta,
                dq,
                ds,
                p,
                partials,
            ),
            *(chunks.row, chunks.start, chunks.end, chunks.slot, col),
            *_strides(q, k, v, grad, dq),
            heads,
            BIASED=terms.bias is not None,
            FACTORED=terms.factor is not None,
            TERMS=bool(terms),
            **options,
            **feature_options,
        )
        combine(dq, partials, chunks)
        if dedge.numel():
            edge_kernel[(chunks.row.numel(),)](
                *(q, grad, ds, p, dedge, chunks.row, chunks.start, chunks.end),
                *_strides(q, grad),
                heads,
                **{name: options[name] for name in ("SCALE", "ACCUM", "C", "BLOCK_E")},
                **feature_options,
            )
    if dk.numel():
        rowptr, col, perm = inputs.transpose or (rowptr, col, col)
        chunks = split_rows(rowptr, edges)
        k_partials, v_partials = partials_like(chunks, dk), partials_like(chunks, dv)
        key_kernel[(chunks.row.numel(), heads)](
            *(q, k, v, grad, lse, delta, ds, p, dk, dv, k_partials, v_partials),
            *(chunks.row, chunks.start, chunks.end, chunks.slot, col, perm),
            *_strides(q, k, v, grad, dk, dv),
            heads,
            TERMS=bool(terms),
            **options,
        )
        combine(dk, k_partials, chunks)
        combine(dv, v_partials, chunks)
    return grads + terms.gradients(ds, dedge)
