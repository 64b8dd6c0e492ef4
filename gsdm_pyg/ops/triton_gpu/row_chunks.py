"""Splits rows into chunks of bounded length, so that no hub keeps one program busy."""

from typing import NamedTuple

import torch
from torch import Tensor

MAX_EDGES = 1024  # of a chunk


class RowChunks(NamedTuple):
    """One entry per chunk; unused entries at the end have row -1."""

    row: Tensor  # the row that a chunk belongs to
    start: Tensor  # its first edge
    end: Tensor  # one past its last edge
    slot: Tensor  # of a split row's partial result; -1 for a whole row
    slot_row: Tensor  # [slots + 1], the row of every slot, -1 if unused

    @property
    def num_slots(self) -> int:
        return self.slot_row.numel() - 1


def split_rows(rowptr: Tensor, num_edges: int, max_edges: int = MAX_EDGES) -> RowChunks:
    """Chunks of at most `max_edges` edges. Sizes are bounds: nothing waits for the GPU.

    A row of d edges has max(1, ceil(d / max_edges)) chunks: with E edges at most
    N + E / max_edges in all, and at most 2 E / max_edges in rows that have several.
    """
    rows = rowptr.numel() - 1
    rowptr = rowptr.long()
    counts = ((rowptr.diff() + max_edges - 1) // max_edges).clamp(
        min=1
    )  # chunks of every row
    ends = counts.cumsum(0)
    slots = torch.where(counts > 1, counts, 0)
    first_slot = slots.cumsum(0) - slots

    chunk = torch.arange(rows + num_edges // max_edges, device=rowptr.device)
    row = torch.searchsorted(ends, chunk, right=True)
    used = row < rows
    row = row.clamp(max=max(rows - 1, 0))
    index = chunk - (ends - counts)[row]
    start = rowptr[row] + index * max_edges
    end = torch.minimum(start + max_edges, rowptr[row + 1])
    split = used & (counts[row] > 1)
    slot = torch.where(split, first_slot[row] + index, -1)
    row = torch.where(used, row, -1)

    num_slots = 2 * num_edges // max_edges
    slot_row = torch.full((num_slots + 1,), -1, device=rowptr.device)
    slot_row.scatter_(
        0, torch.where(split, slot, num_slots), torch.where(split, row, -1)
    )
    return RowChunks(row, start, end, slot, slot_row)
