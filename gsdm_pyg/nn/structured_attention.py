"""Structured attention (section 3.1): each node attends only to its neighbors."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing, TransformerConv
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter
from torch_geometric.typing import Adj, OptTensor, PairTensor, SparseTensor
from torch_geometric.utils import softmax

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Backend, Flow
from gsdm_pyg.nn.adjacency import edge_values, prepare_adjacency
from gsdm_pyg.nn.fused_attention import fused_attention
from gsdm_pyg.nn.packed_linear import (
    PackedLinear,
    is_plain_product,
    split_projections,
    stack_projections,
)
from gsdm_pyg.ops.attention import is_fused, reject_tracing
from gsdm_pyg.ops.attention_inputs import unpack_qkv
from gsdm_pyg.ops.kernel_inputs import check_memory, check_tensor, has_storage
from gsdm_pyg.private_api import has_message_hooks


class StructuredAttentionConv(MessagePassing):
    r"""Multi-head attention along the edges of a graph.

    .. math::
        \mathbf{x}^{\prime}_i = \mathbf{W}_s \mathbf{x}_i + \Bigl\Vert_{h=1}^{H}
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
            cannot return attention weights, be explained or exported;
            "auto" is fused wherever possible. With an `EdgeIndex` sorted by column no
            call sorts the edges.
        flow: "source_to_target": the first row of `edge_index` has the sources;
            "target_to_source": the second.
        aggr: "add"; the weights of a softmax are summed.

    The fused backend stores no message per edge. With edge features a node holds
    edge_dim more numbers per head; if that is more than a key and a value per edge, the
    latter are stored. Second derivatives, forward-mode differentiation and `torch.func`
    work with every backend, and are computed in plain torch.

    `load_state_dict` takes the weights of a `TransformerConv` too.
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
        flow: Flow = "source_to_target",
        aggr: str = "add",
        **others: Any,
    ) -> None:
        check_choice("backend", backend, Backend)
        check_choice("flow", flow, Flow)
        _check_arguments(out_channels, heads, dropout, aggr, others)
        super().__init__(aggr="add", flow=flow, node_dim=0)
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
        self.register_load_state_dict_pre_hook(stack_projections)
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
        edge_bias: OptTensor = None,
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
            edge_bias: Added to the logits, [E, H], such as a learned number per kind of
                edge; `TransformerConv` has no such term.
        """
        sources, destinations = _ends(x)
        _check_rows(sources, destinations, edge_attr)
        sizes = sources.size(0), destinations.size(0)
        adj = prepare_adjacency(edge_index, *sizes, self.flow)
        _check_device(adj, sources)
        qkv = self._project(x)
        edge_attr = self._edge_features(edge_index, edge_attr)
        weights = None
        if self._fused(qkv[0], return_attention_weights):
            projection = None if self.lin_edge is None else self.lin_edge.weight
            dropout = self.dropout if self.training else 0.0
            options = projection, dropout, self.flow, edge_bias
            out = fused_attention(qkv, adj, edge_attr, *options)  # [N, H, C]
        else:
            out, weights = self._scatter(qkv, adj, edge_attr, edge_bias)
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
        sources, destinations = _ends(x)
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
        self,
        qkv: tuple[Tensor, ...],
        adj: Adj,
        edge_attr: OptTensor,
        edge_bias: OptTensor,
    ) -> tuple[Tensor, Tensor]:
        """The definition, by PyG's message passing: the output and all weights."""
        q, k, v = unpack_qkv(qkv)
        edge = None
        if self.lin_edge is not None:
            edge = self.lin_edge(edge_attr).view(-1, self.heads, self.out_channels)
        if not torch.compiler.is_compiling():
            adj = _savable(adj)
        if adj.dtype == torch.int32:
            adj = adj.long()
        size = (k.size(0), q.size(0))
        size = size if self.flow == "source_to_target" else size[::-1]
        given = {"query": q, "key": k, "edge": edge, "bias": edge_bias}
        alpha = self.edge_updater(adj, size, **given)
        return self.propagate(adj, size, value=v, alpha=alpha, edge=edge), alpha

    def edge_update(
        self,
        query_i: Tensor,
        key_j: Tensor,
        edge: OptTensor,
        bias: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        key_j = key_j if edge is None else key_j + edge
        logits = (query_i * key_j).sum(-1) / math.sqrt(self.out_channels)
        logits = logits if bias is None else logits + bias
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
        elif torch.compiler.is_exporting():
            obstacle = "torch.export, whose graphs have plain operators only"
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
        if obstacle is None:
            reject_tracing()
        return obstacle is None

    @classmethod
    def from_transformer_conv(
        cls, conv: TransformerConv, backend: Backend = "auto"
    ) -> Self:
        """The layer that computes the same as a `TransformerConv`, with its weights."""
        q, k = conv.lin_query, conv.lin_key
        packed = isinstance(conv.in_channels, int) and k.in_channels == q.in_channels
        layer = cls(
            k.in_channels if packed else (k.in_channels, q.in_channels),
            conv.out_channels,
            conv.heads,
            conv.concat,
            conv.beta,
            conv.dropout,
            conv.edge_dim,
            k.bias is not None,
            conv.root_weight,
            backend,
            flow=conv.flow,
            aggr=conv.aggr,
        )
        _load(layer, conv.state_dict(), like=k.weight)
        return layer.train(conv.training)

    def to_transformer_conv(self) -> TransformerConv:
        """PyG's layer that computes the same, with the weights of this one."""
        if isinstance(self.in_channels, int):
            key = query = self.lin_qkv
            in_channels: int | tuple[int, int] = key.in_channels
        else:
            key, query = self.lin_kv, self.lin_q
            in_channels = key.in_channels, query.in_channels
        conv = TransformerConv(
            in_channels,
            self.out_channels,
            self.heads,
            self.concat,
            self.beta,
            self.dropout,
            self.edge_dim,
            key.bias is not None,
            self.root_weight,
            flow=self.flow,
        )
        unused = conv.state_dict()  # its skip projection, if this layer has none
        weights = unused | split_projections(self.state_dict())
        _load(conv, weights, like=key.weight)
        return conv.train(self.training)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"heads={self.heads}, backend={self.backend!r})"
        )


