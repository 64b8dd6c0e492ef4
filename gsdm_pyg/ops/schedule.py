"""Which rows a thread computes: pieces of consecutive edges, drawn from a counter.

A task is a block of int64 fields that Python fills and every thread reads. A row
belongs to the piece of `PIECE` edges in which it begins, whole, unless it has more than
`PIECE` edges: such a hub is computed in parts, one per piece it reaches into. Pieces
depend on the graph alone, so results are the same for any number of threads.
"""

from numba import njit

from gsdm_pyg.ops.simd import fetch_add, read, write

PIECE = 1024  # edges that one thread takes at a time
WHOLE, NONE = -1, -2  # a row in one part; a row of another piece

COUNTER, PIECES, HUBS, ROWS, EDGES, HEADS, WIDE, ROWPTR, COL, PERM = range(0, 80, 8)
PARTS, OWNER, BIAS, DBIAS, LSE, STATS, SCALE = range(80, 136, 8)
Q, K, V, OUT, GRAD, DQ, DK, DV = range(136, 328, 24)  # each: address, row, head stride
ROW, HEAD = 8, 16
FIELDS = 41


@njit
def pointer(task, row):
    """rowptr[row]"""
    address = read(task + ROWPTR, "int64")
    if read(task + WIDE, "int64") == 8:
        return read(address + 8 * row, "int64")
    return read(address + 4 * row, "int32")


@njit
def next_piece(task):
    """The next piece to compute, or -1 when all are taken."""
    piece = fetch_add(task + COUNTER, 1)
    return piece if piece < read(task + PIECES, "int64") else -1


@njit
def first_row(task, piece):
    """The last row that begins before `piece`: the first that may reach into it."""
    low, high = 0, read(task + ROWS, "int64")
    while low < high:
        middle = (low + high) // 2
        if pointer(task, middle) < piece * PIECE:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@njit
def part_of_row(task, row, piece):
    """(start, end, slot): the edges of `row` to compute in `piece`.

    slot is WHOLE or NONE, or the place in `parts` for the part of a hub. Only the first
    hub of a piece can have begun earlier and only its last can end later: two slots.
    """
    start, end = pointer(task, row), pointer(task, row + 1)
    low, high = piece * PIECE, (piece + 1) * PIECE
    if end - start <= PIECE:
        return start, end, WHOLE if start >= low else NONE
    slot = 2 * piece + (1 if start >= low else 0)
    start, end = max(start, low), min(end, high)
    if start >= end:
        return start, end, NONE
    write(read(task + OWNER, "int64") + 8 * slot, row)
    write(task + HUBS, 1)
    return start, end, slot


@njit
def end_row(task, piece):
    """One past the last row that begins in `piece`."""
    if piece == read(task + PIECES, "int64") - 1:
        return read(task + ROWS, "int64")
    return first_row(task, piece + 1) + 1


@njit
def tensor(field):
    """(address, row stride, head stride) in bytes of a tensor [rows, H, C]."""
    strides = read(field + ROW, "int64"), read(field + HEAD, "int64")
    return read(field, "int64"), strides[0], strides[1]
