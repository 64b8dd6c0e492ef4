"""Structured attention (section 3.1): each node attends to its neighbours only."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import OptTensor
from torch_geometric.utils import softmax

from gsdm_pyg.checks import check_choice
from gsdm_pyg.ops import csr_self_attention

Backend = Literal["auto", "fused", "scatter"]


class StructuredAttentionConv(MessagePassing):
    r"""Multi-head attention along the edges of a graph.

    .. math::
        \mathbf{x}^{\prime}_i = \Big\Vert_{h=1}^{H} \sum_{j \in \mathcal{N}(i)}
        \operatorname{softmax}_j \left( \frac{\mathbf{q}_{i,h}^{\top}
        \mathbf{k}_{j,h}}{\sqrt{C}} \right) \mathbf{v}_{j,h}

    A node attends to itself only if `edge_index` has its self-loop; a node without
    incoming edges gets zeros.

    Args:
        in_channels: Size of each input row.
        out_channels: C, the channels of one head; the output has H * C.
        heads: H, the number of heads.
        bias: Whether the projections to q, k and v have a bias.
        backend: "scatter" computes one message per edge and a scatter-softmax, as PyG
            layers do; "fused" computes the same numbers in one pass over the rows and
            needs an `EdgeIndex` that is undirected and sorted by column; "auto" is
            fused where `edge_index` allows it.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        bias: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        check_choice("backend", backend, Backend)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.backend = backend
        self.lin_qkv = Linear(in_channels, 3 * heads * out_channels, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.lin_qkv.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Attend along `edge_index` [2, E]: x [N, in_channels] -> [N, H * C]."""
        qkv = self.lin_qkv(x).view(-1, 3, self.heads, self.out_channels)  # [N, 3, H, C]
        if self._fused(edge_index):
            assert isinstance(edge_index, EdgeIndex)
            if edge_index.get_sparse_size() != (x.size(0), x.size(0)):
                raise ValueError(
                    "edge_index must know the number of nodes: pass EdgeIndex(..., "
                    f"sparse_size=(N, N)) with as many as x has rows (got {x.size(0)} "
                    f"rows and {tuple(edge_index.get_sparse_size())})."
                )
            (rowptr, col), _ = edge_index.get_csc()
            out = csr_self_attention(qkv, rowptr, col)  # [N, H, C]
        else:
            query, key, value = qkv.unbind(1)
            out = self.propagate(edge_index, query=query, key=key, value=value)
        return out.reshape(-1, self.heads * self.out_channels)

    def message(
        self,
        query_i: Tensor,
        key_j: Tensor,
        value_j: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        logits = (query_i * key_j).sum(-1) / math.sqrt(self.out_channels)  # [E, H]
        weight = softmax(logits, index, ptr, size_i)
        return value_j * weight.unsqueeze(-1)  # [E, H, C]

    def _fused(self, edge_index: Tensor) -> bool:
        ready = (
            isinstance(edge_index, EdgeIndex)
            and edge_index.is_sorted_by_col
            and edge_index.is_undirected
        )
        if self.backend == "fused" and not ready:
            raise ValueError(
                "backend='fused' needs EdgeIndex(..., sort_order='col', "
                "is_undirected=True); use backend='auto' for other edges "
                f"(got {type(edge_index).__name__})."
            )
        return ready and self.backend != "scatter"

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"heads={self.heads}, backend={self.backend!r})"
        )
