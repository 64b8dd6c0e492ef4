"""Numba kernels of CSR attention on the CPU, one specialisation per channel count.

Logits are in units of log 2, so that exp is exp2: `scale` carries a factor 1 / log 2.
"""

import math

from gsdm_pyg.ops import schedule as at
from gsdm_pyg.ops.schedule import end_row, first_row, next_piece, part_of_row, tensor
from gsdm_pyg.ops.simd import BYTES, load, number, read, store, write, zeros
from gsdm_pyg.ops.simd_math import (
    accumulate,
    dots,
    exp2,
    gather,
    keep_first,
    lookup,
    maximum,
    positions,
    scatter,
    total,
)

BLOCK = 4  # edges computed together, one lane each
LOWEST = -1e30  # below any logit
LOG2_E, LOG_2 = math.log2(math.e), math.log(2)
INF = math.inf


def make_forward(channels: int, storage: str, index: str, biased: bool):
    """out_i = sum_j softmax_j(scale q_i . k_j + bias_ij) v_j and its log-sum-exp."""
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]

    def forward(task):
        heads, scale = read(task + at.HEADS, "int64"), read(task + at.SCALE, "float64")
        q, q_row, q_head = tensor(task + at.Q)
        k, k_row, k_head = tensor(task + at.K)
        v, v_row, v_head = tensor(task + at.V)
        out, out_row, out_head = tensor(task + at.OUT)
        col, lse = read(task + at.COL, "int64"), read(task + at.LSE, "int64")
        bias, parts = read(task + at.BIAS, "int64"), read(task + at.PARTS, "int64")
        piece = next_piece(task)
        while piece >= 0:
            for row in range(first_row(task, piece), end_row(task, piece)):
                start, end, slot = part_of_row(task, row, piece)
                if slot == at.NONE:
                    continue
                for head in range(heads):
                    x = load(q + row * q_row + head * q_head, channels, storage) * scale
                    highest, weight = number(LOWEST, storage), number(0.0, storage)
                    mean = zeros(channels, storage)
                    for edge in range(start, end, BLOCK):
                        e = positions(edge, end, BLOCK)
                        j = lookup(col, e, index)
                        logit = dots(x, k + head * k_head, k_row, j, storage)
                        if biased:
                            b = gather(bias + head * stored, heads * stored, e, storage)
                            logit = logit + b * LOG2_E
                        logit = keep_first(logit, end - edge, -INF)
                        before, highest = highest, maximum(highest, logit)
                        shrink, p = exp2(before - highest), exp2(logit - highest)
                        weight = weight * shrink + total(p)
                        mean = accumulate(
                            mean * shrink, p, v + head * v_head, v_row, j, storage
                        )
                    if slot == at.WHOLE:
                        inverse, log_sum = number(0.0, storage), number(INF, storage)
                        if weight > 0:
                            inverse = number(1.0, storage) / weight
                            log_sum = highest * number(LOG_2, storage) + math.log(weight)
                        store(out + row * out_row + head * out_head, mean * inverse, storage)
                        write(lse + (row * heads + head) * size, log_sum)
                    else:
                        part = parts + (slot * heads + head) * (channels + 2) * size
                        write(part, highest)
                        write(part + size, weight)
                        store(part + 2 * size, mean, accum)
            piece = next_piece(task)

    return forward


