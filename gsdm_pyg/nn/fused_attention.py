"""The fused path of `StructuredAttentionConv`: edges in any form -> `csr_attention`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.typing import Adj

from gsdm_pyg.nn.adjacency import incoming, outgoing
from gsdm_pyg.ops import csr_attention, csr_self_attention


def fused_attention(
    qkv: tuple[Tensor, ...],
    adj: Adj,
    edge_attr: Tensor | None = None,
    projection: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention of every destination over its incoming edges, [N_dst, H, C].

    An edge adds W e to its key and value. As q . (k + W e) = [q, W' q] . [k, e], and
    sum p (v + W e) = sum p v + W sum p e, no W e is ever computed, let alone stored.

    Args:
        qkv: One packed [N, 3, H, C], or queries of destinations, keys and values of
            sources, each [N, H, C].
        adj: The edges.
        edge_attr: e, the features of edges, [E, F].
        projection: W, [H * C, F].
        dropout: Probability of dropping the weight of an edge in a head.
    """
    num_src, num_dst = qkv[-1].size(0), qkv[0].size(0)
    heads, channels = qkv[-1].shape[-2:]
    if edge_attr is not None and edge_attr.size(1) == 0:
        edge_attr = None
    edges, factor = incoming(adj, num_src, num_dst), None
    if dropout > 0:
        factor = F.dropout(qkv[0].new_ones(edges.col.numel(), heads), dropout)
        factor = edges.listed(factor)
    told_apart = edge_attr is not None or factor is not None
    graph = edges.rowptr, edges.col, outgoing(adj, edges, num_src, told_apart)
    if len(qkv) == 1 and edge_attr is None:
        return csr_self_attention(qkv[0], *graph, factor=factor)
    q, k, v = unpacked(qkv)
    if edge_attr is None or projection is None:
        return csr_attention(q, k, v, *graph, factor=factor)
    if edge_attr.size(0) != edges.col.numel():
        raise ValueError(
            f"edge_attr must have a row per edge, {edges.col.numel()} "
            f"(got {list(edge_attr.shape)})."
        )
    weight = projection.view(heads, channels, -1)
    q = torch.cat([q, torch.einsum("nhc,hcf->nhf", q, weight)], -1)
    edge = edges.listed(edge_attr)
    out = csr_attention(q, k, v, *graph, factor=factor, edge=edge)  # [N, H, C + F]
    projected = torch.einsum("nhf,hcf->nhc", out[..., channels:], weight)
    return out[..., :channels] + projected


def unpacked(qkv: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """q, k and v, each [N, H, C], from three tensors or one packed [N, 3, H, C]."""
    return qkv if len(qkv) == 3 else qkv[0].unbind(1)
