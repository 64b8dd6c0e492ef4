"""The fused path of `StructuredAttentionConv`: edges in any form -> `csr_attention`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.typing import Adj

from gsdm_pyg.choices import Flow
from gsdm_pyg.nn.adjacency import IncomingEdges, incoming_edges, outgoing_edges
from gsdm_pyg.ops import csr_attention, csr_self_attention
from gsdm_pyg.ops.attention_inputs import unpack_qkv
from gsdm_pyg.ops.csr import Transpose, row_of_edge


def fused_attention(
    qkv: Sequence[Tensor],
    adj: Adj,
    edge_attr: Tensor | None = None,
    projection: Tensor | None = None,
    dropout: float = 0.0,
    flow: Flow = "source_to_target",
    bias: Tensor | None = None,
) -> Tensor:
    """Attention of every destination over its incoming edges, [N_dst, H, C].

    An edge adds W e to its key and value.

    Args:
        qkv: One packed [N, 3, H, C], or queries of destinations, keys and values of
            sources, each [N, H, C].
        adj: The edges.
        edge_attr: e, edge features [E, F].
        projection: W, [H * C, F].
        dropout: Probability of dropping the weight of an edge in a head.
        flow: Which row of `adj` has the sources.
        bias: Added to the logits, [E, H].
    """
    num_src, num_dst = qkv[-1].size(0), qkv[0].size(0)
    heads, channels = qkv[-1].shape[-2:]
    if edge_attr is not None and edge_attr.size(1) == 0:
        edge_attr = None
    edges, factor = incoming_edges(adj, num_dst, flow), None
    num_edges = edges.col.numel()
    if edge_attr is not None and edge_attr.size(0) != num_edges:
        raise ValueError(
            f"edge_attr must have a row per edge, {num_edges} "
            f"(got {list(edge_attr.shape)})."
        )
    if bias is not None:
        if bias.shape != (num_edges, heads):
            raise ValueError(
                f"edge_bias must be [E, H] = [{num_edges}, {heads}] "
                f"(got {list(bias.shape)})."
            )
        bias = edges.reorder(bias)
    if dropout > 0:
        factor = F.dropout(qkv[0].new_ones(num_edges, heads), dropout)
        factor = edges.reorder(factor)
    if edge_attr is None or projection is None:
        has_terms = dropout > 0 or bias is not None
        transpose = outgoing_edges(adj, edges, num_src, has_terms, flow)
        graph = edges.rowptr, edges.col, transpose
        if len(qkv) == 1:
            return csr_self_attention(qkv[0], *graph, bias=bias, factor=factor)
        q, k, v = qkv
        return csr_attention(q, k, v, *graph, bias=bias, factor=factor)
    edge, weight = edges.reorder(edge_attr), projection.view(heads, channels, -1)
    if num_dst * edge.size(1) > num_edges * channels:  # few edges, many features
        return _attend_with_projected_edges(
            unpack_qkv(qkv), edges, edge, weight, factor, bias
        )
    transpose = outgoing_edges(adj, edges, num_src, True, flow)
    graph = edges.rowptr, edges.col, transpose
    return _attend_with_features(unpack_qkv(qkv), graph, edge, weight, factor, bias)


def _attend_with_features(
    qkv: Sequence[Tensor],
    graph: tuple[Tensor, Tensor, Transpose | None],
    edge: Tensor,
    weight: Tensor,
    factor: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """Attention with edge features e [E, F] and W [H, C, F], without storing W e.

    As q . (k + W e) = [q, W' q] . [k, e] and sum p (v + W e) = sum p v + W sum p e,
    W is applied to destinations only: they hold F more numbers per head.
    """
    q, k, v = qkv
    q = torch.cat([q, torch.einsum("nhc,hcf->nhf", q, weight)], -1)
    out = csr_attention(q, k, v, *graph, bias=bias, factor=factor, edge=edge)
    # out is [N, H, C + F]
    out, features = out.split([v.size(-1), edge.size(-1)], -1)
    return out + torch.einsum("nhf,hcf->nhc", features, weight)


def _attend_with_projected_edges(
    qkv: Sequence[Tensor],
    edges: IncomingEdges,
    edge: Tensor,
    weight: Tensor,
    factor: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """The same, with a key and a value per edge, [E, H, C]."""
    q, k, v = qkv
    projected = F.linear(edge, weight.flatten(0, 1)).view(-1, *weight.shape[:2])
    k = k.index_select(0, edges.col) + projected
    v = v.index_select(0, edges.col) + projected
    edge_ptr = torch.arange(len(k) + 1, dtype=edges.col.dtype, device=k.device)
    row = row_of_edge(edges.rowptr, len(k)).to(edge_ptr.dtype)
    col = edge_ptr[:-1]  # each edge is its own source
    transpose = edge_ptr, row, col
    graph = edges.rowptr, col, transpose
    return csr_attention(q, k, v, *graph, bias=bias, factor=factor)
