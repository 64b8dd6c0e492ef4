"""Kernels that normalise rows: LayerNorm, before it a gathered row, after it SiLU.

With y = x + table[row_id], xhat = (y - mean) rstd and z = weight xhat + shift, the
result is z or z sigmoid(z). Backward recomputes all of it from x and (mean, rstd).
Threads draw pieces of `ROWS` rows; the gradients of weight and shift are summed per
piece, so results are the same bit for bit for any number of threads.
"""

import math

from numba import njit

from gsdm_pyg.ops.cpu.exponential import exp2
from gsdm_pyg.ops.cpu.schedule import next_piece
from gsdm_pyg.ops.cpu.task import field
from gsdm_pyg.ops.cpu.vector import load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import filled, larger, number, total

ROWS = 128  # rows that a thread takes at a time
LANES, BLOCK = 16, 64  # numbers and bytes of a vector of float32
FLOAT = 4  # bytes
MINUS_LOG2_E = -math.log2(math.e)
LOWEST = -40.0  # z sigmoid(z) is 0 from here on down


@njit
def block(x, entry, gathered):
    """A stretch of a row of x + table[row_id]."""
    y = load(x, LANES, "float32")
    if gathered:
        y = y + load(entry, LANES, "float32")
    return y


@njit
def sigmoid(z, constants):
    power = larger(z, filled(LANES, LOWEST, "float32")) * MINUS_LOG2_E
    return filled(LANES, 1.0, "float32") / (exp2(power, constants) + 1.0)


@njit
def add_to(address, vector):
    store(address, load(address, LANES, "float32") + vector, "float32")


def make_norm(width: int, silu: bool, gathered: bool):
    """The normalised rows, and mean and rstd of each.

    Args:
        width: D, the length of a row, a multiple of 16.
        silu: Whether SiLU follows.
        gathered: Whether a row of the table is added first.
    """
    size = width * FLOAT

    def norm(task):
        rows, constants = field(task, "rows"), field(task, "constants")
        x, out, stats = field(task, "x"), field(task, "y"), field(task, "stats")
        weight, shift = field(task, "weight"), field(task, "shift")
        table, row_id = field(task, "table"), field(task, "row_id")
        eps = field(task, "scale")
        piece = next_piece(task)
        while piece >= 0:
            for row in range(piece * ROWS, min((piece + 1) * ROWS, rows)):
                x_i, out_i, entry = x + row * size, out + row * size, table
                if gathered:
                    entry = table + read(row_id + 8 * row, "int64") * size
                sums = filled(LANES, 0.0, "float32")
                for c in range(0, size, BLOCK):
                    y = block(x_i + c, entry + c, gathered)
                    sums = sums + y
                mean = number(total(sums) * (1.0 / width), "float32")
                squares = filled(LANES, 0.0, "float32")
                for c in range(0, size, BLOCK):
                    y = block(x_i + c, entry + c, gathered)
                    squares = squares + (y - mean) * (y - mean)
                variance = total(squares) * (1.0 / width)
                rstd = number(1.0 / math.sqrt(variance + eps), "float32")
                for c in range(0, size, BLOCK):
                    y = block(x_i + c, entry + c, gathered)
                    xhat = (y - mean) * rstd
                    z = xhat * load(weight + c, LANES, "float32")
                    z = z + load(shift + c, LANES, "float32")
                    if silu:
                        z = z * sigmoid(z, constants)
                    store(out_i + c, z, "float32")
                write(stats + 2 * FLOAT * row, mean)
                write(stats + 2 * FLOAT * row + FLOAT, rstd)
            piece = next_piece(task)

    return norm


def make_norm_backward(width: int, silu: bool, gathered: bool):
    """Gradients of x, and per piece those of weight and shift; options as above."""
    size = width * FLOAT

    def norm_backward(task):
        rows, constants = field(task, "rows"), field(task, "constants")
        x, grad, stats = field(task, "x"), field(task, "dy"), field(task, "stats")
        weight, shift = field(task, "weight"), field(task, "shift")
        table, row_id = field(task, "table"), field(task, "row_id")
        dx, parts = field(task, "dx"), field(task, "parts")
        piece = next_piece(task)
        while piece >= 0:
            dweight = parts + 2 * size * piece
            dshift = dweight + size
            for c in range(0, 2 * size, BLOCK):
                store(dweight + c, filled(LANES, 0.0, "float32"), "float32")
            for row in range(piece * ROWS, min((piece + 1) * ROWS, rows)):
                x_i, dx_i, entry = x + row * size, dx + row * size, table
                grad_i = grad + row * size
                if gathered:
                    entry = table + read(row_id + 8 * row, "int64") * size
                mean = read(stats + 2 * FLOAT * row, "float32")
                rstd = read(stats + 2 * FLOAT * row + FLOAT, "float32")
                sum_d = filled(LANES, 0.0, "float32")
                sum_dx = filled(LANES, 0.0, "float32")
                for c in range(0, size, BLOCK):
                    y = block(x_i + c, entry + c, gathered)
                    xhat = (y - mean) * rstd
                    w = load(weight + c, LANES, "float32")
                    dz = load(grad_i + c, LANES, "float32")
                    if silu:
                        z = xhat * w + load(shift + c, LANES, "float32")
                        s = sigmoid(z, constants)
                        dz = dz * (s + s * (z - z * s))
                    add_to(dweight + c, dz * xhat)
                    add_to(dshift + c, dz)
                    d = dz * w
                    sum_d, sum_dx = sum_d + d, sum_dx + d * xhat
                    store(dx_i + c, d, "float32")
                mean_d = number(total(sum_d) * (1.0 / width), "float32")
                mean_dx = number(total(sum_dx) * (1.0 / width), "float32")
                for c in range(0, size, BLOCK):
                    y = block(x_i + c, entry + c, gathered)
                    xhat = (y - mean) * rstd
                    d = load(dx_i + c, LANES, "float32") - mean_d - xhat * mean_dx
                    store(dx_i + c, d * rstd, "float32")
            piece = next_piece(task)

    return norm_backward
