"""Embeddings of time and of nodes (sections 2.2 and 3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gsdm_pyg.embedding_rows import EmbeddingRows


class Sinusoids(nn.Module):
    """Positions [R, P] -> [R, D]: sine and cosine at D / 2 frequencies.

    The frequencies fall from 1 to 1/10,000; the P coordinates use them in turn.
    """

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        frequencies = torch.exp(-math.log(10_000) * torch.arange(half) / (half - 1))
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, position: Tensor) -> Tensor:
        half, num_coordinates = len(self.frequencies), position.size(1)
        if half < num_coordinates:
            raise ValueError(
                f"Positions of {num_coordinates} coordinates need a width of at least "
                f"{2 * num_coordinates} (got {2 * half})."
            )
        turn = torch.arange(half, device=position.device) % num_coordinates
        angle = position.index_select(1, turn) * self.frequencies  # [R, D / 2]
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class TimeEmbedding(nn.Module):
    """Diffusion steps t [B] -> [B, D]: sinusoids; Linear; SiLU; Linear."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.sinusoids = Sinusoids(width)
        self.layers = nn.Sequential(
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
        )

    def forward(self, t: Tensor) -> Tensor:
        return self.layers(self.sinusoids(t[:, None]))


class PositionEmbedding(nn.Module):
    """A learned vector per variable plus sinusoids of the position, at any size.

    With the index in the array as position these are the paper's array embeddings (AE);
    with the declared positions, or none, its exchangeable ones (EE). The denoiser is
    equivariant to every relabelling of the nodes that keeps the edges and each node's
    variable and position (the paper's theorem on invariance).
    """

    def __init__(self, num_variables: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_variables, width))
        self.sinusoids = Sinusoids(width)

    def forward(self, rows: EmbeddingRows) -> Tensor:
        """The embedding of each row, [R, D]."""
        node, position = (
            self.weight.index_select(0, rows["row_variable"]),
            rows["row_position"],
        )
        return node + self.sinusoids(position) if position.size(1) else node


class IndependentEmbedding(nn.Module):
    """A learned vector per node (IE in the paper), for graphs of one size only."""

    def __init__(self, num_nodes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_nodes, width))

    def forward(self, rows: EmbeddingRows) -> Tensor:
        """The embedding of each row, [R, D]; each node has one, at its own number."""
        node, known = rows["row_position"].squeeze(1), len(self.weight)
        (first,) = torch.where(node == 0)  # of each graph
        sizes = torch.diff(first, append=first.new_tensor([len(node)]))
        if (sizes != known).any():
            raise ValueError(
                f"Independent embeddings take graphs of the {known} nodes that they "
                "were made for: use array or exchangeable ones for other sizes "
                f"(got {int(sizes[sizes != known][0])} nodes)."
            )
        return self.weight.index_select(0, node)
