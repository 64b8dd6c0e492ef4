"""Triton kernels of the forward pass: one program per part of a row and head.

A program holds one head's channels of its row and walks over the edges in blocks of
BLOCK_E. Logits are in units of log 2; log2 of the softmax's denominator is saved.
"""

import triton
import triton.language as tl

from gsdm_pyg.ops.triton_gpu.rows import load_row, load_rows, store_row

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LOWEST: tl.constexpr = tl.constexpr(-1.0e30)


@triton.jit
def forward_kernel(
    q, k, v, bias, factor, edges, out, lse, sums,
    part_row, part_start, part_end, part_slot, col,
    q_row, q_head, k_row, k_head, v_row, v_head, heads,
    SCALE: tl.constexpr, BIASED: tl.constexpr, FACTORED: tl.constexpr,
    ACCUM: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
    F: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """out_i and lse_i, or (maximum, denominator, weighted sum) of a cut row's part."""
    part, head = tl.program_id(0), tl.program_id(1)
    row, slot = tl.load(part_row + part), tl.load(part_slot + part)
    start, end = tl.load(part_start + part), tl.load(part_end + part)
    if row >= 0:
        q_i = load_row(q, row, head, q_row, q_head, C, BLOCK_C).to(ACCUM) * SCALE
        top = tl.full((), LOWEST, ACCUM)
        weight = tl.full((), 0.0, ACCUM)
        mean = tl.zeros((BLOCK_C,), ACCUM)
        f_i = load_row(q + C, row, head, q_row, q_head, F, BLOCK_F).to(ACCUM) * SCALE
        f_mean = tl.zeros((BLOCK_F,), ACCUM)
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
            before = top
            top = tl.maximum(before, tl.max(logit, axis=0))
            p, shrink = tl.exp2(logit - top), tl.exp2(before - top)
            weight = weight * shrink + tl.sum(p, axis=0)
            if FACTORED:
                p *= tl.load(factor + edge * heads + head, valid, other=0.0).to(ACCUM)
            mean = mean * shrink + tl.sum(p[:, None] * v_j, axis=0)
            if F > 0:
                f_mean = f_mean * shrink + tl.sum(p[:, None] * e_ij, axis=0)
        if slot < 0:
            inverse = tl.where(weight > 0, 1.0 / tl.where(weight > 0, weight, 1.0), 0.0)
            out_row = heads * (C + F)
            store_row(out, mean * inverse, row, head, out_row, C + F, C, BLOCK_C)
            f_mean *= inverse
            store_row(out + C, f_mean, row, head, out_row, C + F, F, BLOCK_F)
            log_sum = top + tl.log2(tl.where(weight > 0, weight, 1.0))
            log_sum = tl.where(weight > 0, log_sum, float("inf"))
            tl.store(lse + row * heads + head, log_sum)
        else:
            place = sums + (slot * heads + head) * (C + F + 2)
            tl.store(place, top)
            tl.store(place + 1, weight)
            store_row(place + 2, mean, 0, 0, 0, 0, C, BLOCK_C)
            store_row(place + 2 + C, f_mean, 0, 0, 0, 0, F, BLOCK_F)


@triton.jit
def combine_forward_kernel(
    out, lse, sums, owner, heads,
    ACCUM: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The softmax of a cut row: one program per slot, of which a row's first works."""
    slot, head = tl.program_id(0), tl.program_id(1)
    row = tl.load(owner + slot)
    first = (slot == 0) | (tl.load(owner + tl.maximum(slot - 1, 0)) != row)
    if (row >= 0) & first:
        top = tl.full((), LOWEST, ACCUM)
        weight = tl.full((), 0.0, ACCUM)
        mean = tl.zeros((BLOCK_C,), ACCUM)
        same = row
        while same == row:
            place = sums + (slot * heads + head) * (C + 2)
            before, here = top, tl.load(place)
            top = tl.maximum(before, here)
            shrink, share = tl.exp2(before - top), tl.exp2(here - top)
            weight = weight * shrink + tl.load(place + 1) * share
            mean = mean * shrink + load_row(place + 2, 0, 0, 0, 0, C, BLOCK_C) * share
            slot += 1
            same = tl.load(owner + slot)
        inverse = tl.where(weight > 0, 1.0 / tl.where(weight > 0, weight, 1.0), 0.0)
        store_row(out, mean * inverse, row, head, heads * C, C, C, BLOCK_C)
        log_sum = top + tl.log2(tl.where(weight > 0, weight, 1.0))
        log_sum = tl.where(weight > 0, log_sum, float("inf"))
        tl.store(lse + row * heads + head, log_sum)
