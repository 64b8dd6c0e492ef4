"""The fused path of `StructuredAttentionConv`: edges in any form -> `csr_attention`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.typing import Adj

from gsdm_pyg.nn.adjacency import incoming, outgoing
from gsdm_pyg.ops import csr_attention, csr_self_attention


def fused_attention(
    qkv: tuple[Tensor, ...], adj: Adj, edge: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Attention of every destination over its incoming edges, [N_dst, H, C].

    Edge features and dropout tell edges of one source apart. Each edge then gets a key
    and a value of its own, [E, H, C]; else nothing of that size is stored.

    Args:
        qkv: One packed [N, 3, H, C], or queries of destinations, keys and values of
            sources, each [N, H, C].
        adj: The edges.
        edge: What each edge adds to its key and value, [E, H, C].
        dropout: Probability of dropping the weight of an edge in a head.
    """
    num_src, num_dst = qkv[-1].size(0), qkv[0].size(0)
    edges = incoming(adj, num_src, num_dst)
    if edge is None and dropout == 0:
        graph = edges.rowptr, edges.col, outgoing(adj, edges, num_src)
        if len(qkv) == 1:
            return csr_self_attention(qkv[0], *graph)
        q, k, v = qkv
        return csr_attention(q, k, v, *graph)
    q, k, v = unpacked(qkv)
    k, v = k.index_select(0, edges.col), v.index_select(0, edges.col)  # [E, H, C]
    if edge is not None:
        edge = edges.listed(edge)
        k, v = k + edge, v + edge
    if dropout > 0:  # of the weights, by way of the values that they multiply
        kept = F.dropout(v.new_ones(v.shape[:2]), dropout)  # [E, H]
        v = v * edges.listed(kept).unsqueeze(-1)
    each = torch.arange(len(k) + 1, dtype=edges.col.dtype, device=k.device)
    transpose = each, edges.row(), each[:-1]
    return csr_attention(q, k, v, edges.rowptr, each[:-1], transpose)


def unpacked(qkv: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """q, k and v, each [N, H, C], from three tensors or one packed [N, 3, H, C]."""
    return qkv if len(qkv) == 3 else qkv[0].unbind(1)
