"""Kernels of the backward pass where edges have a bias, a factor or features.

Keys and values are k_ij = [k_j, edge_ij] and v_ij = [v_j, edge_ij]. With
p_ij = exp(scale q_i . k_ij + bias_ij - lse_i) and delta_i = grad_i . out_i:

    ds_ij = p_ij (factor_ij grad_i . v_ij - delta_i) = dbias_ij,
    dq_i  = scale sum_j ds_ij k_ij,
    [dk_j, dedge_ij] = scale sum ds_ij q_i  (dk_j: over i, dedge_ij: over heads),
    [dv_j, dedge_ij] += sum factor_ij p_ij grad_i  (likewise).

`backward_edges` runs over destinations and stores ds_ij and factor_ij p_ij, two numbers
per edge and head. `backward_keys` runs over sources and adds up with these.
"""

import math

from gsdm_pyg.ops.cpu.edge_block import (
    ENTRY_SIZE,
    accumulate,
    dots_pair,
    gather,
    scatter,
)
from gsdm_pyg.ops.cpu.exponential import softmax_weight
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import full, halves
from gsdm_pyg.ops.cpu.work_items import (
    TABLE_SIZE,
    WEIGHTS_SIZE,
    WHOLE_ROW,
    neighbor,
    next_row,
    original_edge,
    workspace,
)

LOG2_E, LOG_2 = math.log2(math.e), math.log(2)


