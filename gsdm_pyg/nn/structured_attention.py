"""Structured attention (section 3.1): each node attends only to its neighbors."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import MessagePassing, TransformerConv
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter
from torch_geometric.typing import Adj, OptTensor, PairTensor, SparseTensor
from torch_geometric.utils import softmax

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Backend
from gsdm_pyg.nn.adjacency import edge_values, prepare_adjacency
from gsdm_pyg.nn.fused_attention import fused_attention
from gsdm_pyg.nn.packed_linear import PackedLinear, copy_stacked, is_plain_product
from gsdm_pyg.ops.attention import is_fused
from gsdm_pyg.ops.attention_inputs import unpack_qkv
from gsdm_pyg.private_api import has_message_hooks


class StructuredAttentionConv(MessagePassing):
    r"""Multi-head attention along the edges of a graph.

    .. math::
        \mathbf{x}^{\prime}_i = \mathbf{W}_s \mathbf{x}_i + \Big\Vert_{h=1}^{H}
        \sum_{j \in \mathcal{N}(i)} \operatorname{softmax}_j \left(
        \frac{\mathbf{q}_{i,h}^{\top} (\mathbf{k}_{j,h} + \mathbf{e}_{ij,h})}
        {\sqrt{C}} \right) (\mathbf{v}_{j,h} + \mathbf{e}_{ij,h})

    A drop-in replacement of PyG's `TransformerConv`: arguments mean the same and equal
    weights give equal numbers. A node attends to itself only if `edge_index` has its
    self-loop; without incoming edges it keeps only the skip term.

    Args:
        in_channels: Size of each input row; a pair for sources and destinations; -1 to
            take the size from the first input.
        out_channels: C, the channels of one head.
        heads: H, the number of heads.
        concat: Whether heads are concatenated (H * C outputs) or averaged (C).
        beta: Whether a learned gate mixes attention and the skip term.
        dropout: Probability of dropping an attention weight in training.
        edge_dim: Size of the edge features, projected to :math:`\mathbf{e}_{ij}`.
        bias: Whether the projections to q, k, v and the skip term have a bias.
        root_weight: Whether there is a skip term :math:`\mathbf{W}_s \mathbf{x}_i`.
        backend: "scatter" computes a message per edge and a scatter-softmax, as PyG's
            layers do; "fused" computes the same numbers in one pass over the rows, but
            cannot return attention weights, be explained or differentiated twice;
            "auto" is fused wherever possible. With an `EdgeIndex` sorted by column no
            call sorts the edges.

    The fused backend stores no message per edge. With edge features a node holds
    edge_dim more numbers per head; if that is more than a key and a value per edge, the
    latter are stored.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        check_choice("backend", backend, Backend)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.beta = beta and root_weight
        self.dropout = dropout
        self.edge_dim = edge_dim
        self.root_weight = root_weight
        self.backend = backend
        width = heads * out_channels
        if isinstance(in_channels, int):
            self.lin_qkv = PackedLinear(in_channels, 3 * width, bias=bias)
            in_channels = (in_channels, in_channels)
        else:
            self.lin_q = Linear(in_channels[1], width, bias=bias)
            self.lin_kv = Linear(in_channels[0], 2 * width, bias=bias)
        self.lin_edge = self.lin_skip = self.lin_beta = None
        if edge_dim is not None:
            self.lin_edge = Linear(edge_dim, width, bias=False)
        if root_weight:
            out = width if concat else out_channels
            self.lin_skip = Linear(in_channels[1], out, bias=bias)
            if beta:
                self.lin_beta = Linear(3 * out, 1, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in self.children():
            module.reset_parameters()

    def forward(
        self,
        x: Tensor | PairTensor,
        edge_index: Adj,
        edge_attr: OptTensor = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]] | tuple[Tensor, SparseTensor]:
        """Attend along the edges: x [N, in_channels] -> [N, H * C], or [N, C].

        Args:
            x: Rows of all nodes, or a pair (sources, destinations).
            edge_index: Edges [2, E] from sources to destinations, an `EdgeIndex`, or a
                sparse matrix [destinations, sources].
            edge_attr: Edge features [E, edge_dim]; by default those that the sparse
                matrix holds.
            return_attention_weights: If True or False, return a pair of the output and
                (edge_index, weights [E, H]).
        """
        sources, destinations = (x, x) if isinstance(x, Tensor) else x
        adj = prepare_adjacency(edge_index, sources.size(0), destinations.size(0))
        qkv = self._project(x)
        edge_attr = self._edge_features(edge_index, edge_attr)
        weights = None
        if self._fused(qkv[0], return_attention_weights):
            projection = None if self.lin_edge is None else self.lin_edge.weight
            dropout = self.dropout if self.training else 0.0
            out = fused_attention(qkv, adj, edge_attr, projection, dropout)  # [N, H, C]
        else:
            out, weights = self._scatter(qkv, adj, edge_attr)
        out = self._with_skip(out, destinations)
        if not isinstance(return_attention_weights, bool):
            return out
        if isinstance(edge_index, SparseTensor):
            return out, edge_index.set_value(weights, layout="coo")
        return out, (edge_index, weights)

    def _project(self, x: Tensor | PairTensor) -> tuple[Tensor, ...]:
        """One [N, 3, H, C] for one set of nodes, or q, k and v, each [N, H, C]."""
        shape, width = (self.heads, self.out_channels), self.heads * self.out_channels
        if isinstance(self.in_channels, int) and isinstance(x, Tensor):
            return (self.lin_qkv(x).view(-1, 3, *shape),)
        sources, destinations = (x, x) if isinstance(x, Tensor) else x
        if isinstance(self.in_channels, int):
            if sources.size(-1) != destinations.size(-1):
                raise ValueError(
                    "A single in_channels needs sources and destinations of one width; "
                    "pass in_channels=(sources, destinations) for two widths "
                    f"(got {sources.size(-1)} and {destinations.size(-1)})."
                )
            q = self.lin_qkv(destinations, slice(0, width))
            kv = self.lin_qkv(sources, slice(width, 3 * width))
        else:
            q, kv = self.lin_q(destinations), self.lin_kv(sources)
        return q.view(-1, *shape), *kv.view(-1, 2, *shape).unbind(1)

    def _edge_features(self, adj: Adj, edge_attr: OptTensor) -> OptTensor:
        """The edge features [E, edge_dim], if the layer has an edge_dim."""
        if self.lin_edge is None:
            if edge_attr is not None:
                raise ValueError(
                    "edge_attr needs a layer that projects it: pass edge_dim when "
                    f"building it (got {list(edge_attr.shape)} and edge_dim=None)."
                )
            return None
        edge_attr = edge_values(adj) if edge_attr is None else edge_attr
        if edge_attr is None:
            raise ValueError(
                f"A layer with edge_dim={self.edge_dim} needs edge_attr "
                f"[E, {self.edge_dim}] (got None)."
            )
        if isinstance(self.lin_edge, Linear):  # a user may replace it by any module
            size = self.lin_edge.in_channels  # -1 while it is lazy
            fits = edge_attr.dim() == 2 and (size == -1 or size == edge_attr.size(1))
            if not fits:
                raise ValueError(
                    f"edge_attr must be [E, edge_dim] = [E, {size}] "
                    f"(got {list(edge_attr.shape)})."
                )
            if is_uninitialized_parameter(self.lin_edge.weight):
                self.lin_edge(edge_attr[:0])  # initializes it
        return edge_attr

    def _scatter(
        self, qkv: tuple[Tensor, ...], adj: Adj, edge_attr: OptTensor
    ) -> tuple[Tensor, Tensor]:
        """The definition, by PyG's message passing: the output and all weights."""
        q, k, v = unpack_qkv(qkv)
        edge = None
        if self.lin_edge is not None:
            edge = self.lin_edge(edge_attr).view(-1, self.heads, self.out_channels)
        if adj.dtype == torch.int32:
            adj = adj.long()
        size = (k.size(0), q.size(0))
        alpha = self.edge_updater(adj, size, query=q, key=k, edge=edge)
        return self.propagate(adj, size, value=v, alpha=alpha, edge=edge), alpha

    def edge_update(
        self,
        query_i: Tensor,
        key_j: Tensor,
        edge: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        key_j = key_j if edge is None else key_j + edge
        logits = (query_i * key_j).sum(-1) / math.sqrt(self.out_channels)
        return softmax(logits, index, ptr, size_i)  # [E, H]

    def message(self, value_j: Tensor, alpha: Tensor, edge: OptTensor) -> Tensor:
        value_j = value_j if edge is None else value_j + edge
        alpha = F.dropout(alpha, self.dropout, self.training)
        return value_j * alpha.unsqueeze(-1)  # [E, H, C]

    def _with_skip(self, out: Tensor, x: Tensor) -> Tensor:
        """Heads joined and the skip term added: [N, H, C] -> [N, H * C] or [N, C]."""
        out = out.flatten(1) if self.concat else out.mean(1)
        if self.lin_skip is None:
            return out
        skip = self.lin_skip(x)
        if self.lin_beta is None:
            return out + skip
        beta = self.lin_beta(torch.cat([out, skip, out - skip], -1)).sigmoid()
        return beta * skip + (1 - beta) * out

    def _fused(self, q: Tensor, return_attention_weights: bool | None) -> bool:
        """Whether this call is fused; an error if backend="fused" cannot run it."""
        if self.backend == "scatter":
            return False
        obstacle = None
        if isinstance(return_attention_weights, bool):
            obstacle = f"return_attention_weights={return_attention_weights}"
        elif self.explain or has_message_hooks(self):
            obstacle = "an explainer or hook that sees messages"
        elif self.lin_edge is not None and not is_plain_product(self.lin_edge):
            obstacle = "a lin_edge with hooks or another forward"
        elif not is_fused(q, "auto"):
            obstacle = f"{q.dtype} on {q.device}, for which there is no kernel"
        if obstacle is not None and self.backend == "fused":
            raise ValueError(
                "backend='fused' computes no messages and no attention weights; use "
                f"backend='auto', which falls back to scatter (got {obstacle})."
            )
        return obstacle is None

    @classmethod
    def from_transformer_conv(
        cls, conv: TransformerConv, backend: Backend = "auto"
    ) -> Self:
        """The layer that computes the same as a `TransformerConv`, with its weights."""
        if conv.aggr not in ("add", "sum") or conv.flow != "source_to_target":
            raise ValueError(
                "Only aggr='add' with flow='source_to_target' can be converted "
                f"(got aggr={conv.aggr!r}, flow={conv.flow!r})."
            )
        q, k, v = conv.lin_query, conv.lin_key, conv.lin_value
        in_channels = k.in_channels, q.in_channels
        packed = isinstance(conv.in_channels, int) and k.in_channels == q.in_channels
        layer = cls(
            k.in_channels if packed else in_channels,
            conv.out_channels,
            conv.heads,
            conv.concat,
            conv.beta,
            conv.dropout,
            conv.edge_dim,
            k.bias is not None,
            conv.root_weight,
            backend,
        ).to(k.weight.device, k.weight.dtype)
        if packed:
            copy_stacked(layer.lin_qkv, q, k, v)
        else:
            copy_stacked(layer.lin_q, q)
            copy_stacked(layer.lin_kv, k, v)
        for name in ("lin_edge", "lin_skip", "lin_beta"):
            if getattr(layer, name) is not None:
                copy_stacked(getattr(layer, name), getattr(conv, name))
        return layer.train(conv.training)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"heads={self.heads}, backend={self.backend!r})"
        )
