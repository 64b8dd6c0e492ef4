"""The edges of a graph, from any form that PyG accepts to that of `csr_attention`.

Edges j -> i are a tensor [2, E], an `EdgeIndex`, or a sparse matrix [N_dst, N_src]
(PyG's `adj_t`). A sorted `EdgeIndex` caches what is computed here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import Adj, SparseTensor
from torch_geometric.utils import is_sparse

from gsdm_pyg.ops.csr import Transpose, transpose_csr
from gsdm_pyg.private_api import has_cached_pointers

_INDEX_DTYPES = (torch.int32, torch.int64)


class IncomingEdges(NamedTuple):
    """Edges sorted by destination."""

    rowptr: Tensor  # [N_dst + 1], where the edges into each destination begin
    col: Tensor  # [E], the source of each edge
    perm: Tensor | None  # [E], its position in `adj`; None if the order is the same

    def reorder(self, x: Tensor) -> Tensor:
        """The rows of x [E, ...], which are in the order of `adj`, by destination."""
        return x if self.perm is None else x.index_select(0, self.perm)


def incoming_edges(adj: Adj, num_src: int, num_dst: int) -> IncomingEdges:
    """The edges by destination: from pointers if `adj` has them, else by sorting."""
    if isinstance(adj, SparseTensor):
        rowptr, col, _ = adj.csr()
        return IncomingEdges(rowptr, col, None)
    if adj.layout == torch.sparse_csr:
        return IncomingEdges(adj.crow_indices(), adj.col_indices(), None)
    if isinstance(adj, EdgeIndex) and adj.is_sorted:
        (rowptr, col), perm = adj.get_csc()
        return IncomingEdges(rowptr, col, perm)
    source, destination = adj.as_tensor() if isinstance(adj, EdgeIndex) else adj
    _check_range("sources", source, num_src)
    _check_range("destinations", destination, num_dst)
    dtype, device = destination.dtype, destination.device
    destination, perm = destination.sort(stable=True)
    nodes = torch.arange(num_dst + 1, dtype=dtype, device=device)
    rowptr = torch.searchsorted(destination, nodes, out_int32=dtype == torch.int32)
    return IncomingEdges(rowptr, source.index_select(0, perm), perm)


def outgoing_edges(
    adj: Adj, edges: IncomingEdges, num_src: int, has_edge_terms: bool = False
) -> Transpose | None:
    """The same edges by source, as `transpose_csr`; None if `adj` is undirected.

    With per-edge features or dropout even an undirected graph needs its transpose.
    Under torch.compile the operator computes it.
    """
    if isinstance(adj, EdgeIndex) and adj.is_undirected:
        cacheable = adj.is_sorted and not torch.compiler.is_compiling()
        if not has_edge_terms or not cacheable:
            return None
    if isinstance(adj, EdgeIndex) and adj.is_sorted:
        (rowptr, row), perm = adj.get_csr()
        if perm is None:  # `adj` is sorted by source
            assert edges.perm is not None
            perm = _inverse(edges.perm)
        return rowptr, row, perm
    return transpose_csr(edges.rowptr, edges.col, num_src)


def edge_values(adj: Adj) -> Tensor | None:
    """The features [E, F] that a sparse matrix holds, if it holds any."""
    if not is_sparse(adj):
        return None
    values = adj.storage.value() if isinstance(adj, SparseTensor) else adj.values()
    return values if values is not None and values.dim() > 1 else None


def prepare_adjacency(adj: Adj, num_src: int, num_dst: int) -> Adj:
    """Check `adj`, and convert it to a form that all backends accept.

    An `EdgeIndex` without a size gets the size of the graph. A matrix in COO layout
    becomes a tensor [2, E].
    """
    if isinstance(adj, EdgeIndex):
        if torch.compiler.is_compiling() and not _can_compile(adj):
            return adj.as_tensor()
        unknown, size = None in adj.sparse_size(), tuple(adj.get_sparse_size())
        if unknown and size[0] <= num_src and size[1] <= num_dst:
            adj.sparse_resize_(num_src, num_dst)
        else:
            _check_size(size, (num_src, num_dst))
    elif is_sparse(adj):
        _check_size((adj.size(1), adj.size(0)), (num_src, num_dst))
        if isinstance(adj, Tensor) and adj.layout == torch.sparse_coo:
            return adj.indices().flip(0)
        if isinstance(adj, Tensor) and adj.layout != torch.sparse_csr:
            raise ValueError(
                "A sparse edge_index must be in COO or CSR layout; convert it with "
                f".to_sparse_csr() (got {adj.layout})."
            )
    elif adj.dim() != 2 or adj.size(0) != 2 or adj.dtype not in _INDEX_DTYPES:
        raise ValueError(
            "edge_index must be int32 or int64 of shape [2, E], sources in its first "
            f"row (got {adj.dtype} of shape {list(adj.shape)})."
        )
    return adj


def _can_compile(adj: EdgeIndex) -> bool:
    """Whether compiled code can use the caches: it can neither fill nor transpose."""
    return adj.is_sorted_by_col and adj.is_undirected and has_cached_pointers(adj)


def _check_size(size: tuple[int, ...], rows: tuple[int, int]) -> None:
    """Reject edges whose numbers of nodes are not the numbers of rows of x."""
    if size != rows:
        raise ValueError(
            "edge_index must have as many sources and destinations as x has rows: give "
            "an EdgeIndex sparse_size=(sources, destinations), and a sparse matrix a "
            f"row per destination (got {size} for {rows[0]} and {rows[1]} rows)."
        )


def _check_range(name: str, index: Tensor, size: int) -> None:
    """Reject nodes without a row in x; on a GPU that would need a synchronization."""
    if torch.compiler.is_compiling() or not index.is_cpu or not index.numel():
        return
    low, high = (int(end) for end in index.aminmax())
    if low < 0 or high >= size:
        raise IndexError(
            f"edge_index must hold {name} that are rows of x, from 0 to {size - 1} "
            f"(got {low} to {high})."
        )


def _inverse(perm: Tensor) -> Tensor:
    """The inverse of a permutation [E]."""
    positions = torch.arange(perm.numel(), dtype=perm.dtype, device=perm.device)
    return torch.empty_like(perm).scatter_(0, perm.long(), positions)
