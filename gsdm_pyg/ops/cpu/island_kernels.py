"""The backward pass of graphs that fall into small islands, such as batches of graphs.

An island is a range of nodes that no edge leaves or enters. One thread computes one
head of it: nobody else adds to the gradients of its keys and values, so every edge is
visited once, from its destination. What the edges reach is packed node by node,

    [k_j, v_j, dk_j, dv_j],

and stays in a fast cache. In the whole tensors the rows of a head lie far apart, often
by a multiple of the cache's own stride, and displace each other.
"""

import math

from numba import njit

from gsdm_pyg.ops.cpu.edge_block import ENTRY, dots
from gsdm_pyg.ops.cpu.exponential import exp2
from gsdm_pyg.ops.cpu.schedule import next_piece, read_index, workspace
from gsdm_pyg.ops.cpu.task import field, set_field, tensor
from gsdm_pyg.ops.cpu.vector import BYTES, load, read, store, write
from gsdm_pyg.ops.cpu.vector_math import filled, total

LOG_2 = math.log(2)
SPARSEST = 8  # edges per node: with fewer, packing costs what it saves
FEWEST = 32  # islands times heads: with fewer, many threads would have nothing to do
LARGEST = 512 * 1024  # bytes of an island's packed nodes
LONGEST = 32 * 1024  # edges of an island
NO_NODE = 2**62


def packed_size(channels: int, storage: str) -> int:
    """Bytes of a node: k, v, dk and dv, in the dtype that sums are taken in."""
    return 4 * channels * (8 if storage == "float64" else 4)


@njit
def ends_of_row(task, col, start, end):
    """(lowest, highest) neighbour of a row; no bounds where there is none."""
    if start == end:
        return NO_NODE, -1
    first = read_index(task, col, start)
    falls = 0  # negative where a neighbour is below the one before
    for edge in range(start + 1, end):
        falls |= read_index(task, col, edge) - read_index(task, col, edge - 1)
    if falls >= 0:  # the usual case, and several edges are compared at once
        return first, read_index(task, col, end - 1)
    low = high = first
    for edge in range(start + 1, end):
        node = read_index(task, col, edge)
        low, high = min(low, node), max(high, node)
    return low, high


@njit
def enter_edges(task, table, first, last, node_size):
    """Where each edge of an island finds its packed node, and a block of 8 behind."""
    rowptr, col = field(task, "rowptr"), field(task, "col")
    start, end = read_index(task, rowptr, first), read_index(task, rowptr, last)
    for edge in range(start, end):
        node = read_index(task, col, edge) - first
        if node < 0 or node >= last - first:
            set_field(task, "invalid", 1)
            node = 0
        write(table + (edge - start) * ENTRY, node * node_size)
    for edge in range(end, end + 8):
        write(table + (edge - start) * ENTRY, 0)


def make_find_islands(channels: int, storage: str):
    """Where islands begin; leaves their number, or 0 if one of them is too large.

    Also leaves the room that a thread needs for the largest: the nodes, and three
    numbers per edge (its offset, p and ds), each kind in `pitch` bytes.
    """
    node_size = packed_size(channels, storage)

    def find_islands(task):
        rows, edges = field(task, "rows"), field(task, "edges")
        rowptr, col = field(task, "rowptr"), field(task, "col")
        islands, count = field(task, "islands"), 0
        first, first_edge, reach = 0, 0, -1  # of the island that is open
        most_nodes, most_edges = 0, 0
        end = read_index(task, rowptr, 0)
        write(islands, 0)
        for row in range(rows):
            start, end = end, read_index(task, rowptr, row + 1)
            if start < 0 or end < start or end > edges:
                return
            num_nodes, num_edges = row + 1 - first, end - first_edge
            if num_nodes * node_size > LARGEST or num_edges > LONGEST:
                return
            low, high = ends_of_row(task, col, start, end)
            reach = max(reach, high)
            if low < first or reach >= rows:
                return
            if reach <= row:
                most_nodes = max(most_nodes, num_nodes)
                most_edges = max(most_edges, num_edges)
                first, first_edge, count = row + 1, end, count + 1
                write(islands + 8 * count, first)
        if first == rows and end == edges:
            pitch = (most_edges + 15) // 8 * 64  # a block of 8 may reach beyond the end
            set_field(task, "pitch", pitch)
            set_field(
                task, "room", (3 * pitch + most_nodes * node_size + 63) // 64 * 64
            )
            set_field(task, "num_islands", count)

    return find_islands