def make_combine_forward(channels: int, storage: str, index: str, biased: bool):
    """Add up the parts of every hub, which lie behind one another."""
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]

    def combine_forward(task):
        heads, slots = read(task + at.HEADS, "int64"), 2 * read(task + at.PIECES, "int64")
        out, out_row, out_head = tensor(task + at.OUT)
        lse, parts = read(task + at.LSE, "int64"), read(task + at.PARTS, "int64")
        owner = read(task + at.OWNER, "int64")
        for head in range(heads):
            highest, weight = number(LOWEST, storage), number(0.0, storage)
            mean, last = zeros(channels, storage), -1
            for slot in range(slots):
                row = read(owner + 8 * slot, "int64")
                if row < 0:
                    continue
                if row != last:
                    highest, weight = number(LOWEST, storage), number(0.0, storage)
                    mean, last = zeros(channels, storage), row
                part = parts + (slot * heads + head) * (channels + 2) * size
                before, other = highest, read(part, accum)
                highest = max(before, other)
                shrink, share = exp2(before - highest), exp2(other - highest)
                weight = weight * shrink + read(part + size, accum) * share
                mean = mean * shrink + load(part + 2 * size, channels, accum) * share
                inverse, log_sum = number(0.0, storage), number(INF, storage)
                if weight > 0:
                    inverse = number(1.0, storage) / weight
                    log_sum = highest * number(LOG_2, storage) + math.log(weight)
                store(out + row * out_row + head * out_head, mean * inverse, storage)
                write(lse + (row * heads + head) * size, log_sum)

    return combine_forward


def make_stats(channels: int, storage: str):
    """Per row and head: the log-sum-exp in units of log 2, and grad . out."""
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]

    def stats(task):
        heads, rows = read(task + at.HEADS, "int64"), read(task + at.ROWS, "int64")
        out, out_row, out_head = tensor(task + at.OUT)
        grad, grad_row, grad_head = tensor(task + at.GRAD)
        lse, stats = read(task + at.LSE, "int64"), read(task + at.STATS, "int64")
        piece = next_piece(task)
        while piece >= 0:
            for row in range(piece * at.PIECE, min((piece + 1) * at.PIECE, rows)):
                for head in range(heads):
                    o = load(out + row * out_row + head * out_head, channels, storage)
                    g = load(grad + row * grad_row + head * grad_head, channels, storage)
                    cell = row * heads + head
                    log_sum = read(lse + cell * size, accum)
                    write(stats + 2 * cell * size, log_sum * number(LOG2_E, storage))
                    write(stats + (2 * cell + 1) * size, total(o * g))
            piece = next_piece(task)

    return stats


