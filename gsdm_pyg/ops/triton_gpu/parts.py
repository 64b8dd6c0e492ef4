"""Cutting rows into parts of bounded length, so that no hub keeps one program busy."""

from typing import NamedTuple

import torch
from torch import Tensor

LIMIT = 1024  # edges of a part


class Parts(NamedTuple):
    """One entry per part; there are more than needed, and the rest has row -1."""

    row: Tensor  # the row that a part belongs to
    start: Tensor  # its first edge
    end: Tensor  # one past its last edge
    slot: Tensor  # where the part of a cut row leaves its result; -1 for a whole row
    owner: Tensor  # [slots + 1], the row of every slot, -1 if unused

    @property
    def num_slots(self) -> int:
        return self.owner.numel() - 1


def cut_rows(rowptr: Tensor, num_edges: int, limit: int = LIMIT) -> Parts:
    """Parts of at most `limit` edges. Sizes are bounds: nothing waits for the GPU.

    A row of d edges has max(1, ceil(d / limit)) parts: with E edges at most
    N + E / limit in all, and at most 2 E / limit in rows that have several.
    """
    rows = rowptr.numel() - 1
    rowptr = rowptr.long()
    counts = ((rowptr.diff() + limit - 1) // limit).clamp(min=1)  # parts of every row
    ends = counts.cumsum(0)
    slots = torch.where(counts > 1, counts, 0)
    first_slot = slots.cumsum(0) - slots

    part = torch.arange(rows + num_edges // limit, device=rowptr.device)
    row = torch.searchsorted(ends, part, right=True)
    used = row < rows
    row = row.clamp(max=max(rows - 1, 0))
    index = part - (ends - counts)[row]
    start = rowptr[row] + index * limit
    end = torch.minimum(start + limit, rowptr[row + 1])
    cut = used & (counts[row] > 1)
    slot = torch.where(cut, first_slot[row] + index, -1)
    row = torch.where(used, row, -1)

    num_slots = 2 * num_edges // limit
    owner = torch.full((num_slots + 1,), -1, device=rowptr.device)
    owner.scatter_(0, torch.where(cut, slot, num_slots), torch.where(cut, row, -1))
    return Parts(row, start, end, slot, owner)
