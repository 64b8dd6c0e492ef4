"""What a thread computes: pieces of consecutive edges, rows in them, tables of edges.

A kernel runs on all threads at once. Threads draw pieces of `PIECE` edges from the
task's counter until none is left. A row belongs to the piece in which it begins, whole,
unless it has more than `PIECE` edges: such a hub is computed in parts, one per piece it
reaches into, and a second kernel combines the parts. Pieces depend on the graph alone,
so results are the same bit for bit for any number of threads.

Indices are checked here, once per edge: a wrong one is noted in the task and replaced,
so nothing outside of the tensors is touched.
"""

from numba import njit

from gsdm_pyg.ops.cpu.edge_block import ENTRY
from gsdm_pyg.ops.cpu.task import fetch_add, field, set_field
from gsdm_pyg.ops.cpu.vector import read, read_int32, write

PIECE = 512  # edges that a thread takes at a time
AHEAD = 4  # rows between fetching a cache line and writing to it
WHOLE, NONE = -1, -2  # a row in one part; a row of another piece
TABLE = ENTRY * (PIECE + 8)  # bytes: an entry per edge, rounded up to whole blocks
WEIGHTS = 8 * (PIECE + 8)  # bytes: a number per edge


@njit
def read_index(task, address, position):
    """Entry `position` of an index tensor, int32 or int64 as the task says."""
    if field(task, "index_size") == 8:
        return read(address + 8 * position, "int64")
    return read_int32(address + 4 * position)


@njit
def next_piece(task):
    """The next piece to compute, or -1 when all are taken."""
    piece = fetch_add(task, "counter", 1)
    return piece if piece < field(task, "pieces") else -1


@njit
def row_before(task, edge):
    """The last row that begins before `edge`, or the first row."""
    rowptr, low, high = field(task, "rowptr"), 0, field(task, "rows")
    while low < high:
        middle = (low + high) // 2
        if read_index(task, rowptr, middle) < edge:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@njit
def rows_of(task, piece):
    """(first, stop): rows that reach into the piece; frees its two slots for hubs."""
    slots = field(task, "owners") + 16 * piece
    write(slots, -1)
    write(slots + 8, -1)
    stop = field(task, "rows")
    if piece < field(task, "pieces") - 1:
        stop = row_before(task, (piece + 1) * PIECE) + 1
    return row_before(task, piece * PIECE), stop


@njit
def part_of_row(task, row, piece):
    """(start, end, slot): the edges of the row to compute in the piece.

    The slot is WHOLE or NONE, or the place of a hub's part. Of a piece's hubs only the
    first can have begun before it and only the last can end after it: two slots.
    """
    rowptr, edges = field(task, "rowptr"), field(task, "edges")
    start, end = read_index(task, rowptr, row), read_index(task, rowptr, row + 1)
    wrong = start < 0 or end < start or end > edges
    wrong |= row == 0 and start != 0
    wrong |= row + 1 == field(task, "rows") and end != edges
    if wrong:
        set_field(task, "invalid", 1)
        return 0, 0, WHOLE
    low, high = piece * PIECE, (piece + 1) * PIECE
    if end - start <= PIECE:
        return start, end, WHOLE if start >= low else NONE
    slot = 2 * piece + (1 if start >= low else 0)
    start, end = max(start, low), min(end, high)
    if start >= end:
        return start, end, NONE
    write(field(task, "owners") + 8 * slot, row)
    set_field(task, "hubs", 1)
    return start, end, slot


@njit
def neighbour(task, edge):
    """The checked node at the other end of an edge."""
    node = read_index(task, field(task, "col"), edge)
    if node < 0 or node >= field(task, "sources"):
        set_field(task, "invalid", 1)
        return 0
    return node


@njit
def edge_in_row(task, edge):
    """The checked position by destination of an edge of the transposed graph."""
    position = read_index(task, field(task, "perm"), edge)
    if position < 0 or position >= field(task, "edges"):
        set_field(task, "invalid", 1)
        return 0
    return position


@njit
def workspace(task):
    """The address of the calling thread's own memory."""
    number = fetch_add(task, "threads", 1)
    return field(task, "rooms") + number * field(task, "room")


@njit
def next_row(task, piece, row, stop):
    """(piece, row, stop, start, end, slot) of what the calling thread computes next.

    A negative piece says that nothing is left; (0, 0, 0) asks for the first row.
    """
    while True:
        row += 1
        while row >= stop:
            piece = next_piece(task)
            if piece < 0:
                return piece, row, stop, 0, 0, NONE
            row, stop = rows_of(task, piece)
        start, end, slot = part_of_row(task, row, piece)
        if slot != NONE:
            return piece, row, stop, start, end, slot
