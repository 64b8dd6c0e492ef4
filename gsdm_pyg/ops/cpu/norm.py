"""Tensors in, tensors out: runs the kernels that normalize rows."""

import ctypes
from typing import NamedTuple, Self

import torch
from torch import Tensor

from gsdm_pyg.ops.cpu.compile import compiled
from gsdm_pyg.ops.cpu.exponential import CONSTANTS
from gsdm_pyg.ops.cpu.memory import empty
from gsdm_pyg.ops.cpu.norm_kernels import LANES, ROWS_PER_ITEM
from gsdm_pyg.ops.cpu.task import Task
from gsdm_pyg.ops.cpu.threads import run_kernel
from gsdm_pyg.ops.kernel_inputs import readable

MAX_WIDTH = 1024  # of the rows that the kernels are compiled for


class NormInputs(NamedTuple):
    """Inputs of LayerNorm(x + table[row_id]) * weight + shift."""

    x: Tensor  # [N, D]
    weight: Tensor  # [D]
    shift: Tensor  # [D]
    table: Tensor | None  # [M, D]
    row_id: Tensor | None  # [N]

    def readable(self) -> Self:
        """The inputs as the kernels read them."""
        given = {name: x for name, x in self._asdict().items() if x is not None}
        return self._replace(**{name: readable(name, x) for name, x in given.items()})


def is_supported(x: Tensor, *rows: Tensor) -> bool:
    """Whether the kernels accept x [N, D] with these rows [D] or tables of them."""
    width = x.size(-1)
    if x.dim() != 2 or width % LANES or not 0 < width <= MAX_WIDTH:
        return False
    return all(
        t.is_cpu
        and t.dtype == torch.float32
        and t.is_contiguous()
        and t.size(-1) == width
        for t in (x, *rows)
    )


def forward(inputs: NormInputs, silu: bool, eps: float) -> tuple[Tensor, Tensor]:
    """The result [N, D], and mean and rstd of every row, [N, 2]."""
    x = inputs.x
    y = empty(x.shape, x.dtype)
    stats = empty((x.size(0), 2), x.dtype)
    _run("norm", inputs, silu, eps, y=y, stats=stats)
    return y, stats


def backward(
    dy: Tensor, inputs: NormInputs, silu: bool, stats: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x + table[row_id], of weight and of shift."""
    x = inputs.x
    dx = empty(x.shape, x.dtype)
    partials = empty((-(-x.size(0) // ROWS_PER_ITEM), 2, x.size(1)), x.dtype)
    _run("norm_backward", inputs, silu, dy=dy, stats=stats, dx=dx, partials=partials)
    dweight, dshift = partials.sum(0)
    return dx, dweight, dshift


def _run(
    name: str, inputs: NormInputs, silu: bool, eps: float = 0.0, **others: Tensor
) -> None:
    """Run the kernel `name` over all rows of x; `others` are fields of the task."""
    num_rows, width = inputs.x.shape
    if num_rows == 0:
        return
    task = Task(scale=eps, num_rows=num_rows, constants=CONSTANTS.data_ptr())
    task.num_items = -(-num_rows // ROWS_PER_ITEM)
    for field, tensor in (inputs._asdict() | others).items():
        if tensor is not None:
            setattr(task, field, tensor.data_ptr())
    kernel = compiled(name, width, silu, inputs.table is not None)
    threads = min(torch.get_num_threads(), task.num_items)
    run_kernel(kernel, ctypes.addressof(task), threads)
