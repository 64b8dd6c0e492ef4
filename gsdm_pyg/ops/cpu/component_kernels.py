"""The backward pass of graphs with many small components, such as batches of graphs.

A component is here a range of consecutive nodes that no edge leaves or enters: one
connected component, or several. A work item is one head of a component. No other thread
adds to the gradients of its keys and values, so every edge is visited once, from its
destination. The data of its nodes is packed,

    [k_j, v_j, dk_j, dv_j],

and stays in a fast cache. In the whole tensors the rows of a head are far apart, often
by a multiple of the cache's own stride, and evict each other.
"""

import math

from numba import njit

from gsdm_pyg.ops.cpu.edge_block import ENTRY_SIZE, dots
from gsdm_pyg.ops.cpu.exponential import softmax_weight
from gsdm_pyg.ops.cpu.task import field, set_field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import full, reduce_sum
from gsdm_pyg.ops.cpu.work_items import checked_index, next_item, read_index, workspace

LOG_2 = math.log(2)
MIN_DEGREE = 8  # mean edges per node: with fewer, packing costs what it saves
MIN_ITEMS = 32  # components times heads: with fewer, many threads would be idle
MAX_PACKED_BYTES = 512 * 1024  # of a component
MAX_EDGES = 32 * 1024  # of a component
NO_NODE = 2**62


def packed_node_size(channels: int, storage: str) -> int:
    """Bytes of a node: k, v, dk and dv, in the dtype that sums are taken in."""
    return 4 * channels * (8 if storage == "float64" else 4)


@njit
def _neighbor_range(task, col, start, end):
    """(lowest, highest) neighbor of a row; (NO_NODE, -1) for a row without edges."""
    if start == end:
        return NO_NODE, -1
    first = read_index(task, col, start)
    falls = 0  # 1 if a neighbor is below the one before
    for edge in range(start + 1, end):
        falls |= read_index(task, col, edge) < read_index(task, col, edge - 1)
    if falls == 0:  # the usual case, and several edges are compared at once
        return first, read_index(task, col, end - 1)
    low = high = first
    for edge in range(start + 1, end):
        node = read_index(task, col, edge)
        low, high = min(low, node), max(high, node)
    return low, high


@njit
def _write_edge_offsets(task, table, first, last, node_size):
    """The offset of each edge's packed node, then 8 zeros that fill the last block."""
    rowptr, col = field(task, "rowptr"), field(task, "col")
    start, end = read_index(task, rowptr, first), read_index(task, rowptr, last)
    for edge in range(start, end):
        node = checked_index(task, read_index(task, col, edge) - first, last - first)
        write(table + (edge - start) * ENTRY_SIZE, node * node_size)
    for edge in range(end, end + 8):
        write(table + (edge - start) * ENTRY_SIZE, 0)


