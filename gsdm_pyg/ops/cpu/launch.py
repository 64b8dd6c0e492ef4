"""Tensors in, tensors out: fills in tasks and runs the kernels."""

import ctypes
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gsdm_pyg.ops.cpu.compile import compiled
from gsdm_pyg.ops.cpu.exponential import CONSTANTS
from gsdm_pyg.ops.cpu.memory import empty
from gsdm_pyg.ops.cpu.schedule import PIECE, WORKSPACE
from gsdm_pyg.ops.cpu.task import Task
from gsdm_pyg.ops.cpu.threads import run

Graph = tuple[Tensor, Tensor]  # rowptr [rows + 1], col [E]
LOG2_E = math.log2(math.e)
STORAGE = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}


class Rows(NamedTuple):
    """A tensor [N, H, C] in memory: address and strides of rows and heads, in bytes."""

    address: int
    row: int
    head: int


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


class Launch:
    """A task over the rows of one graph, and the memory that its threads work in.

    Args:
        rowptr: [rows + 1]
        col: [E]
        sources: Number of nodes that `col` counts.
        heads: H
        scale: Factor of the logits.
        part: Numbers that a part of a hub leaves per head.
    """

    def __init__(
        self,
        rowptr: Tensor,
        col: Tensor,
        sources: int,
        heads: int,
        scale: float,
        part: int,
    ):
        self.task = task = Task()
        task.scale = scale * LOG2_E
        task.rows, task.sources = rowptr.numel() - 1, sources
        task.edges, task.heads = col.numel(), heads
        task.rowptr, task.col = rowptr.data_ptr(), col.data_ptr()
        task.index_size = col.element_size()
        task.constants = CONSTANTS.data_ptr()
        self.graph, self.threads = (rowptr, col), torch.get_num_threads()
        self.pieces = pieces = -(-task.edges // PIECE) or 1
        tables, owners = min(self.threads, pieces) * WORKSPACE, 16 * pieces
        parts = 2 * pieces * heads * part * 8
        self.memory = empty((tables + owners + parts,), torch.uint8)
        task.tables = self.memory.data_ptr()
        task.owners = task.tables + tables
        task.parts = task.owners + owners

    def put(self, **tensors: Rows) -> None:
        """Enter tensors by the names of their fields."""
        task = self.task
        for name, (address, row, head) in tensors.items():
            setattr(task, name, address)
            setattr(task, name + "_row", row)
            setattr(task, name + "_head", head)

    def run(self, pieces: int, name: str, *options: int | str | bool) -> None:
        task = self.task
        task.counter, task.threads, task.pieces = 0, 0, pieces
        threads = min(self.threads, pieces)
        run(compiled(name, *options), ctypes.addressof(task), threads)

    def combine(self, name: str, *options: int | str | bool) -> None:
        """Combine the parts of hubs, if there are any; refuse a wrong graph."""
        if self.task.invalid:
            raise IndexError(self.complaint())
        if self.task.hubs:
            run(compiled(name, *options), ctypes.addressof(self.task), 1)

    def complaint(self) -> str:
        rowptr, col = self.graph
        low, high = (col.min().item(), col.max().item()) if col.numel() else (0, 0)
        return (
            "rowptr must rise from 0 to the number of edges, and indices of nodes must "
            f"lie in [0, {self.task.sources}) (got rowptr from {rowptr[0]} to "
            f"{rowptr[-1]} for {col.numel()} edges, and indices from {low} to {high})"
        )


def forward(
    qkv: Sequence[Tensor],
    graph: Graph,
    bias: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C], and log2 of every softmax's denominator, [N_dst, H].

    Args:
        qkv: Queries [N_dst, H, C], keys and values [N_src, H, C], or one packed tensor
            [N, 3, H, C]; channels lie side by side.
        graph: rowptr [N_dst + 1] and col [E].
        bias: [E, H], contiguous.
        scale: Factor of the logits.
    """
    like = qkv[0]
    rows, heads, channels = like.size(0), like.size(-2), like.size(-1)
    q, k, v = split(qkv)
    out = empty((rows, heads, channels), like.dtype)
    accum = torch.float64 if like.dtype == torch.float64 else torch.float32
    lse = empty((rows, heads), accum)
    launch = Launch(*graph, qkv[-1].size(0), heads, scale, channels + 2)
    launch.put(q=q, k=k, v=v, out=rows_of(out))
    launch.task.lse = lse.data_ptr()
    if bias is not None:
        launch.task.bias = bias.data_ptr()
    kind = (channels, STORAGE[like.dtype])
    launch.run(launch.pieces, "forward", *kind, k.row == v.row, bias is not None)
    launch.combine("combine_forward", *kind)
    return out, lse


def backward(
    grad: Tensor,
    qkv: Sequence[Tensor],
    out: Tensor,
    lse: Tensor,
    graph: Graph,
    transpose: Sequence[Tensor],
    bias: Tensor | None,
    scale: float,
) -> list[Tensor]:
    """Gradients of q, k and v, packed as they were, then of the bias if there is one.

    Args:
        grad: Gradient of `out`, channels side by side.
        qkv: See `forward`.
        out: From `forward`, like lse.
        lse: [N_dst, H]
        graph: rowptr [N_dst + 1] and col [E].
        transpose: From `transpose_csr`; empty for a symmetric graph without bias.
        bias: [E, H]
        scale: Factor of the logits.
    """
    rows, heads, channels = out.shape
    q, k, v = split(qkv)
    inputs = qkv if bias is None else [*qkv, bias]
    grads = [empty(x.shape, x.dtype) for x in inputs]
    dq, dk, dv = split(grads[: len(qkv)])
    stats = empty((rows, heads, 2), lse.dtype)
    kind, biased = (channels, STORAGE[out.dtype]), bias is not None
    options = (*kind, q.row == k.row == v.row, biased)

    def launch_on(graph: Graph, sources: int) -> Launch:
        launch = Launch(*graph, sources, heads, scale, 3 * channels)
        launch.put(q=q, k=k, v=v, out=rows_of(out), grad=rows_of(grad))
        launch.put(dq=dq, dk=dk, dv=dv)
        task = launch.task
        task.lse, task.stats = lse.data_ptr(), stats.data_ptr()
        if bias is not None:
            task.bias, task.dbias = bias.data_ptr(), grads[-1].data_ptr()
        return launch

    launch = launch_on(graph, qkv[-1].size(0))
    launch.run(-(-rows // PIECE) or 1, "stats", *kind)
    symmetric = not transpose
    launch.run(launch.pieces, "backward", *options, True, symmetric)
    launch.combine("combine_backward", *kind, True, symmetric)
    if transpose:
        t_rowptr, t_row, t_perm = transpose
        launch = launch_on((t_rowptr, t_row), rows)
        launch.task.perm = t_perm.data_ptr()
        launch.run(launch.pieces, "backward", *options, False, True)
        launch.combine("combine_backward", *kind, False, True)
    return grads
