"""Compressed sparse rows (CSR): the edges of a graph, listed by destination."""

import torch
from torch import Tensor

from gsdm_pyg.ops.kernel_inputs import check_memory, check_tensor, has_storage

INDEX_DTYPES = (torch.int32, torch.int64)
Transpose = tuple[Tensor, Tensor, Tensor]  # see `transpose_csr`


def row_of_edge(rowptr: Tensor, num_edges: int) -> Tensor:
    """The row of every edge, [E]."""
    rows = torch.arange(rowptr.numel() - 1, device=rowptr.device)
    return rows.repeat_interleave(rowptr.diff().long(), output_size=num_edges)


def check_csr(rowptr: Tensor, col: Tensor, num_src: int) -> None:
    """Reject wrong pointers and indices; on a GPU that would need a synchronization."""
    check_tensor("rowptr", rowptr)
    check_tensor("col", col)
    known = rowptr.dtype in INDEX_DTYPES and col.dtype in INDEX_DTYPES
    if not known or rowptr.device != col.device:
        raise TypeError(
            "rowptr and col must be int32 or int64, on one device "
            f"(got {rowptr.dtype} on {rowptr.device}, {col.dtype} on {col.device})"
        )
    if rowptr.dim() != 1 or col.dim() != 1 or not rowptr.numel():
        raise ValueError(
            "rowptr must be [N_dst + 1] and col [E] "
            f"(got {list(rowptr.shape)} and {list(col.shape)})"
        )
    if not (is_real(rowptr) and is_real(col)):
        return
    check_memory("rowptr", rowptr)
    check_memory("col", col)
    falls = bool((rowptr[1:] < rowptr[:-1]).any())
    first, last, edges = int(rowptr[0]), int(rowptr[-1]), col.numel()
    low, high = (int(end) for end in col.aminmax()) if edges else (0, -1)
    wrong = first != 0 or last != edges or falls
    if wrong or low < 0 or high >= num_src:
        raise IndexError(
            "rowptr must rise from 0 to the number of edges, and indices of nodes must "
            f"be in [0, {num_src}) (got rowptr from {first} to {last} for {edges} "
            f"edges, and indices from {low} to {high})"
        )


def is_real(index: Tensor) -> bool:
    """Whether the numbers of an index are here to be checked.

    On a GPU a check would wait for it, and a graph of operators would contain it.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    return type(index) is Tensor and index.is_cpu and has_storage(index)


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
    check_csr(rowptr, col, num_src)
    perm = col.argsort(stable=True)
    row = row_of_edge(rowptr, col.numel()).index_select(0, perm)
    counts = torch.zeros(num_src + 1, dtype=torch.long, device=col.device)
    counts.index_add_(0, col.long() + 1, torch.ones_like(col, dtype=torch.long))
    return counts.cumsum(0).to(col.dtype), row.to(col.dtype), perm.to(col.dtype)
