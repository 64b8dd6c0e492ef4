"""The block that the denoiser repeats: ResNet block, then structured attention.

Normalization is per node: only attention mixes nodes. No linear layer has a bias: the
norms and the conditioning before or after it have one, and a bias costs a pass over
the nodes forward and another backward.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gsdm_pyg.choices import Backend
from gsdm_pyg.nn.structured_attention import StructuredAttentionConv
from gsdm_pyg.ops import node_norm


class NodeNorm(nn.LayerNorm):
    """LayerNorm of each node's row, optionally followed by SiLU.

    Args:
        width: D, the length of a row.
        silu: Whether to apply SiLU.
    """

    def __init__(self, width: int, silu: bool = False) -> None:
        super().__init__(width)
        self.silu = silu

    def forward(
        self, x: Tensor, table: Tensor | None = None, row_id: Tensor | None = None
    ) -> Tensor:
        """Normalize x [N, D], or x + table[row_id]."""
        return node_norm(
            x, self.weight, self.bias, table, row_id, silu=self.silu, eps=self.eps
        )


class AddLinear(nn.Linear):
    """h + x W^T in one pass: the end of a residual branch, where W is zero at first."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, bias=False)
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:  # type: ignore[override]
        if torch.is_autocast_enabled(h.device.type):  # keeps h in its own precision
            return h + F.linear(x, self.weight)
        return torch.addmm(h, x, self.weight.t())


class ResidualBlock(nn.Module):
    """h + Linear(SiLU(Norm(Linear(SiLU(Norm(h))) + condition))), per node.

    The condition is a row of a table, one row per embedding row of each graph.
    """

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1 = NodeNorm(width, silu=True)
        self.linear1 = nn.Linear(width, width, bias=False)
        self.time = nn.Linear(width, width)
        self.node = nn.Linear(width, width, bias=False)
        self.norm2 = NodeNorm(width, silu=True)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = AddLinear(width)

    def forward(
        self,
        h: Tensor,
        time: Tensor,
        node: Tensor,
        row_graph: Tensor,
        row_id: Tensor,
    ) -> Tensor:
        """Transform h [N, D].

        Args:
            h: Hidden states [N, D].
            time: Time embeddings of the graphs, activated, [B, D].
            node: Embedding rows, activated, [R, D].
            row_graph: The graph of each row, [R].
            row_id: The row of each node, [N].
        """
        table = self.time(time).index_select(0, row_graph) + self.node(node)  # [R, D]
        update = self.linear1(self.norm1(h))
        update = self.norm2(update, table, row_id)
        return self.linear2(self.dropout(update), h)


class AttentionBlock(nn.Module):
    """h + Linear(StructuredAttention(Norm(h)))."""

    def __init__(self, width: int, heads: int, backend: Backend = "auto") -> None:
        super().__init__()
        self.norm = NodeNorm(width)
        self.attention = StructuredAttentionConv(
            width,
            width // heads,
            heads,
            bias=False,
            root_weight=False,
            backend=backend,
        )
        self.linear = AddLinear(width)

    def forward(
        self, h: Tensor, edge_index: Tensor, edge_bias: Tensor | None = None
    ) -> Tensor:
        update = self.attention(self.norm(h), edge_index, edge_bias=edge_bias)
        return self.linear(update, h)
