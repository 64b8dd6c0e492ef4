"""Tensors in, tensors out: fills in tasks and runs the kernels."""

import ctypes
import math

import torch
from torch import Tensor

from gsdm_pyg.ops.cpu.compile import compiled
from gsdm_pyg.ops.cpu.exponential import CONSTANTS
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


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums run in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def same_stride(*tensors: Tensor) -> bool:
    """Whether one offset in bytes finds a node's rows in all of them."""
    return len({tensor.stride(0) for tensor in tensors}) == 1


class Launch:
    """A task over the rows of one graph, and the memory that its threads work in.

    Args:
        like: Any tensor [N, H, C] of the task, for its heads and channels.
        rowptr: [rows + 1]
        col: [E]
        sources: Number of nodes that `col` counts.
        scale: Factor of the logits.
        part: Numbers that a part of a hub leaves per head.
    """

    def __init__(
        self,
        like: Tensor,
        rowptr: Tensor,
        col: Tensor,
        sources: int,
        scale: float,
        part: int,
    ):
        self.task = task = Task()
        task.scale = scale * LOG2_E
        task.rows, task.sources = rowptr.numel() - 1, sources
        task.edges, task.heads = col.numel(), like.size(1)
        task.rowptr, task.col = rowptr.data_ptr(), col.data_ptr()
        task.index_size = col.element_size()
        task.constants = CONSTANTS.data_ptr()
        self.graph, self.threads = (rowptr, col), torch.get_num_threads()
        self.pieces = pieces = -(-task.edges // PIECE) or 1
        tables, owners = min(self.threads, pieces) * WORKSPACE, 16 * pieces
        parts = 2 * pieces * task.heads * part * 8
        self.memory = torch.empty(tables + owners + parts, dtype=torch.uint8)
        task.tables = self.memory.data_ptr()
        task.owners = task.tables + tables
        task.parts = task.owners + owners

    def put(self, **tensors: Tensor) -> None:
        """Enter tensors [N, H, C], which need not be contiguous in N and H."""
        for name, tensor in tensors.items():
            row, head, _ = tensor.stride()
            size = tensor.element_size()
            setattr(self.task, name, tensor.data_ptr())
            setattr(self.task, name + "_row", row * size)
            setattr(self.task, name + "_head", head * size)

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
    q: Tensor, k: Tensor, v: Tensor, graph: Graph, bias: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C], and log2 of every softmax's denominator, [N_dst, H]."""
    rows, heads, channels = q.shape
    storage, shared, biased = STORAGE[q.dtype], same_stride(k, v), bias is not None
    out = q.new_empty(q.shape)
    lse = q.new_empty((rows, heads), dtype=accumulator(q.dtype))
    launch = Launch(q, *graph, k.size(0), scale, channels + 2)
    launch.put(q=q, k=k, v=v, out=out)
    launch.task.lse = lse.data_ptr()
    if bias is not None:
        launch.task.bias = bias.data_ptr()
    launch.run(launch.pieces, "forward", channels, storage, shared, biased)
    launch.combine("combine_forward", channels, storage)
    return out, lse


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    graph: Graph,
    transpose: tuple[Tensor, Tensor, Tensor] | None,
    bias: Tensor | None,
    scale: float,
    grads: tuple[Tensor, Tensor, Tensor, Tensor | None],
) -> None:
    """Write dq, dk, dv and dbias into the tensors `grads`."""
    dq, dk, dv, dbias = grads
    rows, heads, channels = q.shape
    storage, biased = STORAGE[q.dtype], bias is not None
    shared = same_stride(q, k, v)
    stats = lse.new_empty((rows, heads, 2))

    def launch_on(graph: Graph, sources: int) -> Launch:
        launch = Launch(q, *graph, sources, scale, 3 * channels)
        launch.put(q=q, k=k, v=v, out=out, grad=grad, dq=dq, dk=dk, dv=dv)
        task = launch.task
        task.lse, task.stats = lse.data_ptr(), stats.data_ptr()
        if bias is not None and dbias is not None:
            task.bias, task.dbias = bias.data_ptr(), dbias.data_ptr()
        return launch

    launch = launch_on(graph, k.size(0))
    launch.run(-(-rows // PIECE) or 1, "stats", channels, storage)
    both = transpose is None
    launch.run(launch.pieces, "backward", channels, storage, shared, biased, True, both)
    launch.combine("combine_backward", channels, storage, True, both)
    if transpose is not None:
        t_rowptr, t_row, t_perm = transpose
        launch = launch_on((t_rowptr, t_row), rows)
        launch.task.perm = t_perm.data_ptr()
        options = (channels, storage, shared, biased, False, True)
        launch.run(launch.pieces, "backward", *options)
        launch.combine("combine_backward", channels, storage, False, True)
