"""Kernels of the backward pass where edges have a bias, a factor or features.

Keys and values are k_ij = [k_j, edge_ij] and v_ij = [v_j, edge_ij]. With
p_ij = exp(scale q_i . k_ij + bias_ij - lse_i) and delta_i = grad_i . out_i:

    ds_ij = p_ij (factor_ij grad_i . v_ij - delta_i) = dbias_ij,
    dq_i  = scale sum_j ds_ij k_ij,
    [dk_j, dedge_ij] = scale sum ds_ij q_i  (dk_j: over i, dedge_ij: over heads),
    [dv_j, dedge_ij] += sum factor_ij p_ij grad_i  (likewise).

`backward_edges` walks over destinations and leaves ds_ij and factor_ij p_ij, two
numbers per edge and head; `backward_keys` walks over sources and adds up with these.
"""

import math

from gsdm_pyg.ops.cpu.edge_block import (
    ENTRY,
    accumulate,
    dots_pair,
    gather,
    scatter,
)
from gsdm_pyg.ops.cpu.exponential import exp2
from gsdm_pyg.ops.cpu.schedule import (
    TABLE,
    WEIGHTS,
    WHOLE,
    edge_in_row,
    neighbour,
    next_row,
    workspace,
)
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import filled, halves

LOG2_E, LOG_2 = math.log2(math.e), math.log(2)


