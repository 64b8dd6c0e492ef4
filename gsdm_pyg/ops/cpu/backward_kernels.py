"""Kernels of the backward pass: weights are recomputed, no sum needs an atomic.

With p_ij = exp(scale q_i . k_j - lse_i) and delta_i = grad_i . out_i:

    ds_ij = p_ij (grad_i . v_j - delta_i),
    dq_i  = scale sum_j ds_ij k_j,
    dk_j  = scale sum_i ds_ij q_i,    dv_j = sum_i p_ij grad_i.
"""

import math

from gsdm_pyg.ops.cpu.edge_block import (
    ENTRY_SIZE,
    accumulate,
    dots,
    dots_pair,
    dots_single,
    gather_pairs,
)
from gsdm_pyg.ops.cpu.exponential import softmax_weight
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import (
    BYTES,
    fence,
    load,
    prefetch_write,
    read,
    store,
    store_result,
    write,
)
from gsdm_pyg.ops.cpu.vector_math import concat, full, halves, reduce_sum
from gsdm_pyg.ops.cpu.work_items import (
    PREFETCH_ROWS,
    TABLE_SIZE,
    WEIGHTS_SIZE,
    WHOLE_ROW,
    neighbor,
    next_item,
    next_row,
    workspace,
)

LOG_2 = math.log(2)
ROWS_PER_ITEM = 512  # of `stats`


def make_stats(channels: int, storage: str):
    """Two numbers per row and head: lse_i and delta_i = grad_i . out_i."""
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]

    def stats(task):
        rows, heads = field(task, "num_rows"), field(task, "heads")
        out, out_row, out_head = tensor(task, "out")
        grad, grad_row, grad_head = tensor(task, "grad")
        lse, stats = field(task, "lse"), field(task, "stats")
        item = next_item(task)
        while item >= 0:
            for row in range(
                item * ROWS_PER_ITEM, min((item + 1) * ROWS_PER_ITEM, rows)
            ):
                for head in range(heads):
                    cell = row * heads + head
                    o = load(out + row * out_row + head * out_head, channels, storage)
                    g = load(
                        grad + row * grad_row + head * grad_head, channels, storage
                    )
                    write(stats + 2 * cell * size, read(lse + cell * size, accum))
                    write(stats + (2 * cell + 1) * size, reduce_sum(o * g))
            item = next_item(task)

    return stats


