"""Tensors in, tensors out: fills in tasks and runs the kernels."""

import ctypes
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gsdm_pyg.ops.cpu import memory
from gsdm_pyg.ops.cpu.compile import compiled
from gsdm_pyg.ops.cpu.exponential import CONSTANTS
from gsdm_pyg.ops.cpu.island_kernels import FEWEST, SPARSEST
from gsdm_pyg.ops.cpu.memory import empty
from gsdm_pyg.ops.cpu.schedule import PIECE, TABLE, WEIGHTS
from gsdm_pyg.ops.cpu.task import Rows, Task
from gsdm_pyg.ops.cpu.threads import run
from gsdm_pyg.ops.cpu.vector import LINE
from gsdm_pyg.ops.csr import EdgeTerms

Graph = tuple[Tensor, Tensor]  # rowptr [rows + 1], col [E]
Kernel = tuple[int | str | bool, ...]  # name and options, see `compiled`
LOG2_E = math.log2(math.e)
STORAGE = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}


def rows_of(x: Tensor) -> Rows:
    row, head, _ = x.stride()
    size = x.element_size()
    return Rows(x.data_ptr(), row * size, head * size)


def split(qkv: Sequence[Tensor]) -> list[Rows]:
    """Queries, keys and values, from three tensors or one packed [N, 3, H, C]."""
    if len(qkv) == 3:
        return [rows_of(x) for x in qkv]
    (packed,) = qkv
    row, third, head, _ = packed.stride()
    address, size = packed.data_ptr(), packed.element_size()
    return [Rows(address + n * third * size, row * size, head * size) for n in range(3)]


def new_task(qkv: Sequence[Rows], out: Tensor, lse: Tensor, scale: float) -> Task:
    """The task of attending, without a graph yet."""
    q, k, v = qkv
    return Task(
        scale=scale * LOG2_E,
        heads=out.size(1),
        constants=CONSTANTS.data_ptr(),
        q=q,
        k=k,
        v=v,
        out=rows_of(out),
        lse=lse.data_ptr(),
    )


def enter(task: Task, graph: Graph, sources: int) -> None:
    """Enter the graph to walk over, and the number of nodes that its `col` counts."""
    rowptr, col = graph
    task.rows, task.sources, task.edges = rowptr.numel() - 1, sources, col.numel()
    task.rowptr, task.col = rowptr.data_ptr(), col.data_ptr()
    task.index_size, task.hubs = col.element_size(), 0


def enter_terms(task: Task, terms: EdgeTerms) -> tuple[bool, bool]:
    """Enter what edges carry; returns whether they have a bias, and a factor."""
    for name, term in zip(terms._fields, terms, strict=True):
        setattr(task, name, 0 if term is None else term.data_ptr())
    return terms.bias is not None, terms.factor is not None


def run_pieces(task: Task, pieces: int, kernel: Kernel) -> None:
    """Run a kernel on all threads, until none of the pieces is left."""
    task.counter, task.threads, task.pieces = 0, 0, pieces
    threads = min(torch.get_num_threads(), pieces)
    run(compiled(*kernel), ctypes.addressof(task), threads)


