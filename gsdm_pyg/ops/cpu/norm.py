"""Tensors in, tensors out: runs the kernels that normalise rows."""

import ctypes

import torch
from torch import Tensor

from gsdm_pyg.ops.cpu.compile import compiled
from gsdm_pyg.ops.cpu.exponential import CONSTANTS
from gsdm_pyg.ops.cpu.memory import empty
from gsdm_pyg.ops.cpu.norm_kernels import LANES, ROWS
from gsdm_pyg.ops.cpu.task import Task
from gsdm_pyg.ops.cpu.threads import run

WIDEST = 1024  # of the rows that the kernels are compiled for


def fits(x: Tensor, *rows: Tensor) -> bool:
    """Whether the kernels take x [N, D] with these rows [D] or tables of them."""
    width = x.size(-1)
    if x.dim() != 2 or width % LANES or not 0 < width <= WIDEST:
        return False
    return all(
        t.is_cpu
        and t.dtype == torch.float32
        and t.is_contiguous()
        and t.size(-1) == width
        for t in (x, *rows)
    )


def launch(
    name: str,
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    table: Tensor | None,
    row_id: Tensor | None,
    silu: bool,
    eps: float = 0.0,
    **addresses: int,
) -> None:
    """Run the kernel `name` over all rows of x."""
    task = Task()
    task.scale, task.rows = eps, x.size(0)
    task.pieces = -(-x.size(0) // ROWS)
    task.constants = CONSTANTS.data_ptr()
    task.x, task.weight, task.shift = (t.data_ptr() for t in (x, weight, shift))
    if table is not None and row_id is not None:
        task.table, task.row_id = table.data_ptr(), row_id.data_ptr()
    for field, address in addresses.items():
        setattr(task, field, address)
    kernel = compiled(name, x.size(1), silu, table is not None)
    threads = min(torch.get_num_threads(), task.pieces)
    run(kernel, ctypes.addressof(task), threads)


def forward(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    table: Tensor | None,
    row_id: Tensor | None,
    silu: bool,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """The result [N, D], and mean and rstd of every row, [N, 2]."""
    y = empty(x.shape, x.dtype)
    stats = empty((x.size(0), 2), x.dtype)
    if len(x):
        addresses = {"y": y.data_ptr(), "stats": stats.data_ptr()}
        launch("norm", x, weight, shift, table, row_id, silu, eps, **addresses)
    return y, stats


def backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    table: Tensor | None,
    row_id: Tensor | None,
    silu: bool,
    stats: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x + table[row_id], of weight and of shift."""
    dx = empty(x.shape, x.dtype)
    parts = empty((-(-x.size(0) // ROWS), 2, x.size(1)), x.dtype)
    if len(x):
        addresses = {"dy": dy, "stats": stats, "dx": dx, "parts": parts}
        at = {name: tensor.data_ptr() for name, tensor in addresses.items()}
        launch("norm_backward", x, weight, shift, table, row_id, silu, **at)
    dweight, dshift = parts.sum(0)
    return dx, dweight, dshift
