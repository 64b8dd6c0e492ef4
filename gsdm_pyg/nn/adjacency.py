"""The edges of a graph, from any form that PyG accepts to that of `csr_attention`.

Edges j -> i are a tensor [2, E], an `EdgeIndex`, or a sparse matrix [N_dst, N_src]
(PyG's `adj_t`). A sorted `EdgeIndex` caches what is computed here. With the flow
"target_to_source" the first row of a tensor or `EdgeIndex` has the destinations.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import Adj, SparseTensor
from torch_geometric.utils import is_sparse

from gsdm_pyg.choices import Flow
from gsdm_pyg.ops.csr import (
    INDEX_DTYPES,
    Transpose,
    check_csr,
    is_real,
    transpose_csr,
)
from gsdm_pyg.ops.kernel_inputs import check_memory, check_tensor
from gsdm_pyg.private_api import has_cached_pointers


class IncomingEdges(NamedTuple):
    """Edges sorted by destination."""

    rowptr: Tensor  # [N_dst + 1], where the edges into each destination begin
    col: Tensor  # [E], the source of each edge
    perm: Tensor | None  # [E], its position in `adj`; None if the order is the same

    def reorder(self, x: Tensor) -> Tensor:
        """The rows of x [E, ...], which are in the order of `adj`, by destination."""
        return x if self.perm is None else x.index_select(0, self.perm)


def incoming_edges(
    adj: Adj, num_dst: int, flow: Flow = "source_to_target"
) -> IncomingEdges:
    """The edges by destination: from pointers if `adj` has them, else by sorting."""
    if isinstance(adj, SparseTensor):
        rowptr, col, _ = adj.csr()
        return IncomingEdges(rowptr, col, None)
    if adj.layout == torch.sparse_csr:
        return IncomingEdges(adj.crow_indices(), adj.col_indices(), None)
    by_column = flow == "source_to_target"
    if isinstance(adj, EdgeIndex) and adj.is_sorted:
        (rowptr, col), perm = adj.get_csc() if by_column else adj.get_csr()
        return IncomingEdges(rowptr, col, perm)
    source, destination = _ends(adj, flow)
    dtype, device = destination.dtype, destination.device
    destination, perm = destination.sort(stable=True)
    nodes = torch.arange(num_dst + 1, dtype=dtype, device=device)
    rowptr = torch.searchsorted(destination, nodes, out_int32=dtype == torch.int32)
    return IncomingEdges(rowptr, source.index_select(0, perm), perm)


def outgoing_edges(
    adj: Adj,
    edges: IncomingEdges,
    num_src: int,
    has_edge_terms: bool = False,
    flow: Flow = "source_to_target",
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
        by_row = flow == "source_to_target"
        (rowptr, row), perm = adj.get_csr() if by_row else adj.get_csc()
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


def prepare_adjacency(
    adj: Adj, num_src: int, num_dst: int, flow: Flow = "source_to_target"
) -> Adj:
    """Check `adj`, and convert it to a form that all backends accept.

    An `EdgeIndex` without a size gets the size of the graph. A matrix in COO layout
    becomes a tensor [2, E].
    """
    if is_sparse(adj):
        return _prepare_matrix(adj, num_src, num_dst, flow)
    check_tensor("edge_index", adj)
    if adj.dim() != 2 or adj.size(0) != 2 or adj.dtype not in INDEX_DTYPES:
        raise ValueError(
            "edge_index must be int32 or int64 of shape [2, E], sources in its first "
            f"row (got {adj.dtype} of shape {list(adj.shape)})."
        )
    sizes = (num_src, num_dst) if flow == "source_to_target" else (num_dst, num_src)
    if isinstance(adj, EdgeIndex):
        if torch.compiler.is_compiling() and not _can_compile(adj, flow):
            return adj.as_tensor()
        unknown, size = None in adj.sparse_size(), tuple(adj.get_sparse_size())
        if unknown and size[0] <= sizes[0] and size[1] <= sizes[1]:
            adj.sparse_resize_(*sizes)
        else:
            _check_size(size, sizes)
        _check_once(adj, num_src, num_dst, flow)
    else:
        _check_edges(adj, num_src, num_dst, flow)
    return adj


def _prepare_matrix(adj: Adj, num_src: int, num_dst: int, flow: Flow) -> Adj:
    """`prepare_adjacency` of a sparse matrix [N_dst, N_src]."""
    if flow != "source_to_target":
        raise ValueError(
            "A sparse edge_index has a row per destination and fits only "
            f"flow='source_to_target' (got flow={flow!r})."
        )
    _check_size((adj.size(1), adj.size(0)), (num_src, num_dst))
    if isinstance(adj, SparseTensor):
        rowptr, col, _ = adj.csr()
        check_csr(rowptr, col, num_src)
        return adj
    if adj.layout == torch.sparse_coo:
        if not adj.is_coalesced():
            raise ValueError(
                "A sparse edge_index in COO layout must be coalesced; call .coalesce(),"
                " or pass a tensor [2, E], which may repeat edges (got duplicates)."
            )
        edges = adj.indices().flip(0)
        _check_edges(edges, num_src, num_dst, flow)
        return edges
    if adj.layout != torch.sparse_csr:
        raise ValueError(
            "A sparse edge_index must be in COO or CSR layout; convert it with "
            f".to_sparse_csr() (got {adj.layout})."
        )
    check_csr(adj.crow_indices(), adj.col_indices(), num_src)
    return adj


def _ends(adj: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
    """Sources and destinations of a tensor [2, E]."""
    first, second = adj.as_tensor() if isinstance(adj, EdgeIndex) else adj
    return (first, second) if flow == "source_to_target" else (second, first)


def _can_compile(adj: EdgeIndex, flow: Flow) -> bool:
    """Whether compiled code can use the caches: it can neither fill nor transpose."""
    by_column = flow == "source_to_target"
    by_destination = adj.is_sorted_by_col if by_column else adj.is_sorted_by_row
    return by_destination and adj.is_undirected and has_cached_pointers(adj)


def _check_size(size: tuple[int, ...], rows: tuple[int, int]) -> None:
    """Reject edges whose numbers of nodes are not the numbers of rows of x."""
    if size != rows:
        raise ValueError(
            "edge_index must have as many sources and destinations as x has rows: give "
            "an EdgeIndex sparse_size=(sources, destinations), and a sparse matrix a "
            f"row per destination (got {size} for {rows[0]} and {rows[1]} rows)."
        )


def _check_once(adj: EdgeIndex, num_src: int, num_dst: int, flow: Flow) -> None:
    """`_check_edges` and the order, unless neither edges nor sizes have changed since.

    PyG computes pointers from edges without checking them and trusts `sort_order`; one
    wrong index would be written outside of the pointers.
    """
    edges = adj.as_tensor()
    if torch.compiler.is_compiling():
        return
    # Tensors of inference mode do not count their changes, so are checked each time.
    counted = not edges.is_inference()
    checked = (edges._version if counted else None, num_src, num_dst, flow)
    if counted and getattr(adj, "gsdm_checked", None) == checked:
        return
    _check_edges(edges, num_src, num_dst, flow)
    if adj.is_sorted and is_real(edges):
        row = edges[0 if adj.is_sorted_by_row else 1]
        if bool((row[1:] < row[:-1]).any()):
            order = "row" if adj.is_sorted_by_row else "col"
            raise ValueError(
                "An EdgeIndex must be sorted as it says: use "
                f"EdgeIndex.sort_by({order!r}) (got sort_order={order!r} and indices "
                "that fall)."
            )
    adj.gsdm_checked = checked


def _check_edges(edges: Tensor, num_src: int, num_dst: int, flow: Flow) -> None:
    """Reject nodes without a row in x."""
    if not is_real(edges):
        return
    check_memory("edge_index", edges)
    source, destination = _ends(edges, flow)
    for name, index, size in (
        ("sources", source, num_src),
        ("destinations", destination, num_dst),
    ):
        if not index.numel():
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
