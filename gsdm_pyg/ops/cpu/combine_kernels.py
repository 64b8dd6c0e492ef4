"""Kernels that combine the partial results of hubs.

The partial results of a hub are in consecutive slots. Each slot writes the result so
far, so the last one writes the whole.
"""

from gsdm_pyg.ops.cpu.exponential import exp2, log2
from gsdm_pyg.ops.cpu.forward_kernels import INF, LOWEST
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import full, scalar


def make_combine_forward(channels: int, storage: str):
    """The softmax of a hub, from (maximum, denominator, weighted sum) of each slot."""
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]

    def combine_forward(task):
        heads, slots = field(task, "heads"), 2 * field(task, "num_items")
        slot_rows, partials = field(task, "slot_rows"), field(task, "partials")
        out, out_row, out_head = tensor(task, "out")
        lse, constants = field(task, "lse"), field(task, "constants")
        for head in range(heads):
            max_logit, denominator = scalar(LOWEST, storage), scalar(0.0, storage)
            v_sum, last = full(channels, 0.0, storage), -1
            for slot in range(slots):
                row = read(slot_rows + 8 * slot, "int64")
                if row < 0:
                    continue
                if row != last:
                    max_logit, denominator = (
                        scalar(LOWEST, storage),
                        scalar(0.0, storage),
                    )
                    v_sum, last = full(channels, 0.0, storage), row
                partial = partials + (slot * heads + head) * (channels + 2) * size
                before, added = max_logit, read(partial, accum)
                max_logit = max(before, added)
                rescale = exp2(before - max_logit, constants)
                share = exp2(added - max_logit, constants)
                denominator = (
                    denominator * rescale + read(partial + size, accum) * share
                )
                v_sum = (
                    v_sum * rescale + load(partial + 2 * size, channels, accum) * share
                )
                inverse, log_sum = scalar(0.0, storage), scalar(INF, storage)
                if denominator > 0:
                    inverse = scalar(1.0, storage) / denominator
                    log_sum = max_logit + log2(denominator, constants)
                elif denominator != denominator:
                    log_sum = denominator  # NaN, also in the backward pass
                store(out + row * out_row + head * out_head, v_sum * inverse, storage)
                write(lse + (row * heads + head) * size, log_sum)

    return combine_forward


def make_combine_backward(
    channels: int, features: int, storage: str, query: bool, key: bool
):
    """The gradients of a hub: the sums of (dq, dk, dv) over its slots."""
    accum = "float64" if storage == "float64" else "float32"
    size, width = BYTES[accum], channels + features

    def combine_backward(task):
        heads, slots = field(task, "heads"), 2 * field(task, "num_items")
        slot_rows, partials = field(task, "slot_rows"), field(task, "partials")
        dq, dq_row, dq_head = tensor(task, "dq")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        for head in range(heads):
            sum_q = full(width, 0.0, storage)
            sum_k = full(channels, 0.0, storage)
            sum_v, last = full(channels, 0.0, storage), -1
            for slot in range(slots):
                row = read(slot_rows + 8 * slot, "int64")
                if row < 0:
                    continue
                if row != last:
                    sum_q = full(width, 0.0, storage)
                    sum_k = full(channels, 0.0, storage)
                    sum_v, last = full(channels, 0.0, storage), row
                partial = (
                    partials + (slot * heads + head) * (width + 2 * channels) * size
                )
                k_partial, v_partial = (
                    partial + width * size,
                    partial + (width + channels) * size,
                )
                sum_q = sum_q + load(partial, width, accum)
                sum_k = sum_k + load(k_partial, channels, accum)
                sum_v = sum_v + load(v_partial, channels, accum)
                if query:
                    store(dq + row * dq_row + head * dq_head, sum_q, storage)
                if key:
                    store(dk + row * dk_row + head * dk_head, sum_k, storage)
                    store(dv + row * dv_row + head * dv_head, sum_v, storage)

    return combine_backward
