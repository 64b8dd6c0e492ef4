"""Kernels that put hubs together from their parts.

The parts of a hub lie behind one another, one per slot. Each writes the result so far,
and the last one's stays.
"""

from gsdm_pyg.ops.cpu.exponential import exp2, log2
from gsdm_pyg.ops.cpu.forward_kernels import INF, LOWEST
from gsdm_pyg.ops.cpu.task import field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import filled, number


def make_combine_forward(channels: int, storage: str):
    """The softmax of a hub, from the maximum, the sum and the mean of each part."""
    accum = "float64" if storage == "float64" else "float32"
    size = BYTES[accum]

    def combine_forward(task):
        heads, slots = field(task, "heads"), 2 * field(task, "pieces")
        owners, parts = field(task, "owners"), field(task, "parts")
        out, out_row, out_head = tensor(task, "out")
        lse, constants = field(task, "lse"), field(task, "constants")
        for head in range(heads):
            highest, weight = number(LOWEST, storage), number(0.0, storage)
            mean, last = filled(channels, 0.0, storage), -1
            for slot in range(slots):
                row = read(owners + 8 * slot, "int64")
                if row < 0:
                    continue
                if row != last:
                    highest, weight = number(LOWEST, storage), number(0.0, storage)
                    mean, last = filled(channels, 0.0, storage), row
                part = parts + (slot * heads + head) * (channels + 2) * size
                before, here = highest, read(part, accum)
                highest = max(before, here)
                shrink = exp2(before - highest, constants)
                share = exp2(here - highest, constants)
                weight = weight * shrink + read(part + size, accum) * share
                mean = mean * shrink + load(part + 2 * size, channels, accum) * share
                if weight > 0:
                    inverse = number(1.0, storage) / weight
                    log_sum = highest + log2(weight, constants)
                else:
                    inverse, log_sum = number(0.0, storage), number(INF, storage)
                store(out + row * out_row + head * out_head, mean * inverse, storage)
                write(lse + (row * heads + head) * size, log_sum)

    return combine_forward


def make_combine_backward(
    channels: int, features: int, storage: str, query: bool, key: bool
):
    """The gradients of a hub: the sum over its parts, (dq, dk, dv) each."""
    accum = "float64" if storage == "float64" else "float32"
    size, width = BYTES[accum], channels + features

    def combine_backward(task):
        heads, slots = field(task, "heads"), 2 * field(task, "pieces")
        owners, parts = field(task, "owners"), field(task, "parts")
        dq, dq_row, dq_head = tensor(task, "dq")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        for head in range(heads):
            sum_q = filled(width, 0.0, storage)
            sum_k = filled(channels, 0.0, storage)
            sum_v, last = filled(channels, 0.0, storage), -1
            for slot in range(slots):
                row = read(owners + 8 * slot, "int64")
                if row < 0:
                    continue
                if row != last:
                    sum_q = filled(width, 0.0, storage)
                    sum_k = filled(channels, 0.0, storage)
                    sum_v, last = filled(channels, 0.0, storage), row
                part = parts + (slot * heads + head) * (width + 2 * channels) * size
                k_part, v_part = part + width * size, part + (width + channels) * size
                sum_q = sum_q + load(part, width, accum)
                sum_k = sum_k + load(k_part, channels, accum)
                sum_v = sum_v + load(v_part, channels, accum)
                if query:
                    store(dq + row * dq_row + head * dq_head, sum_q, storage)
                if key:
                    store(dk + row * dk_row + head * dk_head, sum_k, storage)
                    store(dv + row * dv_row + head * dv_head, sum_v, storage)

    return combine_backward
