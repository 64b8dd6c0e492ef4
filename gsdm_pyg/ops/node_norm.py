"""LayerNorm of every node, with what stands before and after it, in one pass.

    y = LayerNorm(x + table[row_id]),   then SiLU if asked

On the CPU one kernel reads x and writes y, and of the size of x its backward keeps
nothing but x; everywhere else, and inside `torch.compile`, torch's own operators serve.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from gsdm_pyg.ops.library import cpu


def node_norm(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    table: Tensor | None = None,
    row_id: Tensor | None = None,
    silu: bool = False,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise the rows of x to zero mean and unit variance, then scale and shift.

    Args:
        x: Rows [N, D].
        weight: Scale [D].
        shift: Shift [D].
        table: Rows [M, D] of which one is added to each row of x first.
        row_id: Which one, [N], int64.
        silu: Whether to apply SiLU to the result.
        eps: Added to the variance.
    """
    if (table is None) != (row_id is None):
        raise ValueError(
            "table and row_id go together: pass both or neither "
            f"(got {type(table).__name__} and {type(row_id).__name__})."
        )
    if not _is_fused(x, weight, shift, table):
        if table is not None and row_id is not None:
            x = x + table.index_select(0, row_id)
        y = F.layer_norm(x, weight.shape, weight, shift, eps)
        return F.silu(y) if silu else y
    if row_id is not None and table is not None:
        _check_rows(x, table, row_id)
        row_id = row_id.contiguous()
    return FusedNorm.apply(x, weight, shift, table, row_id, silu, eps)


def _is_fused(x: Tensor, weight: Tensor, shift: Tensor, table: Tensor | None) -> bool:
    rows = [weight, shift] if table is None else [weight, shift, table]
    plain = all(type(t) in (Tensor, torch.nn.Parameter) for t in (x, *rows))
    if cpu is None or torch.compiler.is_compiling() or not plain:
        return False
    return weight.dim() == shift.dim() == 1 and cpu.norm.fits(x, *rows)


def _check_rows(x: Tensor, table: Tensor, row_id: Tensor) -> None:
    wrong = row_id.shape != x.shape[:1] or row_id.dtype != torch.long
    if wrong or not row_id.is_cpu or table.dim() != 2:
        raise ValueError(
            f"table must be [M, D], and row_id int64 on the CPU with one entry per row "
            f"of x, {x.size(0)} (got {tuple(table.shape)}, and {row_id.dtype} of shape "
            f"{tuple(row_id.shape)} on {row_id.device})."
        )
    if len(row_id):
        low, high = (int(end) for end in row_id.aminmax())
        if low < 0 or high >= len(table):
            raise IndexError(
                f"row_id counts rows of the table, 0..{len(table) - 1} "
                f"(got {low}..{high})."
            )


class FusedNorm(torch.autograd.Function):
    """The kernels and their gradient."""

    @staticmethod
    def forward(ctx, x, weight, shift, table, row_id, silu, eps):
        y, stats = cpu.norm.forward(x, weight, shift, table, row_id, silu, eps)
        ctx.save_for_backward(x, weight, shift, table, row_id, stats)
        ctx.silu = silu
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        x, weight, shift, table, row_id, stats = ctx.saved_tensors
        dx, dweight, dshift = cpu.norm.backward(
            dy.contiguous(), x, weight, shift, table, row_id, ctx.silu, stats
        )
        dtable = None
        if table is not None and ctx.needs_input_grad[3]:
            index = row_id[:, None].expand_as(dx)
            dtable = torch.zeros_like(table).scatter_add_(0, index, dx)
        return dx, dweight, dshift, dtable, None, None, None