def make_backward(
    channels: int, storage: str, index: str, biased: bool, query: bool, key: bool
):
    """Gradients of the rows as queries (dq, dbias) and as keys and values (dk, dv).

    With p_ij = exp(logit_ij - lse_i) recomputed and delta_i = grad_i . out_i:
        dbias_ij = p_ij (grad_i . v_j - delta_i),   dq_i = scale sum_j dbias_ij k_j,
        dk_j = scale sum_i dbias_ij q_i,            dv_j = sum_i p_ij grad_i.
    As queries the rows list the sources j of a destination i, as keys the destinations
    of a source; on a symmetric graph these are the same rows, walked once for both.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]

    def backward(task):
        heads, scale = read(task + at.HEADS, "int64"), read(task + at.SCALE, "float64")
        q, q_row, q_head = tensor(task + at.Q)
        k, k_row, k_head = tensor(task + at.K)
        v, v_row, v_head = tensor(task + at.V)
        grad, grad_row, grad_head = tensor(task + at.GRAD)
        dq, dq_row, dq_head = tensor(task + at.DQ)
        dk, dk_row, dk_head = tensor(task + at.DK)
        dv, dv_row, dv_head = tensor(task + at.DV)
        col, stats = read(task + at.COL, "int64"), read(task + at.STATS, "int64")
        bias, dbias = read(task + at.BIAS, "int64"), read(task + at.DBIAS, "int64")
        perm, parts = read(task + at.PERM, "int64"), read(task + at.PARTS, "int64")
        piece = next_piece(task)
        while piece >= 0:
            for row in range(first_row(task, piece), end_row(task, piece)):
                start, end, slot = part_of_row(task, row, piece)
                if slot == at.NONE:
                    continue
                for head in range(heads):
                    q_h, k_h, v_h = q + head * q_head, k + head * k_head, v + head * v_head
                    grad_h, stats_h = grad + head * grad_head, stats + 2 * head * size
                    bias_h, dbias_h = bias + head * stored, dbias + head * stored
                    sum_q = zeros(channels, storage)
                    sum_k = zeros(channels, storage)
                    sum_v = zeros(channels, storage)
                    if query:
                        q_i = load(q_h + row * q_row, channels, storage) * scale
                        grad_i = load(grad_h + row * grad_row, channels, storage)
                        lse_i = read(stats_h + row * 2 * heads * size, accum)
                        delta_i = read(stats_h + (row * 2 * heads + 1) * size, accum)
                    if key:
                        k_i = load(k_h + row * k_row, channels, storage) * scale
                        v_i = load(v_h + row * v_row, channels, storage)
                    for edge in range(start, end, BLOCK):
                        e = positions(edge, end, BLOCK)
                        j = lookup(col, e, index)
                        if query:
                            logit = dots(q_i, k_h, k_row, j, storage)
                            if biased:
                                b = gather(bias_h, heads * stored, e, storage)
                                logit = logit + b * LOG2_E
                            p = keep_first(exp2(logit - lse_i), end - edge, 0.0)
                            dp = dots(grad_i, v_h, v_row, j, storage)
                            ds = p * (dp - delta_i)
                            if biased:
                                scatter(dbias_h, heads * stored, e, ds, storage)
                            sum_q = accumulate(sum_q, ds, k_h, k_row, j, storage)
                        if key:
                            logit = dots(k_i, q_h, q_row, j, storage)
                            if biased:
                                e = lookup(perm, e, index)
                                b = gather(bias_h, heads * stored, e, storage)
                                logit = logit + b * LOG2_E
                            lse_j = gather(stats_h, 2 * heads * size, j, accum)
                            delta_j = gather(stats_h + size, 2 * heads * size, j, accum)
                            p = keep_first(exp2(logit - lse_j), end - edge, 0.0)
                            dp = dots(v_i, grad_h, grad_row, j, storage)
                            ds = p * (dp - delta_j)
                            sum_k = accumulate(sum_k, ds, q_h, q_row, j, storage)
                            sum_v = accumulate(sum_v, p, grad_h, grad_row, j, storage)
                    sum_q, sum_k = sum_q * (scale * LOG_2), sum_k * (scale * LOG_2)
                    if slot == at.WHOLE:
                        if query:
                            store(dq + row * dq_row + head * dq_head, sum_q, storage)
                        if key:
                            store(dk + row * dk_row + head * dk_head, sum_k, storage)
                            store(dv + row * dv_row + head * dv_head, sum_v, storage)
                    else:
                        part = parts + (slot * heads + head) * 3 * channels * size
                        store(part, sum_q, accum)
                        store(part + channels * size, sum_k, accum)
                        store(part + 2 * channels * size, sum_v, accum)
            piece = next_piece(task)

    return backward


def make_combine_backward(channels: int, storage: str, query: bool, key: bool):
    """Add up the parts of every hub's gradients."""
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]

    def combine_backward(task):
        heads, slots = read(task + at.HEADS, "int64"), 2 * read(task + at.PIECES, "int64")
        dq, dq_row, dq_head = tensor(task + at.DQ)
        dk, dk_row, dk_head = tensor(task + at.DK)
        dv, dv_row, dv_head = tensor(task + at.DV)
        owner, parts = read(task + at.OWNER, "int64"), read(task + at.PARTS, "int64")
        for head in range(heads):
            sum_q, sum_k = zeros(channels, storage), zeros(channels, storage)
            sum_v, last = zeros(channels, storage), -1
            for slot in range(slots):
                row = read(owner + 8 * slot, "int64")
                if row < 0:
                    continue
                if row != last:
                    sum_q, sum_k = zeros(channels, storage), zeros(channels, storage)
                    sum_v, last = zeros(channels, storage), row
                part = parts + (slot * heads + head) * 3 * channels * size
                sum_q = sum_q + load(part, channels, accum)
                sum_k = sum_k + load(part + channels * size, channels, accum)
                sum_v = sum_v + load(part + 2 * channels * size, channels, accum)
                if query:
                    store(dq + row * dq_row + head * dq_head, sum_q, storage)
                if key:
                    store(dk + row * dk_row + head * dk_head, sum_k, storage)
                    store(dv + row * dv_row + head * dv_head, sum_v, storage)

    return combine_backward