def make_backward_edges(
    channels: int,
    features: int,
    storage: str,
    same_stride: bool,
    biased: bool,
    factored: bool,
    edge_grad: bool,
):
    """dq of destinations, dedge if `edge_grad`, and the weights of all edges.

    Args:
        channels: C, the channels per head of sources.
        features: F, the channels of edges, which all heads share.
        storage: The name of the dtype of all tensors except lse, ds and p.
        same_stride: Whether rows of k and v have one stride: one offset per edge.
        biased: Whether there is a bias per edge and head.
        factored: Whether there is a factor per edge and head.
        edge_grad: Whether to compute dedge.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]
    feature_offset = channels * stored  # from the first channel
    k_table, v_table, term_table = 0, 0 if same_stride else TABLE_SIZE, 2 * TABLE_SIZE
    weight_table, edge_table = 3 * TABLE_SIZE, 4 * TABLE_SIZE
    partial_size = (3 * channels + features) * size

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
        partials, constants = field(task, "partials"), field(task, "constants")
        table = workspace(task)
        row_ds, row_p = table + 5 * TABLE_SIZE, table + 5 * TABLE_SIZE + WEIGHTS_SIZE
        item, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while item >= 0:
            count = end - start
            for e in range((count + 3) // 4 * 4):
                entry, edge = table + e * ENTRY_SIZE, min(start + e, end - 1)
                j = neighbor(task, edge)
                write(entry + k_table, j * k_row)
                if not same_stride:
                    write(entry + v_table, j * v_row)
                if biased or factored:
                    write(entry + term_table, edge * heads * stored)
                write(entry + weight_table, edge * heads * size)
                if features:
                    write(entry + edge_table, edge * features * stored)

            for head in range(heads):
                k_h, v_h = k + head * k_head, v + head * v_head
                at_q = q + row * q_row + head * q_head
                at_grad = grad + row * grad_row + head * grad_head
                at_stats = stats + row * stats_row + 2 * head * size
                q_i = load(at_q, channels, storage) * scale
                grad_i = load(at_grad, channels, storage)
                if features:
                    f_q = load(at_q + feature_offset, features, storage) * scale
                    f_grad = load(at_grad + feature_offset, features, storage)
                lse_i, delta_i = read(at_stats, accum), read(at_stats + size, accum)
                for e in range(0, count, 4):
                    entry = table + e * ENTRY_SIZE
                    at_k, at_v, at_edge = (
                        entry + k_table,
                        entry + v_table,
                        entry + edge_table,
                    )
                    both = dots_pair(q_i, k_h, at_k, grad_i, v_h, at_v, storage)
                    if features:
                        both = both + dots_pair(
                            f_q, edges, at_edge, f_grad, edges, at_edge, storage
                        )
                    logit, dp = halves(both)
                    at_head, at_weight = entry + term_table, entry + weight_table
                    if biased:
                        b = gather(bias + head * stored, at_head, 4, storage)
                        logit = logit + b * LOG2_E
                    p = softmax_weight(logit, lse_i, constants)
                    ds = p * (dp - delta_i)
                    if factored:
                        kept = gather(factor + head * stored, at_head, 4, storage)
                        ds = p * (dp * kept - delta_i)
                        p = p * kept
                    store(row_ds + e * size, ds, accum)
                    store(row_p + e * size, p, accum)
                    scatter(all_ds + head * size, at_weight, ds, accum)
                    scatter(all_p + head * size, at_weight, p, accum)

                sum_q = full(channels, 0.0, storage)
                for e in range(count):
                    at_k = table + e * ENTRY_SIZE + k_table
                    sum_q = accumulate(sum_q, row_ds + e * size, k_h, at_k, storage)
                sum_q = sum_q * (scale * LOG_2)
                if features:
                    f_sum = full(features, 0.0, storage)
                    for e in range(count):
                        at_edge = table + e * ENTRY_SIZE + edge_table
                        at_ds = row_ds + e * size
                        f_sum = accumulate(f_sum, at_ds, edges, at_edge, storage)
                    f_sum = f_sum * (scale * LOG_2)
                if edge_grad:
                    for e in range(count):
                        ds = read(row_ds + e * size, accum)
                        p = read(row_p + e * size, accum)
                        place = dedges + (start + e) * features * size
                        gradient = f_q * (ds * LOG_2) + f_grad * p
                        if head > 0:
                            gradient = gradient + load(place, features, accum)
                        store(place, gradient, accum)

                if slot == WHOLE_ROW:
                    at_dq = dq + row * dq_row + head * dq_head
                    store(at_dq, sum_q, storage)
                    if features:
                        store(at_dq + feature_offset, f_sum, storage)
                else:
                    at_partial = partials + (slot * heads + head) * partial_size
                    store(at_partial, sum_q, accum)
                    if features:
                        store(at_partial + channels * size, f_sum, accum)
            item, row, stop, start, end, slot = next_row(task, item, row, stop)

    return backward_edges


def make_backward_keys(channels: int, features: int, storage: str):
    """dk and dv of sources, from the weights that `backward_edges` stored.

    Args:
        channels: C, the channels per head of sources.
        features: F, the channels of edges, which follow those in q and grad.
        storage: The name of the dtype of q, grad, dk and dv.
    """
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]
    q_table, grad_table, weight_table = 0, TABLE_SIZE, 2 * TABLE_SIZE
    partial_size = (3 * channels + features) * size

    def backward_keys(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        q, q_row, q_head = tensor(task, "q")
        grad, grad_row, grad_head = tensor(task, "grad")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        all_ds, all_p = field(task, "ds"), field(task, "p")
        partials, table = field(task, "partials"), workspace(task)
        item, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while item >= 0:
            for edge in range(start, end):
                entry, i = table + (edge - start) * ENTRY_SIZE, neighbor(task, edge)
                write(entry + q_table, i * q_row)
                write(entry + grad_table, i * grad_row)
                write(entry + weight_table, original_edge(task, edge) * heads * size)

            for head in range(heads):
                q_h, grad_h = q + head * q_head, grad + head * grad_head
                ds_h, p_h = all_ds + head * size, all_p + head * size
                sum_k = full(channels, 0.0, storage)
                sum_v = full(channels, 0.0, storage)
                for edge in range(start, end):
                    entry = table + (edge - start) * ENTRY_SIZE
                    at_q, at_grad = entry + q_table, entry + grad_table
                    at = read(entry + weight_table, "int64")
                    sum_k = accumulate(sum_k, ds_h + at, q_h, at_q, storage)
                    sum_v = accumulate(sum_v, p_h + at, grad_h, at_grad, storage)
                sum_k = sum_k * (scale * LOG_2)
                if slot == WHOLE_ROW:
                    store(dk + row * dk_row + head * dk_head, sum_k, storage)
                    store(dv + row * dv_row + head * dv_head, sum_v, storage)
                else:
                    at_partial = partials + (slot * heads + head) * partial_size
                    at_partial += (channels + features) * size
                    store(at_partial, sum_k, accum)
                    store(at_partial + channels * size, sum_v, accum)
            item, row, stop, start, end, slot = next_row(task, item, row, stop)

    return backward_keys
