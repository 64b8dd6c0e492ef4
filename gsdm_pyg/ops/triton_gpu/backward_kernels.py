"""Triton kernels of the backward pass.

The formulas are in `ops.cpu.backward_kernels` and, with terms per edge,
`ops.cpu.backward_edge_kernels`. With terms (TERMS) the kernel of queries stores the
weights ds and p of all edges, [E, H], and those of keys and of edges read them.
"""

import triton
import triton.language as tl

from gsdm_pyg.ops.triton_gpu.load_store import load_row, load_rows, store_row

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
LOG_2: tl.constexpr = tl.constexpr(0.6931471805599453)


@triton.jit
def softmax_weight(logit, log_sum, valid):
    """2^(logit - log_sum) of valid edges: at most 1, NaN if the logit is NaN."""
    excess = logit - log_sum
    return tl.where(valid, tl.exp2(tl.where(excess > 0.0, 0.0, excess)), 0.0)


@triton.jit
def query_kernel(
    q, k, v, bias, factor, edges, grad, lse, delta, dq, all_ds, all_p, partials,
    chunk_row, chunk_start, chunk_end, chunk_slot, col,
    q_row, q_head, k_row, k_head, v_row, v_head, grad_row, grad_head, dq_row, dq_head,
    heads,
    SCALE: tl.constexpr, BIASED: tl.constexpr, FACTORED: tl.constexpr,
    TERMS: tl.constexpr, ACCUM: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
    F: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """dq of a row, or a split row's partial result, and the weights of its edges."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    row, slot = tl.load(chunk_row + chunk), tl.load(chunk_slot + chunk)
    start, end = tl.load(chunk_start + chunk), tl.load(chunk_end + chunk)
    if row >= 0:
        q_i = load_row(q, row, head, q_row, q_head, C, BLOCK_C).to(ACCUM) * SCALE
        grad_i = load_row(grad, row, head, grad_row, grad_head, C, BLOCK_C).to(ACCUM)
        lse_i = tl.load(lse + row * heads + head)
        delta_i = tl.load(delta + row * heads + head)
        total = tl.zeros((BLOCK_C,), ACCUM)
        f_q = load_row(q + C, row, head, q_row, q_head, F, BLOCK_F).to(ACCUM) * SCALE
        f_grad = load_row(grad + C, row, head, grad_row, grad_head, F, BLOCK_F)
        f_grad = f_grad.to(ACCUM)
        f_total = tl.zeros((BLOCK_F,), ACCUM)
        for first in range(start, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            valid = edge < end
            j = tl.load(col + edge, valid, other=0).to(tl.int64)
            k_j = load_rows(k, j, head, valid, k_row, k_head, C, BLOCK_C).to(ACCUM)
            v_j = load_rows(v, j, head, valid, v_row, v_head, C, BLOCK_C).to(ACCUM)
            logit = tl.sum(q_i[None, :] * k_j, axis=1)
            dp = tl.sum(grad_i[None, :] * v_j, axis=1)
            if F > 0:
                e_ij = load_rows(edges, edge, 0, valid, F, 0, F, BLOCK_F).to(ACCUM)
                logit += tl.sum(f_q[None, :] * e_ij, axis=1)
                dp += tl.sum(f_grad[None, :] * e_ij, axis=1)
            place = edge * heads + head
            if BIASED:
                logit += tl.load(bias + place, valid, other=0.0).to(ACCUM) * LOG2_E
            p = softmax_weight(logit, lse_i, valid)
            if FACTORED:
                kept = tl.load(factor + place, valid, other=0.0).to(ACCUM)
                ds = p * (dp * kept - delta_i)
                p *= kept
            else:
                ds = p * (dp - delta_i)
            if TERMS:
                tl.store(all_ds + place, ds, valid)
                tl.store(all_p + place, p, valid)
            total += tl.sum(ds[:, None] * k_j, axis=0)
            if F > 0:
                f_total += tl.sum(ds[:, None] * e_ij, axis=0)
        total *= SCALE * LOG_2
        f_total *= SCALE * LOG_2
        if slot < 0:
            store_row(dq, total, row, head, dq_row, dq_head, C, BLOCK_C)
            store_row(dq + C, f_total, row, head, dq_row, dq_head, F, BLOCK_F)
        else:
            partials_row = heads * (C + F)
            store_row(partials, total, slot, head, partials_row, C + F, C, BLOCK_C)
            store_row(
                partials + C, f_total, slot, head, partials_row, C + F, F, BLOCK_F
            )


@triton.jit
def edge_kernel(
    q, grad, all_ds, all_p, dedge, chunk_row, chunk_start, chunk_end,
    q_row, q_head, grad_row, grad_head, heads,
    SCALE: tl.constexpr, ACCUM: tl.constexpr, C: tl.constexpr,
    F: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """dedge of the edges of a row, or of a split row's chunk: a sum over heads."""
    chunk = tl.program_id(0)
    row = tl.load(chunk_row + chunk)
    start, end = tl.load(chunk_start + chunk), tl.load(chunk_end + chunk)
    if row >= 0:
        for first in range(start, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            valid = edge < end
            total = tl.zeros((BLOCK_E, BLOCK_F), ACCUM)
            for head in range(heads):
                f_q = load_row(q + C, row, head, q_row, q_head, F, BLOCK_F).to(ACCUM)
                f_grad = load_row(grad + C, row, head, grad_row, grad_head, F, BLOCK_F)
                ds = tl.load(all_ds + edge * heads + head, valid, other=0.0)
                p = tl.load(all_p + edge * heads + head, valid, other=0.0)
                total += ds[:, None] * (f_q * (SCALE * LOG_2))[None, :]
                total += p[:, None] * f_grad.to(ACCUM)[None, :]
            feature = tl.arange(0, BLOCK_F)[None, :]
            inside = valid[:, None] & (feature < F)
            tl.store(dedge + edge[:, None] * F + feature, total, inside)


@triton.jit
def key_kernel(
    q, k, v, grad, lse, delta, all_ds, all_p, dk, dv, k_partials, v_partials,
    chunk_row, chunk_start, chunk_end, chunk_slot, col, perm,
    q_row, q_head, k_row, k_head, v_row, v_head, grad_row, grad_head,
    dk_row, dk_head, dv_row, dv_head, heads,
    SCALE: tl.constexpr, TERMS: tl.constexpr, ACCUM: tl.constexpr,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """dk and dv of a row of the transposed graph, or a split row's partial results."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    row, slot = tl.load(chunk_row + chunk), tl.load(chunk_slot + chunk)
    start, end = tl.load(chunk_start + chunk), tl.load(chunk_end + chunk)
    if row >= 0:
        k_j = load_row(k, row, head, k_row, k_head, C, BLOCK_C).to(ACCUM) * SCALE
        v_j = load_row(v, row, head, v_row, v_head, C, BLOCK_C).to(ACCUM)
        k_total = tl.zeros((BLOCK_C,), ACCUM)
        v_total = tl.zeros((BLOCK_C,), ACCUM)
        for first in range(start, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            valid = edge < end
            i = tl.load(col + edge, valid, other=0).to(tl.int64)
            q_i = load_rows(q, i, head, valid, q_row, q_head, C, BLOCK_C).to(ACCUM)
            grad_i = load_rows(grad, i, head, valid, grad_row, grad_head, C, BLOCK_C)
            grad_i = grad_i.to(ACCUM)
            if TERMS:
                position = tl.load(perm + edge, valid, other=0).to(tl.int64)
                ds = tl.load(all_ds + position * heads + head, valid, other=0.0)
                p = tl.load(all_p + position * heads + head, valid, other=0.0)
            else:
                lse_i = tl.load(lse + i * heads + head, valid, other=0.0)
                delta_i = tl.load(delta + i * heads + head, valid, other=0.0)
                logit = tl.sum(k_j[None, :] * q_i, axis=1)
                p = softmax_weight(logit, lse_i, valid)
                ds = p * (tl.sum(v_j[None, :] * grad_i, axis=1) - delta_i)
            k_total += tl.sum(ds[:, None] * q_i, axis=0)
            v_total += tl.sum(p[:, None] * grad_i, axis=0)
        k_total *= SCALE * LOG_2
        if slot < 0:
            store_row(dk, k_total, row, head, dk_row, dk_head, C, BLOCK_C)
            store_row(dv, v_total, row, head, dv_row, dv_head, C, BLOCK_C)
        else:
            store_row(k_partials, k_total, slot, head, heads * C, C, C, BLOCK_C)
            store_row(v_partials, v_total, slot, head, heads * C, C, C, BLOCK_C)


@triton.jit
def combine_backward_kernel(
    x, partials, slot_row, x_row, x_head, heads,
    ACCUM: tl.constexpr, C: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """The gradient of a split row: one program per slot; only a row's first works."""
    slot, head = tl.program_id(0), tl.program_id(1)
    row = tl.load(slot_row + slot)
    first = (slot == 0) | (tl.load(slot_row + tl.maximum(slot - 1, 0)) != row)
    if (row >= 0) & first:
        total = tl.zeros((BLOCK_C,), ACCUM)
        same = row
        while same == row:
            total += load_row(partials, slot, head, heads * C, C, C, BLOCK_C)
            slot += 1
            same = tl.load(slot_row + slot)
        store_row(x, total, row, head, x_row, x_head, C, BLOCK_C)
