"""Finds graphs whose components are complete, where dense attention is faster."""

from gsdm_pyg.ops.cpu.task import field, set_field
from gsdm_pyg.ops.cpu.vector import read, write
from gsdm_pyg.ops.cpu.work_items import read_index


def make_find_complete():
    """Where components begin, and their number, if all are complete; else 0.

    A complete component is a range of n nodes with n edges into each: one from every
    node of the range, also from itself. `row_id` is memory for a number per node.
    """

    def find_complete(task):
        rows, edges = field(task, "num_rows"), field(task, "num_edges")
        rowptr, col = field(task, "rowptr"), field(task, "col")
        components, last_row = field(task, "components"), field(task, "row_id")
        first, count, end = 0, 0, read_index(task, rowptr, 0)
        write(components, 0)
        if end != 0 or read_index(task, rowptr, rows) != edges:
            return
        while first < rows:
            size = read_index(task, rowptr, first + 1) - end
            if size < 1 or first + size > rows:
                return
            for row in range(first, first + size):
                start, end = end, end + size
                if read_index(task, rowptr, row + 1) != end or end > edges:
                    return
                difference = 0  # from the usual order, first, first + 1, ...
                for place in range(size):
                    node = read_index(task, col, start + place)
                    difference |= node ^ (first + place)
                if difference == 0:
                    continue
                for place in range(size):
                    node = read_index(task, col, start + place)
                    if node < first or node >= first + size:
                        return
                    if read(last_row + 8 * node, "int64") == row + 1:  # seen twice
                        return
                    write(last_row + 8 * node, row + 1)
            first, count = first + size, count + 1
            write(components + 8 * count, first)
        set_field(task, "num_components", count)

    return find_complete
