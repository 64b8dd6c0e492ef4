"""Compressed sparse rows (CSR): the edges of a graph, listed by destination."""

import torch
from torch import Tensor

Transpose = tuple[Tensor, Tensor, Tensor]  # see `transpose_csr`


def row_of_edge(rowptr: Tensor, num_edges: int) -> Tensor:
    """The row of every edge, [E]."""
    rows = torch.arange(rowptr.numel() - 1, device=rowptr.device)
    return rows.repeat_interleave(rowptr.diff().long(), output_size=num_edges)


def transpose_csr(rowptr: Tensor, col: Tensor, num_src: int) -> Transpose:
    """The same edges, listed by source instead of destination.

    Args:
        rowptr: [N_dst + 1], where the incoming edges of every destination begin.
        col: [E], the source of every edge.
        num_src: N_src, the number of sources.

    Returns:
        rowptr [N_src + 1] and destinations [E] of the transposed graph, and the
        position [E] of each of its edges in the given graph.
    """
    perm = col.argsort(stable=True)
    row = row_of_edge(rowptr, col.numel()).index_select(0, perm)
    counts = torch.zeros(num_src + 1, dtype=torch.long, device=col.device)
    counts.index_add_(0, col.long() + 1, torch.ones_like(col, dtype=torch.long))
    return counts.cumsum(0).to(col.dtype), row.to(col.dtype), perm.to(col.dtype)
