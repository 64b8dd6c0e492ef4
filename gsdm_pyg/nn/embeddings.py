"""Embeddings of time, of nodes and of being observed (sections 2.2 and 3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    """Diffusion steps t [B] -> [B, D]: sinusoids; Linear; SiLU; Linear."""

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        frequencies = torch.exp(-math.log(10_000) * torch.arange(half) / (half - 1))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.layers = nn.Sequential(
            nn.Linear(2 * half, width), nn.SiLU(), nn.Linear(width, width)
        )

    def forward(self, t: Tensor) -> Tensor:
        angle = t[:, None] * self.frequencies
        return self.layers(torch.cat([angle.sin(), angle.cos()], dim=-1))


class ExchangeableEmbedding(nn.Module):
    """One vector per variable, shared by all its nodes (EE in the paper).

    With it the denoiser is equivariant to every relabelling of the nodes that keeps
    the edges and each node's variable (the paper's theorem on invariance).
    """

    def __init__(self, num_variables: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_variables, width))

    def forward(self) -> Tensor:
        """The table [V, D]; a node's row is its `variable_id`."""
        return self.weight
