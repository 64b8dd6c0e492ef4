"""Kernels of the forward pass, one specialization per number of channels.

Logits are in units of log 2, so that exp is exp2: `scale` carries a factor 1 / log 2,
and the log-sum-exp is saved as log2 of the sum of exponentials.
"""

import math

from gsdm_pyg.ops.cpu.edge_block import ENTRY_SIZE, accumulate, dots, gather
from gsdm_pyg.ops.cpu.exponential import exp2, log2
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, prefetch_write, read, store, write
from gsdm_pyg.ops.cpu.vector_math import (
    concat,
    full,
    keep_first,
    maximum,
    reduce_max,
    reduce_sum,
    scalar,
)
from gsdm_pyg.ops.cpu.work_items import (
    PREFETCH_ROWS,
    TABLE_SIZE,
    WHOLE_ROW,
    neighbor,
    next_row,
    workspace,
)

INF = math.inf
LOG2_E = math.log2(math.e)
LOWEST = -1e30  # below any logit, and finite: the maximum of a row without edges


def make_forward(
    channels: int,
    features: int,
    storage: str,
    same_stride: bool,
    biased: bool,
    factored: bool,
):
    """out_i = sum_j softmax_j(scale q_i . k_ij + bias_ij) factor_ij v_ij, and lse_i.

    Keys k_ij and values v_ij are those of the source j, then the features of the edge.

    A row takes three steps: the logits of its edges, their exponentials relative to the
    largest, and the weighted sum of values. Each step goes over all heads before the
    next begins, as the steps of one head wait for each other. A hub's partial result is
    (maximum, sum of exponentials, weighted sum), for `combine_forward`.

    Args:
        channels: C, the channels per head of sources.
        features: F, the channels of edges, which all heads share.
        storage: The name of the dtype of all tensors except lse.
        same_stride: Whether rows of k and v have one stride: one offset per edge.
        biased: Whether there is a bias per edge and head.
        factored: Whether there is a factor per edge and head.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]
    feature_offset = channels * stored  # from the first channel
    width = feature_offset + features * stored
    k_table, v_table = 0, 0 if same_stride else TABLE_SIZE  # offsets in the workspace
    term_table, edge_table = 2 * TABLE_SIZE, 3 * TABLE_SIZE

    def forward(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        q, q_row, q_head = tensor(task, "q")
        k, k_row, k_head = tensor(task, "k")
        v, v_row, v_head = tensor(task, "v")
        out, out_row, out_head = tensor(task, "out")
        bias, factor = field(task, "bias"), field(task, "factor")
        edges, lse = field(task, "edge"), field(task, "lse")
        partials, constants = field(task, "partials"), field(task, "constants")
        table = workspace(task)
        maxima = table + 4 * TABLE_SIZE
        denominators = maxima + 8 * heads
        weights = denominators + 8 * heads
        item, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while item >= 0:
            count = end - start
            blocks = (count + 3) // 8 * 8  # edges in blocks of 8; 1 to 4 may be left
            num_entries = blocks if blocks >= count else blocks + 4
            if factored:
                num_entries = (count + 7) // 8 * 8
            for e in range(num_entries):
                edge = min(start + e, end - 1)
                j = neighbor(task, edge)
                write(table + e * ENTRY_SIZE + k_table, j * k_row)
                if not same_stride:
                    write(table + e * ENTRY_SIZE + v_table, j * v_row)
                if biased or factored:
                    write(table + e * ENTRY_SIZE + term_table, edge * heads * stored)
                if features:
                    write(table + e * ENTRY_SIZE + edge_table, edge * features * stored)
            weights_stride = (count + 7) // 8 * 8 * size  # between heads

            for head in range(heads):
                k_h, b_h = k + head * k_head, bias + head * stored
                at_h = weights + head * weights_stride
                at_q = q + row * q_row + head * q_head
                q_i = load(at_q, channels, storage) * scale
                if features:
                    f_i = load(at_q + feature_offset, features, storage) * scale
                max_logits = full(8, LOWEST, storage)
                for e in range(0, blocks, 8):
                    entry = table + e * ENTRY_SIZE
                    at_k, at_edge = entry + k_table, entry + edge_table
                    logit = dots(q_i, k_h, at_k, 8, storage)
                    if features:
                        logit = logit + dots(f_i, edges, at_edge, 8, storage)
                    if biased:
                        logit = (
                            logit + gather(b_h, entry + term_table, 8, storage) * LOG2_E
                        )
                    store(at_h + e * size, logit, accum)
                    max_logits = maximum(max_logits, logit)
                if blocks < count:
                    entry = table + blocks * ENTRY_SIZE
                    at_k, at_edge = entry + k_table, entry + edge_table
                    half = dots(q_i, k_h, at_k, 4, storage)
                    if features:
                        half = half + dots(f_i, edges, at_edge, 4, storage)
                    if biased:
                        half = (
                            half + gather(b_h, entry + term_table, 4, storage) * LOG2_E
                        )
                    logit = concat(half, LOWEST)
                    store(at_h + blocks * size, logit, accum)
                    max_logits = maximum(max_logits, logit)
                write(maxima + head * size, reduce_max(max_logits))

            for head in range(heads):
                at_h, max_logit = (
                    weights + head * weights_stride,
                    read(maxima + head * size, accum),
                )
                p_sum = full(8, 0.0, storage)
                for e in range(0, count, 8):
                    p = exp2(load(at_h + e * size, 8, accum) - max_logit, constants)
                    p = keep_first(p, count - e, 0.0)
                    p_sum = p_sum + p
                    if factored:
                        at = table + e * ENTRY_SIZE + term_table
                        p = p * gather(factor + head * stored, at, 8, storage)
                    store(at_h + e * size, p, accum)
                write(denominators + head * size, reduce_sum(p_sum))

            for head in range(heads):
                v_h, at_h = v + head * v_head, weights + head * weights_stride
                out_i = out + row * out_row + head * out_head
                prefetch_write(out_i + PREFETCH_ROWS * out_row, width)
                # Two sums, as one would wait for each of its additions to finish.
                v_sum = full(channels, 0.0, storage)
                odd_sum = full(channels, 0.0, storage)
                for e in range(0, count - 1, 2):
                    at, at_v = at_h + e * size, table + e * ENTRY_SIZE + v_table
                    v_sum = accumulate(v_sum, at, v_h, at_v, storage)
                    odd_sum = accumulate(
                        odd_sum, at + size, v_h, at_v + ENTRY_SIZE, storage
                    )
                if count % 2:
                    at = at_h + (count - 1) * size
                    at_v = table + (count - 1) * ENTRY_SIZE + v_table
                    v_sum = accumulate(v_sum, at, v_h, at_v, storage)
                v_sum = v_sum + odd_sum
                if features:
                    f_sum = full(features, 0.0, storage)
                    for e in range(count):
                        at_edge = table + e * ENTRY_SIZE + edge_table
                        f_sum = accumulate(
                            f_sum, at_h + e * size, edges, at_edge, storage
                        )

                max_logit = read(maxima + head * size, accum)
                denominator = read(denominators + head * size, accum)
                if slot == WHOLE_ROW:
                    inverse, log_sum = scalar(0.0, storage), scalar(INF, storage)
                    if denominator > 0:
                        inverse = scalar(1.0, storage) / denominator
                        log_sum = max_logit + log2(denominator, constants)
                    elif denominator != denominator:
                        log_sum = denominator  # NaN, also in the backward pass
                    store(out_i, v_sum * inverse, storage)
                    if features:
                        store(out_i + feature_offset, f_sum * inverse, storage)
                    write(lse + (row * heads + head) * size, log_sum)
                else:
                    partial_size = (channels + features + 2) * size
                    partial = partials + (slot * heads + head) * partial_size
                    write(partial, max_logit)
                    write(partial + size, denominator)
                    store(partial + 2 * size, v_sum, accum)
                    if features:
                        store(partial + (channels + 2) * size, f_sum, accum)
            item, row, stop, start, end, slot = next_row(task, item, row, stop)

    return forward
