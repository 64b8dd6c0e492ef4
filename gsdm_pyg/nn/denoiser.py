"""The denoiser (section 2.2 and the architecture appendix): noisy graph -> outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Backend
from gsdm_pyg.embedding_rows import EmbeddingRows
from gsdm_pyg.graphical_model import EDGE_KINDS
from gsdm_pyg.nn.blocks import AttentionBlock, NodeNorm, ResidualBlock
from gsdm_pyg.nn.embeddings import (
    IndependentEmbedding,
    PositionEmbedding,
    TimeEmbedding,
)
from gsdm_pyg.nn.structured_attention import StructuredAttentionConv


class Denoiser(nn.Module):
    """Transformer over the nodes of a graph, attending along its edges.

    Args:
        num_columns: W, the value columns of a node.
        num_variables: V, the variables that embeddings distinguish.
        width: D, the size of a hidden state.
        layers: L, how often the residual and attention blocks repeat; information
            travels at most L edges.
        heads: H, attention heads of D / H channels each.
        dropout: Dropout inside the residual blocks.
        self_conditioning: Whether an earlier estimate of x0 is a second input.
        edge_kinds: Whether attention has a learned bias per kind of edge and head.
        num_nodes: If given, all graphs have that many nodes and each has an embedding
            of its own. By default an embedding depends on variable and position.
        backend: How attention is computed, see `StructuredAttentionConv`.
    """

    def __init__(
        self,
        num_columns: int,
        num_variables: int,
        width: int = 64,
        layers: int = 12,
        heads: int = 2,
        dropout: float = 0.0,
        self_conditioning: bool = False,
        edge_kinds: bool = False,
        num_nodes: int | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads or width < 4 or width % 2:
            raise ValueError(
                "width must be even, at least 4 and a multiple of heads "
                f"(got width={width}, heads={heads})."
            )
        self.embed_value = nn.Linear(num_columns, width)
        self.embed_estimate = None
        if self_conditioning:
            self.embed_estimate = nn.Linear(num_columns, width, bias=False)
        self.embed_observed = nn.Parameter(torch.randn(width))
        self.embed_node = (
            PositionEmbedding(num_variables, width)
            if num_nodes is None
            else IndependentEmbedding(num_nodes, width)
        )
        self.embed_time = TimeEmbedding(width)
        self.residual = nn.ModuleList(
            ResidualBlock(width, dropout) for _ in range(layers)
        )
        self.attention = nn.ModuleList(
            AttentionBlock(width, heads, backend) for _ in range(layers)
        )
        self.edge_bias = None
        if edge_kinds:  # of each kind, layer and head
            size = (len(EDGE_KINDS), layers, heads)
            self.edge_bias = nn.Parameter(torch.zeros(size))
        self.norm = NodeNorm(width, silu=True)
        self.output = nn.Linear(width, num_columns)

    def hidden_matrices(self) -> list[nn.Parameter]:
        """The weights of the blocks, which map hidden states to hidden states."""
        blocks = [*self.residual.parameters(), *self.attention.parameters()]
        return [p for p in blocks if p.dim() == 2]

    def set_backend(self, backend: Backend) -> None:
        """Change how attention is computed."""
        check_choice("backend", backend, Backend)
        for module in self.attention.modules():
            if isinstance(module, StructuredAttentionConv):
                module.backend = backend

    def forward(
        self,
        x: Tensor,
        t: Tensor,
        observed: Tensor,
        edge_index: Tensor,
        embedding: EmbeddingRows,
        x0_hat: Tensor | None = None,
        *,
        edge_kind: Tensor | None = None,
    ) -> Tensor:
        """Raw outputs [N, W] for noisy values.

        Args:
            x: Noisy values of latent nodes, true ones of observed nodes, [N, W].
            t: Diffusion step of each graph, [B].
            observed: Which nodes are observed, [N].
            edge_index: Edges [2, E], best an `EdgeIndex` sorted by column.
            embedding: Which embedding each node has.
            x0_hat: An earlier estimate of x0 for self-conditioning, [N, W]; None if
                there is none yet.
            edge_kind: The kind of each edge, [E], if the denoiser learns kinds.
        """
        row_id, row_graph = embedding["row_id"], embedding["row_graph"]
        node = self.embed_node(embedding)  # [R, D]
        table = torch.cat([node, node + self.embed_observed])  # [2 R, D]
        h = self.embed_value(x)
        if self.embed_estimate is not None:
            # Zeros instead of nothing: DDP needs a gradient of every weight.
            x0_hat = torch.zeros_like(x) if x0_hat is None else x0_hat
            h = h + self.embed_estimate(x0_hat)
        h = h + table.index_select(0, row_id + len(node) * observed)
        time, node = F.silu(self.embed_time(t)), F.silu(node)
        biases = self._edge_biases(edge_kind)
        blocks = zip(self.residual, self.attention, biases, strict=True)
        for residual, attention, bias in blocks:
            h = residual(h, time, node, row_graph, row_id)
            h = attention(h, edge_index, bias)
        return self.output(self.norm(h))

    def _edge_biases(self, edge_kind: Tensor | None) -> list[Tensor | None]:
        """The bias of each layer's attention, [E, H], if edges have kinds."""
        if self.edge_bias is None:
            return [None] * len(self.attention)
        if edge_kind is None:
            raise ValueError(
                "A denoiser with edge_kinds=True needs the kind of each edge, [E] "
                "(got None)."
            )
        # One product for all layers, whose gradient needs no scatter.
        kinds = torch.arange(len(EDGE_KINDS), device=edge_kind.device)
        one_hot = (edge_kind[:, None] == kinds).to(self.edge_bias.dtype)
        bias = one_hot @ self.edge_bias.flatten(1)  # [E, L * H]
        bias = bias.unflatten(1, self.edge_bias.shape[1:])
        return list(bias.transpose(0, 1).contiguous().unbind())  # each [E, H]