def make_find_components(channels: int, storage: str):
    """Where components begin, and their number, or 0 if one of them is too large.

    Also the workspace that a thread needs for the largest: its packed nodes, and three
    arrays of a number per edge (offset, p and ds), each of `edge_array_size` bytes.
    """
    node_size = packed_node_size(channels, storage)

    def find_components(task):
        rows, edges = field(task, "num_rows"), field(task, "num_edges")
        rowptr, col = field(task, "rowptr"), field(task, "col")
        components, count = field(task, "components"), 0
        first, first_edge, reach = 0, 0, -1  # of the open component
        most_nodes, most_edges = 0, 0
        end = read_index(task, rowptr, 0)
        if end != 0:
            return
        write(components, 0)
        for row in range(rows):
            start, end = end, read_index(task, rowptr, row + 1)
            if start < 0 or end < start or end > edges:
                return
            num_nodes, num_edges = row + 1 - first, end - first_edge
            if num_nodes * node_size > MAX_PACKED_BYTES or num_edges > MAX_EDGES:
                return
            low, high = _neighbor_range(task, col, start, end)
            reach = max(reach, high)
            if low < first or reach >= rows:
                return
            if reach <= row:
                most_nodes = max(most_nodes, num_nodes)
                most_edges = max(most_edges, num_edges)
                first, first_edge, count = row + 1, end, count + 1
                write(components + 8 * count, first)
        if first == rows and end == edges:
            edge_array = (most_edges + 15) // 8 * 64  # a block of 8 may pass the end
            set_field(task, "edge_array_size", edge_array)
            size = 3 * edge_array + most_nodes * node_size
            set_field(task, "workspace_size", (size + 63) // 64 * 64)
            set_field(task, "num_components", count)

    return find_components


def make_backward_components(channels: int, storage: str):
    """Gradients of q, k and v, for the components of `find_components`.

    Args:
        channels: C, the channels per head.
        storage: The name of the dtype of q, k, v, grad and their gradients.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, node_size = BYTES[accum], packed_node_size(channels, storage)
    v_offset, dk_offset, dv_offset = node_size // 4, node_size // 2, node_size * 3 // 4

    def backward_components(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        rowptr, constants = field(task, "rowptr"), field(task, "constants")
        lse, components = field(task, "lse"), field(task, "components")
        q, q_row, q_head = tensor(task, "q")
        k, k_row, k_head = tensor(task, "k")
        v, v_row, v_head = tensor(task, "v")
        out, out_row, out_head = tensor(task, "out")
        grad, grad_row, grad_head = tensor(task, "grad")
        dq, dq_row, dq_head = tensor(task, "dq")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        table, edge_array = workspace(task), field(task, "edge_array_size")
        p_at, ds_at = table + edge_array, table + 2 * edge_array
        nodes = table + 3 * edge_array
        current = -1  # the component whose edges are in the table
        item = next_item(task)
        while item >= 0:
            component, head = item // heads, item % heads
            first = read(components + 8 * component, "int64")
            last = read(components + 8 * component + 8, "int64")
            first_edge = read_index(task, rowptr, first)
            if component != current:
                _write_edge_offsets(task, table, first, last, node_size)
                current = component
            q_h, k_h, v_h = q + head * q_head, k + head * k_head, v + head * v_head
            out_h, grad_h = out + head * out_head, grad + head * grad_head
            dq_h, dk_h = dq + head * dq_head, dk + head * dk_head
            dv_h = dv + head * dv_head

            zero = full(channels, 0.0, storage)
            for row in range(first, last):
                node = nodes + (row - first) * node_size
                store(node, load(k_h + row * k_row, channels, storage), accum)
                store(
                    node + v_offset, load(v_h + row * v_row, channels, storage), accum
                )
                store(node + dk_offset, zero, accum)
                store(node + dv_offset, zero, accum)

            for row in range(first, last):
                start = read_index(task, rowptr, row)
                count = read_index(task, rowptr, row + 1) - start
                entries = table + (start - first_edge) * ENTRY_SIZE
                q_i = load(q_h + row * q_row, channels, storage) * scale
                grad_i = load(grad_h + row * grad_row, channels, storage)
                out_i = load(out_h + row * out_row, channels, storage)
                delta_i = reduce_sum(grad_i * out_i)
                lse_i = read(lse + (row * heads + head) * size, accum)
                # Edges go in blocks of 8; 1 to 4 of them may be left.
                blocks = (count + 3) // 8 * 8
                for e in range(0, blocks, 8):
                    entry = entries + e * ENTRY_SIZE
                    logit = dots(q_i, nodes, entry, 8, accum)
                    dp = dots(grad_i, nodes + v_offset, entry, 8, accum)
                    p = softmax_weight(logit, lse_i, constants)
                    store(p_at + e * size, p, accum)
                    store(ds_at + e * size, p * (dp - delta_i), accum)
                if blocks < count:
                    entry = entries + blocks * ENTRY_SIZE
                    logit = dots(q_i, nodes, entry, 4, accum)
                    dp = dots(grad_i, nodes + v_offset, entry, 4, accum)
                    p = softmax_weight(logit, lse_i, constants)
                    store(p_at + blocks * size, p, accum)
                    store(ds_at + blocks * size, p * (dp - delta_i), accum)

                sum_q = full(channels, 0.0, storage)
                for e in range(count):
                    node = nodes + read(entries + e * ENTRY_SIZE, "int64")
                    p, ds = read(p_at + e * size, accum), read(ds_at + e * size, accum)
                    sum_q = sum_q + load(node, channels, accum) * ds
                    dk_j = load(node + dk_offset, channels, accum) + q_i * ds
                    dv_j = load(node + dv_offset, channels, accum) + grad_i * p
                    store(node + dk_offset, dk_j, accum)
                    store(node + dv_offset, dv_j, accum)
                store(dq_h + row * dq_row, sum_q * (scale * LOG_2), storage)

            for row in range(first, last):
                node = nodes + (row - first) * node_size
                dk_j = load(node + dk_offset, channels, accum) * LOG_2
                dv_j = load(node + dv_offset, channels, accum)
                store(dk_h + row * dk_row, dk_j, storage)
                store(dv_h + row * dv_row, dv_j, storage)
            item = next_item(task)

    return backward_components
