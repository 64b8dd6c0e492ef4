"""LayerNorm of every node, with what comes before and after it, in one pass.

    y = LayerNorm(x + table[row_id]),   then SiLU if `silu`

On the CPU one kernel reads x and writes y, and of all tensors [N, D] its backward keeps
only x. Elsewhere, and inside `torch.compile` and `torch.func`, torch's own operators
are used.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gsdm_pyg.ops.derivatives import differentiable_gradients, is_transformed
from gsdm_pyg.ops.kernel_inputs import (
    check_memory,
    check_tensor,
    has_storage,
    readable_gradient,
)

try:
    from gsdm_pyg.ops import cpu
except ImportError:  # Numba is missing
    cpu = None  # type: ignore[assignment]


def node_norm(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    table: Tensor | None = None,
    row_id: Tensor | None = None,
    silu: bool = False,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize the rows of x to zero mean and unit variance, then scale and shift.

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
    if not torch.compiler.is_compiling():
        named = {"x": x, "weight": weight, "shift": shift}
        if table is not None and row_id is not None:
            named |= {"table": table, "row_id": row_id}
        for name, tensor in named.items():
            check_tensor(name, tensor)
            if has_storage(tensor):
                check_memory(name, tensor)
    if not _is_fused(x, weight, shift, table):
        return _plain_norm(x, weight, shift, table, row_id, silu, eps)
    if row_id is not None and table is not None:
        _check_rows(x, table, row_id)
        row_id = row_id.contiguous()
    return _FusedNorm.apply(x, weight, shift, table, row_id, silu, eps)


def _plain_norm(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    table: Tensor | None,
    row_id: Tensor | None,
    silu: bool,
    eps: float,
) -> Tensor:
    """The definition, by torch's own operators."""
    if table is not None and row_id is not None:
        x = x + table.index_select(0, row_id)
    y = F.layer_norm(x, weight.shape, weight, shift, eps)
    return F.silu(y) if silu else y


def _is_fused(x: Tensor, weight: Tensor, shift: Tensor, table: Tensor | None) -> bool:
    rows = [weight, shift] if table is None else [weight, shift, table]
    plain = all(type(t) in (Tensor, torch.nn.Parameter) for t in (x, *rows))
    if cpu is None or torch.compiler.is_compiling() or not plain:
        return False
    if weight.dim() != 1 or shift.dim() != 1 or not cpu.norm.is_supported(x, *rows):
        return False
    return not any(is_transformed(t) for t in (x, *rows))


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
                f"row_id must hold rows of the table, 0..{len(table) - 1} "
                f"(got {low}..{high})."
            )


class _FusedNorm(torch.autograd.Function):
    """The kernels and their gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        shift: Tensor,
        table: Tensor | None,
        row_id: Tensor | None,
        silu: bool,
        eps: float,
    ) -> Tensor:
        inputs = cpu.norm.NormInputs(x, weight, shift, table, row_id)
        y, stats = cpu.norm.forward(inputs.readable(), silu, eps)
        ctx.save_for_backward(stats, *inputs)
        ctx.silu, ctx.eps = silu, eps
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        stats, *saved = ctx.saved_tensors
        inputs = cpu.norm.NormInputs(*saved)
        if torch.is_grad_enabled() or not has_storage(dy):
            grads = differentiable_gradients(
                lambda x, weight, shift, table: _plain_norm(
                    x, weight, shift, table, inputs.row_id, ctx.silu, ctx.eps
                ),
                inputs[:4],
                dy,
                ctx.needs_input_grad[:4],
            )
            return *grads, None, None, None
        dy, inputs = readable_gradient(dy).contiguous(), inputs.readable()
        if inputs.table is not None and inputs.row_id is not None:
            _check_rows(inputs.x, inputs.table, inputs.row_id)  # may have changed
        dx, dweight, dshift = cpu.norm.backward(dy, inputs, ctx.silu, stats)
        dtable = None
        if inputs.table is not None and ctx.needs_input_grad[3]:
            assert inputs.row_id is not None  # they come together
            index = inputs.row_id[:, None].expand_as(dx)
            dtable = torch.zeros_like(inputs.table).scatter_add_(0, index, dx)
        return dx, dweight, dshift, dtable, None, None, None
