"""Rules for products of matrices: terms with a constant zero are left out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.programs.rows import Rows, union
from gsdm_pyg.programs.rules.call import (
    Call,
    Rule,
    broadcast,
    everything,
    flat,
    positions,
)


def matmul(first: str, second: str, added: str | None = None) -> Rule:
    """Products over the axis that both share, [B, I, L] times [B, L, J].

    Vectors are matrices of one row (`first`) or one column (`second`).
    """

    def rule(call: Call) -> list[Rows]:
        a, b, out = call[first], call[second], call.outputs[0]
        left = a if a.dim() > 1 else a[None]
        right = b if b.dim() > 1 else b[:, None]
        left = left.reshape(-1, *left.shape[-2:]) if left.dim() < 3 else left
        right = right.reshape(-1, *right.shape[-2:]) if right.dim() < 3 else right
        rows = _product(left, call.rows(a), right, call.rows(b))
        if call.name == "addbmm":  # the sum over the batch
            numbers = np.tile(np.arange(out.numel()), len(left))
            rows = rows.group(numbers, out.numel())
        if added is None:
            return [rows]
        return [
            union([rows, broadcast(call.rows(call[added]), call[added], out.shape)])
        ]

    return rule


def _product(a: Tensor, a_rows: Rows, b: Tensor, b_rows: Rows) -> Rows:
    """Rows of a @ b, for a [B, I, L] and b [B, L, J]."""
    num, rows, inner = a.shape
    columns = b.size(2)
    a_used = torch.from_numpy(a_rows.depends()).view(a.shape) | (a != 0)
    b_used = torch.from_numpy(b_rows.depends()).view(b.shape) | (b != 0)
    out = positions((num, rows, columns))
    if bool(a_used.all()) and bool(b_used.all()):
        by_row = a_rows.group(np.arange(num * rows).repeat(inner), num * rows)
        column = positions((num, 1, columns)).expand(b.shape)
        by_column = b_rows.group(flat(column), num * columns)
        row = positions((num, rows, 1)).expand(out.shape)
        column = positions((num, 1, columns)).expand(out.shape)
        return union([by_row.take(flat(row)), by_column.take(flat(column))])
    # All products a[n, i, l] b[n, l, j] of which neither factor is a constant zero.
    n, i, level = a_used.nonzero().unbind(1)
    key = n * inner + level
    m, other, j = b_used.nonzero().unbind(1)  # sorted by (m, other)
    counts = torch.bincount(m * inner + other, minlength=num * inner)
    first = counts.cumsum(0) - counts
    repeats = counts[key]
    offset = torch.arange(int(repeats.sum())) - (
        repeats.cumsum(0) - repeats
    ).repeat_interleave(repeats)
    which = first[key].repeat_interleave(repeats) + offset
    a_at = ((n * rows + i) * inner + level).repeat_interleave(repeats)
    b_at = ((m * inner + other) * columns + j)[which]
    target = flat((n * rows + i).repeat_interleave(repeats) * columns + j[which])
    return union(
        [
            a_rows.take(flat(a_at)).group(target, out.numel()),
            b_rows.take(flat(b_at)).group(target, out.numel()),
        ]
    )


def pairs(first: str, second: str) -> Rule:
    """Each row of one matrix with each row of another, such as their distances."""

    def rule(call: Call) -> list[Rows]:
        a, b, out = call[first], call[second], call.outputs[0]
        if a.shape[:-2] != b.shape[:-2]:
            return everything(call)
        shape = (a.shape[:-2].numel(), *out.shape[-2:])  # [B, I, J]
        lead, i, j = shape
        by_a = call.rows(a).group(np.arange(lead * i).repeat(a.size(-1)), lead * i)
        by_b = call.rows(b).group(np.arange(lead * j).repeat(b.size(-1)), lead * j)
        a_at = positions((lead, i, 1)).expand(shape)
        b_at = positions((lead, 1, j)).expand(shape)
        return [union([by_a.take(flat(a_at)), by_b.take(flat(b_at))])]

    return rule


def outer(call: Call) -> list[Rows]:
    """`addr`: a matrix plus the outer product of two vectors."""
    a, b, out = call["vec1"], call["vec2"], call.outputs[0]
    parts = [(call["self"], call["self"]), (a, a[:, None]), (b, b)]
    return [union([broadcast(call.rows(x), y, out.shape) for x, y in parts])]