def walk(task: Task, graph: Graph, part: int, kernel: Kernel, combine: Kernel) -> None:
    """Run a kernel over all rows of the graph, then combine the parts of hubs.

    Args:
        task: Names the tensors and the graph.
        graph: The same graph, for the message if it is wrong.
        part: Numbers that a part of a hub leaves per head.
        kernel: Computes rows and parts of rows.
        combine: Puts hubs together from their parts.
    """
    pieces = -(-task.edges // PIECE) or 1
    task.room = 5 * TABLE + max(task.heads, 3) * (WEIGHTS + 64)
    rooms, owners = min(torch.get_num_threads(), pieces) * task.room, 16 * pieces
    parts = 2 * pieces * task.heads * part * 8
    space = empty((rooms + owners + parts,), torch.uint8)
    task.rooms = space.data_ptr()
    task.owners = task.rooms + rooms
    task.parts = task.owners + owners
    run_pieces(task, pieces, kernel)
    refuse_wrong(task, graph)
    if task.hubs:  # the kernel looks for them in all pieces
        run(compiled(*combine), ctypes.addressof(task), 1)


def refuse_wrong(task: Task, graph: Graph) -> None:
    """Raise if a kernel met an index that leads nowhere."""
    if not task.invalid:
        return
    rowptr, col = graph
    low, high = (col.min().item(), col.max().item()) if col.numel() else (0, 0)
    raise IndexError(
        "rowptr must rise from 0 to the number of edges, and indices of nodes must "
        f"lie in [0, {task.sources}) (got rowptr from {rowptr[0]} to {rowptr[-1]} "
        f"for {col.numel()} edges, and indices from {low} to {high})"
    )


def forward(
    qkv: Sequence[Tensor],
    graph: Graph,
    terms: EdgeTerms,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C + F], and log2 of every softmax's denominator, [N_dst, H].

    Args:
        qkv: Queries [N_dst, H, C + F], keys and values [N_src, H, C], or one packed
            tensor [N, 3, H, C]; channels lie side by side.
        graph: rowptr [N_dst + 1] and col [E].
        terms: Of the edges, contiguous.
        scale: Factor of the logits.
    """
    like = qkv[0]
    rows, heads, width = like.size(0), like.size(-2), like.size(-1)
    channels = qkv[-1].size(-1)
    q, k, v = split(qkv)
    out = empty((rows, heads, width), like.dtype)
    accum = torch.float64 if like.dtype == torch.float64 else torch.float32
    lse = empty((rows, heads), accum)
    task = new_task((q, k, v), out, lse, scale)
    enter(task, graph, qkv[-1].size(0))
    biased, factored = enter_terms(task, terms)
    storage = STORAGE[like.dtype]
    kind = (channels, width - channels, storage)
    kernel = ("forward", *kind, k.row == v.row, biased, factored)
    walk(task, graph, width + 2, kernel, ("combine_forward", width, storage))
    return out, lse


def backward(
    grad: Tensor,
    qkv: Sequence[Tensor],
    out: Tensor,
    lse: Tensor,
    graph: Graph,
    transpose: Sequence[Tensor],
    terms: EdgeTerms,
    scale: float,
    edge_grad: bool,
) -> list[Tensor]:
    """Gradients of q, k and v, packed as they were, then of bias and edge if given.

    Args:
        grad: Gradient of `out`, channels side by side.
        qkv: See `forward`.
        out: From `forward`, like lse.
        lse: [N_dst, H]
        graph: rowptr [N_dst + 1] and col [E].
        transpose: From `transpose_csr`; empty for a symmetric graph without terms.
        terms: Of the edges.
        scale: Factor of the logits.
        edge_grad: Whether the gradient of `terms.edge` is wanted; else it has no rows.
    """
    rows, heads, width = out.shape
    sources, channels = qkv[-1].size(0), qkv[-1].size(-1)
    storage = STORAGE[out.dtype]
    grads = [empty(x.shape, x.dtype) for x in qkv]
    q, k, v = split(qkv)
    dq, dk, dv = split(grads)
    task = new_task((q, k, v), out, lse, scale)
    task.grad, task.dq, task.dk, task.dv = rows_of(grad), dq, dk, dv
    enter(task, graph, sources)
    if not terms and rows == sources and run_islands(task, graph, (channels, storage)):
        return grads

    stats = empty((rows, heads, 2), lse.dtype)
    task.stats = stats.data_ptr()
    run_pieces(task, -(-rows // PIECE) or 1, ("stats", width, storage))
    features = width - channels
    kind, part = (channels, features, storage), width + 2 * channels
    ds, p = (empty((task.edges if terms else 0, heads), lse.dtype) for _ in range(2))
    dedge = empty((task.edges if edge_grad else 0, features), lse.dtype)
    task.ds, task.p, task.dedge = ds.data_ptr(), p.data_ptr(), dedge.data_ptr()
    biased, factored = enter_terms(task, terms)

    def kernel(query: bool, key: bool) -> Kernel:
        if not terms:
            shared, far = q.row == k.row == v.row, past_caches(grads, (dq, dk, dv))
            return ("backward", channels, storage, shared, query, key, far)
        if key:
            return ("backward_keys", *kind)
        return ("backward_edges", *kind, k.row == v.row, biased, factored, edge_grad)

    walks = [(graph, sources, True, not transpose)]
    if transpose:
        t_rowptr, t_row, t_perm = transpose
        task.perm = t_perm.data_ptr()
        walks.append(((t_rowptr, t_row), rows, False, True))
    for walked, ends, query, key in walks:
        enter(task, walked, ends)
        combine = ("combine_backward", *kind, query, key)
        walk(task, walked, part, kernel(query, key), combine)
    if terms.bias is not None:
        grads.append(ds.to(terms.bias.dtype))
    if terms.edge is not None:
        grads.append(dedge.to(terms.edge.dtype))
    return grads


def past_caches(grads: Sequence[Tensor], rows: Sequence[Rows]) -> bool:
    """Whether gradients are too large for the caches, and made of whole lines."""
    numbers = [getattr(x, name) for x in rows for name in ("address", "row", "head")]
    numbers.append(grads[0].size(-1) * grads[0].element_size())
    large = sum(x.nbytes for x in grads) > memory.LARGE
    return large and all(number % LINE == 0 for number in numbers)


def run_islands(task: Task, graph: Graph, kind: tuple[int, str]) -> bool:
    """Compute the gradients island by island, if the graph has enough small ones.

    The choice depends on the graph alone, so results do not depend on the threads.
    """
    if task.edges < SPARSEST * task.rows:
        return False
    islands = empty((task.rows + 1,), torch.int64)
    task.islands = islands.data_ptr()
    run_pieces(task, 1, ("find_islands", *kind))
    pieces = task.num_islands * task.heads
    if pieces < FEWEST:
        return False
    space = empty((min(torch.get_num_threads(), pieces) * task.room,), torch.uint8)
    task.rooms = space.data_ptr()
    run_pieces(task, pieces, ("backward_islands", *kind))
    refuse_wrong(task, graph)
    return True
