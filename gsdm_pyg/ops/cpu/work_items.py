"""What a thread computes: work items, the rows in them, tables of their edges.

A kernel runs on all threads at once. Threads draw work items from the task's counter
until none is left. An item of attention is a chunk of `EDGES_PER_ITEM` consecutive
edges. A row belongs to the item in which it begins, unless it has more edges than an
item: such a hub has a partial result in each item that it reaches into, and a second
kernel combines them. Items depend on the graph alone, so results are the same bit for
bit for any number of threads.

Indices are checked here, once per edge: a wrong one is noted in the task and replaced,
so no kernel reads or writes outside of the tensors.
"""

from numba import njit

from gsdm_pyg.ops.cpu.edge_block import ENTRY_SIZE
from gsdm_pyg.ops.cpu.task import fetch_add, field, set_field
from gsdm_pyg.ops.cpu.vector import read, read_int32, write

EDGES_PER_ITEM = 512
PREFETCH_ROWS = 4  # rows between fetching a cache line and writing to it
WHOLE_ROW, SKIP_ROW = -1, -2  # instead of a slot: no partial result; another item's row
TABLE_SIZE = ENTRY_SIZE * (EDGES_PER_ITEM + 8)  # bytes; 8 round up to whole blocks
WEIGHTS_SIZE = 8 * (EDGES_PER_ITEM + 8)  # bytes: a number per edge


@njit
def read_index(task, address, position):
    """Entry `position` of an index tensor, int32 or int64 as the task says."""
    if field(task, "index_size") == 8:
        return read(address + 8 * position, "int64")
    return read_int32(address + 4 * position)


@njit
def checked_index(task, index, size):
    """The index if it is in [0, size), else 0, and the task is marked as invalid."""
    if index < 0 or index >= size:
        set_field(task, "invalid", 1)
        return 0
    return index


@njit
def next_item(task):
    """The next work item to compute, or -1 when all are taken."""
    item = fetch_add(task, "counter", 1)
    return item if item < field(task, "num_items") else -1


@njit
def workspace(task):
    """The address of the calling thread's own memory."""
    thread = fetch_add(task, "threads", 1)
    return field(task, "workspaces") + thread * field(task, "workspace_size")


@njit
def _last_row_before(task, edge):
    """The last row that begins before `edge`, or the first row."""
    rowptr, low, high = field(task, "rowptr"), 0, field(task, "num_rows")
    while low < high:
        middle = (low + high) // 2
        if read_index(task, rowptr, middle) < edge:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@njit
def _rows_in_item(task, item):
    """(first, stop): rows that reach into the item; clears its two slots for hubs."""
    slots = field(task, "slot_rows") + 16 * item
    write(slots, -1)
    write(slots + 8, -1)
    stop = field(task, "num_rows")
    if item < field(task, "num_items") - 1:
        stop = _last_row_before(task, (item + 1) * EDGES_PER_ITEM) + 1
    return _last_row_before(task, item * EDGES_PER_ITEM), stop


@njit
def _edges_in_item(task, row, item):
    """(start, end, slot): the edges of the row to compute in the item.

    The slot is WHOLE_ROW, SKIP_ROW or the place of a hub's partial result. An item has
    two slots: only its first hub can begin before it, and only its last can end after
    it.
    """
    rowptr, edges = field(task, "rowptr"), field(task, "num_edges")
    start, end = read_index(task, rowptr, row), read_index(task, rowptr, row + 1)
    wrong = start < 0 or end < start or end > edges
    wrong |= row == 0 and start != 0
    wrong |= row + 1 == field(task, "num_rows") and end != edges
    if wrong:
        set_field(task, "invalid", 1)
        return 0, 0, WHOLE_ROW
    low, high = item * EDGES_PER_ITEM, (item + 1) * EDGES_PER_ITEM
    if end - start <= EDGES_PER_ITEM:
        return start, end, WHOLE_ROW if start >= low else SKIP_ROW
    slot = 2 * item + (1 if start >= low else 0)
    start, end = max(start, low), min(end, high)
    if start >= end:
        return start, end, SKIP_ROW
    write(field(task, "slot_rows") + 8 * slot, row)
    set_field(task, "hubs", 1)
    return start, end, slot


@njit
def next_row(task, item, row, stop):
    """(item, row, stop, start, end, slot) of what the calling thread computes next.

    A negative item means that nothing is left; (0, 0, 0) asks for the first row.
    """
    while True:
        row += 1
        while row >= stop:
            item = next_item(task)
            if item < 0:
                return item, row, stop, 0, 0, SKIP_ROW
            row, stop = _rows_in_item(task, item)
        start, end, slot = _edges_in_item(task, row, item)
        if slot != SKIP_ROW:
            return item, row, stop, start, end, slot


@njit
def neighbor(task, edge):
    """The checked node at the other end of an edge."""
    node = read_index(task, field(task, "col"), edge)
    return checked_index(task, node, field(task, "num_cols"))


@njit
def original_edge(task, edge):
    """The checked position, by destination, of an edge of the transposed graph."""
    position = read_index(task, field(task, "perm"), edge)
    return checked_index(task, position, field(task, "num_edges"))
