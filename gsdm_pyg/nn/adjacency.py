"""The edges of a graph, in any form that PyG knows, as `csr_attention` reads them.

Edges j -> i come as a tensor [2, E], an `EdgeIndex`, or a sparse matrix [N_dst, N_src]
(PyG's `adj_t`). A sorted `EdgeIndex` keeps what is computed here in its caches.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import Adj, SparseTensor
from torch_geometric.utils import is_sparse

from gsdm_pyg.ops.csr import Transpose, transpose_csr


class Incoming(NamedTuple):
    """Edges listed by destination."""

    rowptr: Tensor  # [N_dst + 1], where the edges into each destination begin
    col: Tensor  # [E], the source of each edge
    perm: Tensor | None  # [E], its place among the given edges; None where unmoved

    def listed(self, x: Tensor) -> Tensor:
        """Rows of x [E, ...], which follow the given edges, in the order listed."""
        return x if self.perm is None else x.index_select(0, self.perm)


def incoming(adj: Adj, num_src: int, num_dst: int) -> Incoming:
    """The edges by destination: from pointers where `adj` has them, else by sorting."""
    if isinstance(adj, SparseTensor):
        rowptr, col, _ = adj.csr()
        return Incoming(rowptr, col, None)
    if adj.layout == torch.sparse_csr:
        return Incoming(adj.crow_indices(), adj.col_indices(), None)
    if isinstance(adj, EdgeIndex) and adj.is_sorted:
        (rowptr, col), perm = adj.get_csc()
        return Incoming(rowptr, col, perm)
    source, destination = adj.as_tensor() if isinstance(adj, EdgeIndex) else adj
    check_range("sources", source, num_src)
    check_range("destinations", destination, num_dst)
    dtype, device = destination.dtype, destination.device
    destination, perm = destination.sort(stable=True)
    nodes = torch.arange(num_dst + 1, dtype=dtype, device=device)
    rowptr = torch.searchsorted(destination, nodes, out_int32=dtype == torch.int32)
    return Incoming(rowptr, source.index_select(0, perm), perm)


def outgoing(
    adj: Adj, edges: Incoming, num_src: int, told_apart: bool = False
) -> Transpose | None:
    """The same edges by source, as `transpose_csr`; None where `adj` is undirected.

    Where edges are told apart, by features or dropout, also an undirected one is
    transposed, but for compiled code, which leaves that to the operator.
    """
    if isinstance(adj, EdgeIndex) and adj.is_undirected:
        keeps = adj.is_sorted and not torch.compiler.is_compiling()
        if not told_apart or not keeps:
            return None
    if isinstance(adj, EdgeIndex) and adj.is_sorted:
        (rowptr, row), perm = adj.get_csr()
        if perm is None:  # given by source, listed by destination
            assert edges.perm is not None
            perm = inverse(edges.perm)
        return rowptr, row, perm
    return transpose_csr(edges.rowptr, edges.col, num_src)


def edge_values(adj: Adj) -> Tensor | None:
    """The features [E, F] that a sparse matrix holds, if it holds any."""
    if not is_sparse(adj):
        return None
    values = adj.storage.value() if isinstance(adj, SparseTensor) else adj.values()
    return values if values is not None and values.dim() > 1 else None


def prepared(adj: Adj, num_src: int, num_dst: int) -> Adj:
    """`adj` in a form that all paths take; refused if it is of other numbers of nodes.

    An `EdgeIndex` that does not know these numbers learns them. A matrix in COO layout
    becomes a tensor [2, E].
    """
    if isinstance(adj, EdgeIndex):
        if torch.compiler.is_compiling() and not compiles(adj):
            return adj.as_tensor()
        unknown, size = None in adj.sparse_size(), tuple(adj.get_sparse_size())
        if unknown and size[0] <= num_src and size[1] <= num_dst:
            adj.sparse_resize_(num_src, num_dst)
        else:
            check_size(size, (num_src, num_dst))
    elif is_sparse(adj):
        check_size((adj.size(1), adj.size(0)), (num_src, num_dst))
        if isinstance(adj, Tensor) and adj.layout == torch.sparse_coo:
            return adj.indices().flip(0)
        if isinstance(adj, Tensor) and adj.layout != torch.sparse_csr:
            raise ValueError(
                "A sparse edge_index must be in COO or CSR layout; convert it with "
                f".to_sparse_csr() (got {adj.layout})."
            )
    return adj


def compiles(adj: EdgeIndex) -> bool:
    """Whether compiled code can read the caches: it can neither fill nor transpose."""
    return adj.is_sorted_by_col and adj.is_undirected and adj._indptr is not None


def check_size(size: tuple[int, ...], rows: tuple[int, int]) -> None:
    """Refuse edges between other numbers of nodes than x has rows."""
    if size != rows:
        raise ValueError(
            "edge_index must have as many sources and destinations as x has rows: give "
            "an EdgeIndex sparse_size=(sources, destinations), and a sparse matrix a "
            f"row per destination (got {size} for {rows[0]} and {rows[1]} rows)."
        )


def check_range(name: str, index: Tensor, size: int) -> None:
    """Refuse nodes that x has no row for, where looking costs no synchronisation."""
    if torch.compiler.is_compiling() or not index.is_cpu or not index.numel():
        return
    low, high = (int(end) for end in index.aminmax())
    if low < 0 or high >= size:
        raise IndexError(
            f"edge_index must number {name} by the rows of x, from 0 to {size - 1} "
            f"(got {low} to {high})."
        )


def inverse(perm: Tensor) -> Tensor:
    """The permutation [E] that undoes another."""
    places = torch.arange(perm.numel(), dtype=perm.dtype, device=perm.device)
    return torch.empty_like(perm).scatter_(0, perm.long(), places)
