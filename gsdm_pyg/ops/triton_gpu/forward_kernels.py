"""Triton kernels of the forward pass: one program per chunk of a row and head.

A program holds one head's channels of its row and reads the edges in blocks of
BLOCK_E. Logits are in units of log 2; log2 of the softmax's denominator is saved.
"""

import triton
import triton.language as tl

from gsdm_pyg.ops.triton_gpu.load_store import load_row, load_rows, store_row

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LOWEST: tl.constexpr = tl.constexpr(-1.0e30)


@triton.jit
def forward_kernel(
    q, k, v, bias, factor, edges, out, lse, partials,
    chunk_row, chunk_start, chunk_end, chunk_slot, col,
    q_row, q_head, k_row, k_head, v_row, v_head, heads,
    SCALE: tl.constexpr, BIASED: tl.constexpr, FACTORED: tl.constexpr,
    ACCUM: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
    F: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """out_i and lse_i, or (maximum, denominator, weighted sum) of a split row."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    row, slot = tl.load(chunk_row + chunk), tl.load(chunk_slot + chunk)
    start, end = tl.load(chunk_start + chunk), tl.load(chunk_end + chunk)
    if row >= 0:
        q_i = load_row(q, row, head, q_row, q_head, C, BLOCK_C).to(ACCUM) * SCALE
        max_logit = tl.full((), LOWEST, ACCUM)
        denominator = tl.full((), 0.0, ACCUM)
        v_sum = tl.zeros((BLOCK_C,), ACCUM)
        f_i = load_row(q + C, row, head, q_row, q_head, F, BLOCK_F).to(ACCUM) * SCALE
        f_sum = tl.zeros((BLOCK_F,), ACCUM)
        for first in range(start, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            valid = edge < end
            j = tl.load(col + edge, valid, other=0).to(tl.int64)
            k_j = load_rows(k, j, head, valid, k_row, k_head, C, BLOCK_C).to(ACCUM)
            v_j = load_rows(v, j, head, valid, v_row, v_head, C, BLOCK_C).to(ACCUM)
            logit = tl.sum(q_i[None, :] * k_j, axis=1)
            if F > 0:
                e_ij = load_rows(edges, edge, 0, valid, F, 0, F, BLOCK_F).to(ACCUM)
                logit += tl.sum(f_i[None, :] * e_ij, axis=1)
            if BIASED:
                b = tl.load(bias + edge * heads + head, valid, other=0.0)
                logit += b.to(ACCUM) * LOG2_E
            logit = tl.where(valid, logit, -float("inf"))
            before = max_logit
            max_logit = tl.maximum(before, tl.max(logit, axis=0))
            p, rescale = tl.exp2(logit - max_logit), tl.exp2(before - max_logit)
            denominator = denominator * rescale + tl.sum(p, axis=0)
            if FACTORED:
                p *= tl.load(factor + edge * heads + head, valid, other=0.0).to(ACCUM)
            v_sum = v_sum * rescale + tl.sum(p[:, None] * v_j, axis=0)
            if F > 0:
                f_sum = f_sum * rescale + tl.sum(p[:, None] * e_ij, axis=0)
        if slot < 0:
            inverse = tl.where(
                denominator > 0, 1.0 / tl.where(denominator > 0, denominator, 1.0), 0.0
            )
            out_row = heads * (C + F)
            store_row(out, v_sum * inverse, row, head, out_row, C + F, C, BLOCK_C)
            f_sum *= inverse
            store_row(out + C, f_sum, row, head, out_row, C + F, F, BLOCK_F)
            log_sum = max_logit + tl.log2(tl.where(denominator == 0, 1.0, denominator))
            log_sum = tl.where(denominator == 0, float("inf"), log_sum)
            tl.store(lse + row * heads + head, log_sum)
        else:
            place = partials + (slot * heads + head) * (C + F + 2)
            tl.store(place, max_logit)
            tl.store(place + 1, denominator)
            store_row(place + 2, v_sum, 0, 0, 0, 0, C, BLOCK_C)
            store_row(place + 2 + C, f_sum, 0, 0, 0, 0, F, BLOCK_F)


@triton.jit
def combine_forward_kernel(
    out, lse, partials, slot_row, heads,
    ACCUM: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The softmax of a split row: one program per slot; only a row's first works."""
    slot, head = tl.program_id(0), tl.program_id(1)
    row = tl.load(slot_row + slot)
    first = (slot == 0) | (tl.load(slot_row + tl.maximum(slot - 1, 0)) != row)
    if (row >= 0) & first:
        max_logit = tl.full((), LOWEST, ACCUM)
        denominator = tl.full((), 0.0, ACCUM)
        v_sum = tl.zeros((BLOCK_C,), ACCUM)
        same = row
        while same == row:
            place = partials + (slot * heads + head) * (C + 2)
            before, added = max_logit, tl.load(place)
            max_logit = tl.maximum(before, added)
            rescale, share = tl.exp2(before - max_logit), tl.exp2(added - max_logit)
            denominator = denominator * rescale + tl.load(place + 1) * share
            v_sum = (
                v_sum * rescale + load_row(place + 2, 0, 0, 0, 0, C, BLOCK_C) * share
            )
            slot += 1
            same = tl.load(slot_row + slot)
        inverse = tl.where(
            denominator > 0, 1.0 / tl.where(denominator > 0, denominator, 1.0), 0.0
        )
        store_row(out, v_sum * inverse, row, head, heads * C, C, C, BLOCK_C)
        log_sum = max_logit + tl.log2(tl.where(denominator == 0, 1.0, denominator))
        log_sum = tl.where(denominator == 0, float("inf"), log_sum)
        tl.store(lse + row * heads + head, log_sum)