def make_backward(
    channels: int,
    storage: str,
    same_stride: bool,
    query: bool,
    key: bool,
    nontemporal: bool,
):
    """Gradients of rows as queries (dq), as keys and values (dk, dv), or both.

    As queries, rows list the sources j of a destination i; as keys, the destinations of
    a source. On a symmetric graph these are the same rows, and one pass over them does
    both. Every head takes two steps: the weights of its edges, then the weighted sums.

    Args:
        channels: C, the channels per head.
        storage: The name of the dtype of q, k, v, grad and their gradients.
        same_stride: Whether rows of q, k and v have one stride: one offset per edge.
        query: Whether to compute dq.
        key: Whether to compute dk and dv.
        nontemporal: Whether to write gradients past the caches, which are too small
            for them; needs heads whose channels are whole cache lines.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]
    width = channels * stored
    q_table, k_table, v_table = (
        (0, 0, 0) if same_stride else (0, TABLE_SIZE, 2 * TABLE_SIZE)
    )
    grad_table, stats_table = 3 * TABLE_SIZE, 4 * TABLE_SIZE

    def backward(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        q, q_row, q_head = tensor(task, "q")
        k, k_row, k_head = tensor(task, "k")
        v, v_row, v_head = tensor(task, "v")
        grad, grad_row, grad_head = tensor(task, "grad")
        dq, dq_row, dq_head = tensor(task, "dq")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        stats, stats_row = field(task, "stats"), 2 * heads * size
        partials, constants = field(task, "partials"), field(task, "constants")
        table = workspace(task)
        query_ds = table + 5 * TABLE_SIZE
        key_ds, key_p = query_ds + WEIGHTS_SIZE, query_ds + 2 * WEIGHTS_SIZE
        item, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while item >= 0:
            count = end - start
            for e in range((count + 3) // 4 * 4):
                entry = table + e * ENTRY_SIZE
                j = neighbor(task, min(start + e, end - 1))
                if query:
                    write(entry + k_table, j * k_row)
                    if not same_stride:
                        write(entry + v_table, j * v_row)
                if key:
                    write(entry + q_table, j * q_row)
                    write(entry + grad_table, j * grad_row)
                    write(entry + stats_table, j * stats_row)
            for head in range(heads):
                q_h, k_h, v_h = q + head * q_head, k + head * k_head, v + head * v_head
                grad_h, stats_h = grad + head * grad_head, stats + 2 * head * size
                dq_i = dq + row * dq_row + head * dq_head
                dk_i = dk + row * dk_row + head * dk_head
                dv_i = dv + row * dv_row + head * dv_head
                if query and not nontemporal:
                    prefetch_write(dq_i + PREFETCH_ROWS * dq_row, width)
                if key and not nontemporal:
                    prefetch_write(dk_i + PREFETCH_ROWS * dk_row, width)
                    prefetch_write(dv_i + PREFETCH_ROWS * dv_row, width)
                if query:
                    q_i = load(q_h + row * q_row, channels, storage) * scale
                    grad_i = load(grad_h + row * grad_row, channels, storage)
                    lse_i = read(stats_h + row * stats_row, accum)
                    delta_i = read(stats_h + row * stats_row + size, accum)
                if key:
                    k_i = load(k_h + row * k_row, channels, storage) * scale
                    v_i = load(v_h + row * v_row, channels, storage)

                # One edge after the blocks is computed alone: a block costs more.
                single = 1 if query and key and count % 4 == 1 else 0
                for e in range(0, count - single, 4):
                    entry = table + e * ENTRY_SIZE
                    at_q, at_k, at_v = entry + q_table, entry + k_table, entry + v_table
                    at_grad = entry + grad_table
                    if key:
                        lse_j, delta_j = gather_pairs(
                            stats_h, entry + stats_table, accum
                        )
                    if query and key:
                        logit = dots_pair(q_i, k_h, at_k, k_i, q_h, at_q, storage)
                        dp = dots_pair(grad_i, v_h, at_v, v_i, grad_h, at_grad, storage)
                        p = softmax_weight(logit, concat(lse_i, lse_j), constants)
                        ds_i, ds_j = halves(p * (dp - concat(delta_i, delta_j)))
                        _, p_j = halves(p)
                    elif query:
                        logit = dots(q_i, k_h, at_k, 4, storage)
                        dp = dots(grad_i, v_h, at_v, 4, storage)
                        ds_i = softmax_weight(logit, lse_i, constants) * (dp - delta_i)
                    else:
                        logit = dots(k_i, q_h, at_q, 4, storage)
                        dp = dots(v_i, grad_h, at_grad, 4, storage)
                        p_j = softmax_weight(logit, lse_j, constants)
                        ds_j = p_j * (dp - delta_j)
                    if query:
                        store(query_ds + e * size, ds_i, accum)
                    if key:
                        store(key_ds + e * size, ds_j, accum)
                        store(key_p + e * size, p_j, accum)

                if query and key and single:
                    at, entry = (count - 1) * size, table + (count - 1) * ENTRY_SIZE
                    k_j = k_h + read(entry + k_table, "int64")
                    q_j = q_h + read(entry + q_table, "int64")
                    v_j = v_h + read(entry + v_table, "int64")
                    grad_j = grad_h + read(entry + grad_table, "int64")
                    stats_j = stats_h + read(entry + stats_table, "int64")
                    lse = concat(lse_i, load(stats_j, 1, accum))
                    delta = concat(delta_i, load(stats_j + size, 1, accum))
                    logit, dp = halves(
                        dots_single(
                            q_i, k_j, k_i, q_j, grad_i, v_j, v_i, grad_j, storage
                        )
                    )
                    p = softmax_weight(logit, lse, constants)
                    ds_i, ds_j = halves(p * (dp - delta))
                    _, p_j = halves(p)
                    store(query_ds + at, ds_i, accum)
                    store(key_ds + at, ds_j, accum)
                    store(key_p + at, p_j, accum)

                sum_q = full(channels, 0.0, storage)
                sum_k = full(channels, 0.0, storage)
                sum_v = full(channels, 0.0, storage)
                for e in range(count):
                    at, entry = e * size, table + e * ENTRY_SIZE
                    at_q, at_k, at_grad = (
                        entry + q_table,
                        entry + k_table,
                        entry + grad_table,
                    )
                    if query:
                        sum_q = accumulate(sum_q, query_ds + at, k_h, at_k, storage)
                    if key:
                        sum_k = accumulate(sum_k, key_ds + at, q_h, at_q, storage)
                        sum_v = accumulate(sum_v, key_p + at, grad_h, at_grad, storage)
                sum_q, sum_k = sum_q * (scale * LOG_2), sum_k * (scale * LOG_2)

                if slot != WHOLE_ROW:
                    partial = partials + (slot * heads + head) * 3 * channels * size
                    store(partial, sum_q, accum)
                    store(partial + channels * size, sum_k, accum)
                    store(partial + 2 * channels * size, sum_v, accum)
                    continue
                if query:
                    store_result(dq_i, sum_q, storage, nontemporal)
                if key:
                    store_result(dk_i, sum_k, storage, nontemporal)
                    store_result(dv_i, sum_v, storage, nontemporal)
            item, row, stop, start, end, slot = next_row(task, item, row, stop)
        if nontemporal:
            fence()

    return backward
