"""Kernels that normalize rows: LayerNorm, before it a gathered row, after it SiLU.

With y = x + table[row_id], xhat = (y - mean) rstd and z = weight xhat + shift, the
result is z or z sigmoid(z). Backward recomputes all of it from x and (mean, rstd).
A work item is `ROWS_PER_ITEM` rows. The gradients of weight and shift are summed per
item, so results are the same bit for bit for any number of threads.
"""

import math

from numba import njit

from gsdm_pyg.ops.cpu.exponential import exp2
from gsdm_pyg.ops.cpu.task import field
from gsdm_pyg.ops.cpu.vector import load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import full, maximum, reduce_sum, scalar
from gsdm_pyg.ops.cpu.work_items import next_item

ROWS_PER_ITEM = 128
LANES, BLOCK = 16, 64  # numbers and bytes of a vector of float32
FLOAT = 4  # bytes
MINUS_LOG2_E = -math.log2(math.e)
LOWEST = -40.0  # z sigmoid(z) is 0 from here on down


@njit
def _read_block(x, entry, gathered):
    """The next `LANES` numbers of a row of x + table[row_id]."""
    y = load(x, LANES, "float32")
    if gathered:
        y = y + load(entry, LANES, "float32")
    return y


@njit
def _sigmoid(z, constants):
    power = maximum(z, full(LANES, LOWEST, "float32")) * MINUS_LOG2_E
    return full(LANES, 1.0, "float32") / (exp2(power, constants) + 1.0)


@njit
def _add_to(address, vector):
    store(address, load(address, LANES, "float32") + vector, "float32")


def make_norm(width: int, silu: bool, gathered: bool):
    """The normalized rows, and mean and rstd of each.

    Args:
        width: D, the length of a row, a multiple of 16.
        silu: Whether SiLU follows.
        gathered: Whether a row of the table is added first.
    """
    size = width * FLOAT

    def norm(task):
        rows, constants = field(task, "num_rows"), field(task, "constants")
        x, out, stats = field(task, "x"), field(task, "y"), field(task, "stats")
        weight, shift = field(task, "weight"), field(task, "shift")
        table, row_id = field(task, "table"), field(task, "row_id")
        eps = field(task, "scale")
        item = next_item(task)
        while item >= 0:
            for row in range(
                item * ROWS_PER_ITEM, min((item + 1) * ROWS_PER_ITEM, rows)
            ):
                x_i, out_i, entry = x + row * size, out + row * size, table
                if gathered:
                    entry = table + read(row_id + 8 * row, "int64") * size
                sums = full(LANES, 0.0, "float32")
                for c in range(0, size, BLOCK):
                    y = _read_block(x_i + c, entry + c, gathered)
                    sums = sums + y
                mean = scalar(reduce_sum(sums) * (1.0 / width), "float32")
                squares = full(LANES, 0.0, "float32")
                for c in range(0, size, BLOCK):
                    y = _read_block(x_i + c, entry + c, gathered)
                    squares = squares + (y - mean) * (y - mean)
                variance = reduce_sum(squares) * (1.0 / width)
                rstd = scalar(1.0 / math.sqrt(variance + eps), "float32")
                for c in range(0, size, BLOCK):
                    y = _read_block(x_i + c, entry + c, gathered)
                    xhat = (y - mean) * rstd
                    z = xhat * load(weight + c, LANES, "float32")
                    z = z + load(shift + c, LANES, "float32")
                    if silu:
                        z = z * _sigmoid(z, constants)
                    store(out_i + c, z, "float32")
                write(stats + 2 * FLOAT * row, mean)
                write(stats + 2 * FLOAT * row + FLOAT, rstd)
            item = next_item(task)

    return norm


def make_norm_backward(width: int, silu: bool, gathered: bool):
    """Gradients of x, and per work item those of weight and shift; options as above."""
    size = width * FLOAT

    def norm_backward(task):
        rows, constants = field(task, "num_rows"), field(task, "constants")
        x, grad, stats = field(task, "x"), field(task, "dy"), field(task, "stats")
        weight, shift = field(task, "weight"), field(task, "shift")
        table, row_id = field(task, "table"), field(task, "row_id")
        dx, partials = field(task, "dx"), field(task, "partials")
        item = next_item(task)
        while item >= 0:
            dweight = partials + 2 * size * item
            dshift = dweight + size
            for c in range(0, 2 * size, BLOCK):
                store(dweight + c, full(LANES, 0.0, "float32"), "float32")
            for row in range(
                item * ROWS_PER_ITEM, min((item + 1) * ROWS_PER_ITEM, rows)
            ):
                x_i, dx_i, entry = x + row * size, dx + row * size, table
                grad_i = grad + row * size
                if gathered:
                    entry = table + read(row_id + 8 * row, "int64") * size
                mean = read(stats + 2 * FLOAT * row, "float32")
                rstd = read(stats + 2 * FLOAT * row + FLOAT, "float32")
                sum_d = full(LANES, 0.0, "float32")
                sum_dx = full(LANES, 0.0, "float32")
                for c in range(0, size, BLOCK):
                    y = _read_block(x_i + c, entry + c, gathered)
                    xhat = (y - mean) * rstd
                    w = load(weight + c, LANES, "float32")
                    dz = load(grad_i + c, LANES, "float32")
                    if silu:
                        z = xhat * w + load(shift + c, LANES, "float32")
                        s = _sigmoid(z, constants)
                        dz = dz * (s + s * (z - z * s))
                    _add_to(dweight + c, dz * xhat)
                    _add_to(dshift + c, dz)
                    d = dz * w
                    sum_d, sum_dx = sum_d + d, sum_dx + d * xhat
                    store(dx_i + c, d, "float32")
                mean_d = scalar(reduce_sum(sum_d) * (1.0 / width), "float32")
                mean_dx = scalar(reduce_sum(sum_dx) * (1.0 / width), "float32")
                for c in range(0, size, BLOCK):
                    y = _read_block(x_i + c, entry + c, gathered)
                    xhat = (y - mean) * rstd
                    d = load(dx_i + c, LANES, "float32") - mean_d - xhat * mean_dx
                    store(dx_i + c, d * rstd, "float32")
            item = next_item(task)

    return norm_backward