def _ends(x: Tensor | PairTensor) -> tuple[Tensor, Tensor]:
    """The rows of sources and of destinations."""
    if isinstance(x, Tensor):
        return x, x
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise TypeError(
            "x must be a tensor, or a pair of them for sources and destinations "
            f"(got {type(x).__name__})."
        )
    return x[0], x[1]


def _check_rows(sources: Tensor, destinations: Tensor, edge_attr: OptTensor) -> None:
    """Reject what is not a tensor, or has no memory."""
    named = [("x", sources), ("x", destinations)]
    if edge_attr is not None:
        named.append(("edge_attr", edge_attr))
    for name, tensor in named:
        check_tensor(name, tensor)
        if not torch.compiler.is_compiling() and has_storage(tensor):
            check_memory(name, tensor)


def _check_device(adj: Adj, x: Tensor) -> None:
    """Edges on another device: PyG's message passing computes with some of them."""
    if isinstance(adj, Tensor) and adj.device != x.device:
        raise ValueError(
            f"edge_index must be on the device of x, {x.device}; move it with .to() "
            f"(got {adj.device})."
        )


def _savable(adj: Adj) -> Adj:
    """Autograd saves no tensor of inference mode: a copy of one, or the edges as is."""
    if isinstance(adj, Tensor) and adj.is_inference():
        return (adj.as_tensor() if isinstance(adj, EdgeIndex) else adj).clone()
    return adj


def _load(layer: torch.nn.Module, weights: dict[str, Tensor], like: Tensor) -> None:
    """Give the layer these weights, in the dtype and on the device of `like`."""
    layer.to(like.device, like.dtype).load_state_dict(weights)
    layer.to(like.device, like.dtype)  # loading lazy weights resets both


def _check_arguments(
    out_channels: int, heads: int, dropout: float, aggr: Any, others: dict[str, Any]
) -> None:
    """Reject what the layer cannot mean, with the reason."""
    if out_channels < 1 or heads < 1:
        raise ValueError(
            "out_channels and heads must be at least 1 "
            f"(got {out_channels} and {heads})."
        )
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be a probability (got {dropout}).")
    if aggr not in ("add", "sum"):
        raise ValueError(
            "The weights of a softmax are summed: aggr must be 'add', as another "
            f"aggregation would need a message per edge (got aggr={aggr!r})."
        )
    reasons = {
        "node_dim": "nodes are the rows of x",
        "decomposed_layers": "there are no messages to decompose",
        "aggr_kwargs": "a sum has no arguments",
    }
    for name, value in others.items():
        if name not in reasons:
            raise TypeError(
                f"StructuredAttentionConv has no argument {name!r} (got {value!r})."
            )
        raise ValueError(
            f"{name} has no meaning here: {reasons[name]} (got {value!r})."
        )