def make_backward_edges(
    channels: int,
    features: int,
    storage: str,
    shared: bool,
    biased: bool,
    factored: bool,
    edge_grad: bool,
):
    """dq of destinations, dedge if asked for, and the weights of all edges.

    Args:
        channels: C, the channels per head of sources.
        features: F, the channels of edges, which all heads share.
        storage: The dtype of all tensors but lse, ds and p, by name.
        shared: Rows of k and v have the same stride: one offset per edge serves both.
        biased: Whether there is a bias per edge and head.
        factored: Whether there is a factor per edge and head.
        edge_grad: Compute dedge.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]
    of_features = channels * stored  # behind the first channel
    of_k, of_v, of_head = 0, 0 if shared else TABLE, 2 * TABLE
    of_weight, of_edge = 3 * TABLE, 4 * TABLE
    part_size = (3 * channels + features) * size

    def backward_edges(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        q, q_row, q_head = tensor(task, "q")
        k, k_row, k_head = tensor(task, "k")
        v, v_row, v_head = tensor(task, "v")
        grad, grad_row, grad_head = tensor(task, "grad")
        dq, dq_row, dq_head = tensor(task, "dq")
        stats, stats_row = field(task, "stats"), 2 * heads * size
        bias, factor = field(task, "bias"), field(task, "factor")
        edges, dedges = field(task, "edge"), field(task, "dedge")
        all_ds, all_p = field(task, "ds"), field(task, "p")
        parts, constants = field(task, "parts"), field(task, "constants")
        table = workspace(task)
        row_ds, row_p = table + 5 * TABLE, table + 5 * TABLE + WEIGHTS
        piece, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while piece >= 0:
            count = end - start
            for e in range((count + 3) // 4 * 4):
                entry, edge = table + e * ENTRY, min(start + e, end - 1)
                j = neighbour(task, edge)
                write(entry + of_k, j * k_row)
                if not shared:
                    write(entry + of_v, j * v_row)
                if biased or factored:
                    write(entry + of_head, edge * heads * stored)
                write(entry + of_weight, edge * heads * size)
                if features:
                    write(entry + of_edge, edge * features * stored)

            for head in range(heads):
                k_h, v_h = k + head * k_head, v + head * v_head
                at_q = q + row * q_row + head * q_head
                at_grad = grad + row * grad_row + head * grad_head
                at_stats = stats + row * stats_row + 2 * head * size
                q_i = load(at_q, channels, storage) * scale
                grad_i = load(at_grad, channels, storage)
                if features:
                    f_q = load(at_q + of_features, features, storage) * scale
                    f_grad = load(at_grad + of_features, features, storage)
                lse_i, delta_i = read(at_stats, accum), read(at_stats + size, accum)
                for e in range(0, count, 4):
                    entry = table + e * ENTRY
                    at_k, at_v, at_edge = entry + of_k, entry + of_v, entry + of_edge
                    both = dots_pair(q_i, k_h, at_k, grad_i, v_h, at_v, storage)
                    if features:
                        both = both + dots_pair(
                            f_q, edges, at_edge, f_grad, edges, at_edge, storage
                        )
                    logit, dp = halves(both)
                    at_head, at_weight = entry + of_head, entry + of_weight
                    if biased:
                        b = gather(bias + head * stored, at_head, 4, storage)
                        logit = logit + b * LOG2_E
                    p = exp2(logit - lse_i, constants)
                    ds = p * (dp - delta_i)
                    if factored:
                        kept = gather(factor + head * stored, at_head, 4, storage)
                        ds = p * (dp * kept - delta_i)
                        p = p * kept
                    store(row_ds + e * size, ds, accum)
                    store(row_p + e * size, p, accum)
                    scatter(all_ds + head * size, at_weight, ds, accum)
                    scatter(all_p + head * size, at_weight, p, accum)

                sum_q = filled(channels, 0.0, storage)
                for e in range(count):
                    at_k = table + e * ENTRY + of_k
                    sum_q = accumulate(sum_q, row_ds + e * size, k_h, at_k, storage)
                sum_q = sum_q * (scale * LOG_2)
                if features:
                    f_sum = filled(features, 0.0, storage)
                    for e in range(count):
                        at_edge = table + e * ENTRY + of_edge
                        at_ds = row_ds + e * size
                        f_sum = accumulate(f_sum, at_ds, edges, at_edge, storage)
                    f_sum = f_sum * (scale * LOG_2)
                if edge_grad:
                    for e in range(count):
                        ds = read(row_ds + e * size, accum)
                        p = read(row_p + e * size, accum)
                        place = dedges + (start + e) * features * size
                        total = f_q * (ds * LOG_2) + f_grad * p
                        if head > 0:
                            total = total + load(place, features, accum)
                        store(place, total, accum)

                if slot == WHOLE:
                    at_dq = dq + row * dq_row + head * dq_head
                    store(at_dq, sum_q, storage)
                    if features:
                        store(at_dq + of_features, f_sum, storage)
                else:
                    at_part = parts + (slot * heads + head) * part_size
                    store(at_part, sum_q, accum)
                    if features:
                        store(at_part + channels * size, f_sum, accum)
            piece, row, stop, start, end, slot = next_row(task, piece, row, stop)

    return backward_edges


def make_backward_keys(channels: int, features: int, storage: str):
    """dk and dv of sources, from the weights that `backward_edges` left.

    Args:
        channels: C, the channels per head of sources.
        features: F, the channels of edges, which q and grad have behind those.
        storage: The dtype of q, grad, dk and dv, by name.
    """
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]
    of_q, of_grad, of_weight = 0, TABLE, 2 * TABLE
    part_size = (3 * channels + features) * size

    def backward_keys(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        q, q_row, q_head = tensor(task, "q")
        grad, grad_row, grad_head = tensor(task, "grad")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        all_ds, all_p = field(task, "ds"), field(task, "p")
        parts, table = field(task, "parts"), workspace(task)
        piece, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while piece >= 0:
            for edge in range(start, end):
                entry, i = table + (edge - start) * ENTRY, neighbour(task, edge)
                write(entry + of_q, i * q_row)
                write(entry + of_grad, i * grad_row)
                write(entry + of_weight, edge_in_row(task, edge) * heads * size)

            for head in range(heads):
                q_h, grad_h = q + head * q_head, grad + head * grad_head
                ds_h, p_h = all_ds + head * size, all_p + head * size
                sum_k = filled(channels, 0.0, storage)
                sum_v = filled(channels, 0.0, storage)
                for edge in range(start, end):
                    entry = table + (edge - start) * ENTRY
                    at_q, at_grad = entry + of_q, entry + of_grad
                    at = read(entry + of_weight, "int64")
                    sum_k = accumulate(sum_k, ds_h + at, q_h, at_q, storage)
                    sum_v = accumulate(sum_v, p_h + at, grad_h, at_grad, storage)
                sum_k = sum_k * (scale * LOG_2)
                if slot == WHOLE:
                    store(dk + row * dk_row + head * dk_head, sum_k, storage)
                    store(dv + row * dv_row + head * dv_head, sum_v, storage)
                else:
                    at_part = parts + (slot * heads + head) * part_size
                    at_part += (channels + features) * size
                    store(at_part, sum_k, accum)
                    store(at_part + channels * size, sum_v, accum)
            piece, row, stop, start, end, slot = next_row(task, piece, row, stop)

    return backward_keys
