"""Kernels of the forward pass, one specialisation per number of channels.

Logits are in units of log 2, so that exp is exp2: `scale` carries a factor 1 / log 2,
and the log-sum-exp is saved as log2 of the sum of exponentials.
"""

import math

from gsdm_pyg.ops.cpu.edge_block import ENTRY, accumulate, dots, gather
from gsdm_pyg.ops.cpu.exponential import exp2, log2
from gsdm_pyg.ops.cpu.schedule import (
    AHEAD,
    TABLE,
    WHOLE,
    neighbour,
    next_row,
    workspace,
)
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, expect_write, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import (
    filled,
    join,
    keep_first,
    larger,
    largest,
    number,
    total,
)

INF = math.inf
LOG2_E = math.log2(math.e)
LOWEST = -1e30  # below any logit, and finite: the maximum of a row without edges


def make_forward(
    channels: int,
    features: int,
    storage: str,
    shared: bool,
    biased: bool,
    factored: bool,
):
    """out_i = sum_j softmax_j(scale q_i . k_ij + bias_ij) factor_ij v_ij, and lse_i.

    Keys k_ij and values v_ij are those of the source j, then the features of the edge.

    A row takes three steps: the logits of its edges, their exponentials relative to the
    largest, and the weighted sum of values. Each step goes over all heads before the
    next begins, as the steps of one head wait for each other. The part of a hub leaves
    (maximum, sum of exponentials, weighted sum) for `combine_forward`.

    Args:
        channels: C, the channels per head of sources.
        features: F, the channels of edges, which all heads share.
        storage: The dtype of all tensors but lse, by name.
        shared: Rows of k and v have the same stride: one offset per edge serves both.
        biased: Whether there is a bias per edge and head.
        factored: Whether there is a factor per edge and head.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, stored = BYTES[accum], BYTES[storage]
    of_features = channels * stored  # behind the first channel
    width = of_features + features * stored
    of_k, of_v, of_head, of_edge = 0, 0 if shared else TABLE, 2 * TABLE, 3 * TABLE

    def forward(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        q, q_row, q_head = tensor(task, "q")
        k, k_row, k_head = tensor(task, "k")
        v, v_row, v_head = tensor(task, "v")
        out, out_row, out_head = tensor(task, "out")
        bias, factor = field(task, "bias"), field(task, "factor")
        edges, lse = field(task, "edge"), field(task, "lse")
        parts, constants = field(task, "parts"), field(task, "constants")
        table = workspace(task)
        tops, sums = table + 4 * TABLE, table + 4 * TABLE + 8 * heads
        weights = sums + 8 * heads
        piece, row, stop, start, end, slot = next_row(task, 0, 0, 0)
        while piece >= 0:
            count = end - start
            blocks = (count + 3) // 8 * 8  # edges in blocks of 8; 1 to 4 may be left
            listed = blocks if blocks >= count else blocks + 4
            if factored:
                listed = (count + 7) // 8 * 8
            for e in range(listed):
                edge = min(start + e, end - 1)
                j = neighbour(task, edge)
                write(table + e * ENTRY + of_k, j * k_row)
                if not shared:
                    write(table + e * ENTRY + of_v, j * v_row)
                if biased or factored:
                    write(table + e * ENTRY + of_head, edge * heads * stored)
                if features:
                    write(table + e * ENTRY + of_edge, edge * features * stored)
            pitch = (count + 7) // 8 * 8 * size  # of the weights of a head

            for head in range(heads):
                k_h, b_h = k + head * k_head, bias + head * stored
                at_h = weights + head * pitch
                at_q = q + row * q_row + head * q_head
                q_i = load(at_q, channels, storage) * scale
                if features:
                    f_i = load(at_q + of_features, features, storage) * scale
                top = filled(8, LOWEST, storage)
                for e in range(0, blocks, 8):
                    entry = table + e * ENTRY
                    at_k, at_edge = entry + of_k, entry + of_edge
                    logit = dots(q_i, k_h, at_k, 8, storage)
                    if features:
                        logit = logit + dots(f_i, edges, at_edge, 8, storage)
                    if biased:
                        logit = (
                            logit + gather(b_h, entry + of_head, 8, storage) * LOG2_E
                        )
                    store(at_h + e * size, logit, accum)
                    top = larger(top, logit)
                if blocks < count:
                    entry = table + blocks * ENTRY
                    at_k, at_edge = entry + of_k, entry + of_edge
                    half = dots(q_i, k_h, at_k, 4, storage)
                    if features:
                        half = half + dots(f_i, edges, at_edge, 4, storage)
                    if biased:
                        half = half + gather(b_h, entry + of_head, 4, storage) * LOG2_E
                    logit = join(half, LOWEST)
                    store(at_h + blocks * size, logit, accum)
                    top = larger(top, logit)
                write(tops + head * size, largest(top))

            for head in range(heads):
                at_h, highest = weights + head * pitch, read(tops + head * size, accum)
                p_sum = filled(8, 0.0, storage)
                for e in range(0, count, 8):
                    p = exp2(load(at_h + e * size, 8, accum) - highest, constants)
                    p = keep_first(p, count - e, 0.0)
                    p_sum = p_sum + p
                    if factored:
                        at = table + e * ENTRY + of_head
                        p = p * gather(factor + head * stored, at, 8, storage)
                    store(at_h + e * size, p, accum)
                write(sums + head * size, total(p_sum))

            for head in range(heads):
                v_h, at_h = v + head * v_head, weights + head * pitch
                out_i = out + row * out_row + head * out_head
                expect_write(out_i + AHEAD * out_row, width)
                # Two sums, as one would wait for each of its additions to finish; an
                # odd number of edges is followed by one of weight 0.
                mean = filled(channels, 0.0, storage)
                other = filled(channels, 0.0, storage)
                for e in range(0, count, 2):
                    at, at_v = at_h + e * size, table + e * ENTRY + of_v
                    mean = accumulate(mean, at, v_h, at_v, storage)
                    other = accumulate(other, at + size, v_h, at_v + ENTRY, storage)
                mean = mean + other
                if features:
                    f_mean = filled(features, 0.0, storage)
                    for e in range(count):
                        at_edge = table + e * ENTRY + of_edge
                        f_mean = accumulate(
                            f_mean, at_h + e * size, edges, at_edge, storage
                        )

                highest = read(tops + head * size, accum)
                weight = read(sums + head * size, accum)
                if slot == WHOLE:
                    inverse, log_sum = number(0.0, storage), number(INF, storage)
                    if weight > 0:
                        inverse = number(1.0, storage) / weight
                        log_sum = highest + log2(weight, constants)
                    store(out_i, mean * inverse, storage)
                    if features:
                        store(out_i + of_features, f_mean * inverse, storage)
                    write(lse + (row * heads + head) * size, log_sum)
                else:
                    part_size = (channels + features + 2) * size
                    part = parts + (slot * heads + head) * part_size
                    write(part, highest)
                    write(part + size, weight)
                    store(part + 2 * size, mean, accum)
                    if features:
                        store(part + (channels + 2) * size, f_mean, accum)
            piece, row, stop, start, end, slot = next_row(task, piece, row, stop)

    return forward
