"""The block that the denoiser repeats: ResNet block, then structured attention.

Normalisation is per node: only attention mixes nodes.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from gsdm_pyg.nn.structured_attention import Backend, StructuredAttentionConv


class ResidualBlock(nn.Module):
    """h + Linear(SiLU(Norm(Linear(SiLU(Norm(h))) + condition))), per node.

    The condition is a row of a small table, one row per graph and variable.
    """

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, width)
        self.time = nn.Linear(width, width)
        self.node = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(width, width)
        nn.init.zeros_(self.linear2.weight)
        nn.init.zeros_(self.linear2.bias)

    def forward(self, h: Tensor, time: Tensor, node: Tensor, row: Tensor) -> Tensor:
        """Transform h [N, D].

        Args:
            h: Hidden states [N, D].
            time: Time embedding, activated, [B, D].
            node: Node embeddings, activated, [V, D].
            row: Row of each node in the flattened table [B * V, D].
        """
        table = self.time(time)[:, None] + self.node(node)  # [B, V, D]
        update = self.linear1(F.silu(self.norm1(h)))
        update = update + table.flatten(0, 1).index_select(0, row)
        update = self.linear2(self.dropout(F.silu(self.norm2(update))))
        return h + update


class AttentionBlock(nn.Module):
    """h + Linear(StructuredAttention(Norm(h)))."""

    def __init__(self, width: int, heads: int, backend: Backend = "auto") -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = StructuredAttentionConv(
            width, width // heads, heads, backend=backend
        )
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h + self.linear(self.attention(self.norm(h), edge_index))