def make_backward_islands(channels: int, storage: str):
    """Gradients of q, k and v, for a graph cut by `find_islands`.

    Args:
        channels: C, the channels per head.
        storage: The dtype of q, k, v, grad and their gradients, by name.
    """
    accum = "float64" if storage == "float64" else "float32"
    size, node_size = BYTES[accum], packed_size(channels, storage)
    of_v, of_dk, of_dv = node_size // 4, node_size // 2, node_size * 3 // 4

    def backward_islands(task):
        scale, heads = field(task, "scale"), field(task, "heads")
        rowptr, constants = field(task, "rowptr"), field(task, "constants")
        lse, islands = field(task, "lse"), field(task, "islands")
        q, q_row, q_head = tensor(task, "q")
        k, k_row, k_head = tensor(task, "k")
        v, v_row, v_head = tensor(task, "v")
        out, out_row, out_head = tensor(task, "out")
        grad, grad_row, grad_head = tensor(task, "grad")
        dq, dq_row, dq_head = tensor(task, "dq")
        dk, dk_row, dk_head = tensor(task, "dk")
        dv, dv_row, dv_head = tensor(task, "dv")
        table, pitch = workspace(task), field(task, "pitch")
        p_at, ds_at, nodes = table + pitch, table + 2 * pitch, table + 3 * pitch
        held = -1  # the island whose edges are in the table
        piece = next_piece(task)
        while piece >= 0:
            island, head = piece // heads, piece % heads
            first = read(islands + 8 * island, "int64")
            last = read(islands + 8 * island + 8, "int64")
            first_edge = read_index(task, rowptr, first)
            if island != held:
                enter_edges(task, table, first, last, node_size)
                held = island
            q_h, k_h, v_h = q + head * q_head, k + head * k_head, v + head * v_head
            out_h, grad_h = out + head * out_head, grad + head * grad_head
            dq_h, dk_h = dq + head * dq_head, dk + head * dk_head
            dv_h = dv + head * dv_head

            zero = filled(channels, 0.0, storage)
            for row in range(first, last):
                node = nodes + (row - first) * node_size
                store(node, load(k_h + row * k_row, channels, storage), accum)
                store(node + of_v, load(v_h + row * v_row, channels, storage), accum)
                store(node + of_dk, zero, accum)
                store(node + of_dv, zero, accum)

            for row in range(first, last):
                start = read_index(task, rowptr, row)
                count = read_index(task, rowptr, row + 1) - start
                entries = table + (start - first_edge) * ENTRY
                q_i = load(q_h + row * q_row, channels, storage) * scale
                grad_i = load(grad_h + row * grad_row, channels, storage)
                out_i = load(out_h + row * out_row, channels, storage)
                delta_i = total(grad_i * out_i)
                lse_i = read(lse + (row * heads + head) * size, accum)
                # Edges go in blocks of 8; 1 to 4 of them may be left.
                blocks = (count + 3) // 8 * 8
                for e in range(0, blocks, 8):
                    entry = entries + e * ENTRY
                    logit = dots(q_i, nodes, entry, 8, accum)
                    dp = dots(grad_i, nodes + of_v, entry, 8, accum)
                    p = exp2(logit - lse_i, constants)
                    store(p_at + e * size, p, accum)
                    store(ds_at + e * size, p * (dp - delta_i), accum)
                if blocks < count:
                    entry = entries + blocks * ENTRY
                    logit = dots(q_i, nodes, entry, 4, accum)
                    dp = dots(grad_i, nodes + of_v, entry, 4, accum)
                    p = exp2(logit - lse_i, constants)
                    store(p_at + blocks * size, p, accum)
                    store(ds_at + blocks * size, p * (dp - delta_i), accum)

                sum_q = filled(channels, 0.0, storage)
                for e in range(count):
                    node = nodes + read(entries + e * ENTRY, "int64")
                    p, ds = read(p_at + e * size, accum), read(ds_at + e * size, accum)
                    sum_q = sum_q + load(node, channels, accum) * ds
                    dk_j = load(node + of_dk, channels, accum) + q_i * ds
                    dv_j = load(node + of_dv, channels, accum) + grad_i * p
                    store(node + of_dk, dk_j, accum)
                    store(node + of_dv, dv_j, accum)
                store(dq_h + row * dq_row, sum_q * (scale * LOG_2), storage)

            for row in range(first, last):
                node = nodes + (row - first) * node_size
                dk_j = load(node + of_dk, channels, accum) * LOG_2
                dv_j = load(node + of_dv, channels, accum)
                store(dk_h + row * dk_row, dk_j, storage)
                store(dv_h + row * dv_row, dv_j, storage)
            piece = next_piece(task)

    return backward_islands
