"""The training loss (section 2.1 and 3.5): noise the latent nodes, predict x0."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

DiscreteLoss = Literal["cross_entropy", "squared"]
ContinuousLoss = Literal["x0", "v"]


def add_noise(x0: Tensor, eps: Tensor, alpha_bar: Tensor) -> Tensor:
    """xt = sqrt(alpha_bar) x0 + sqrt(1 - alpha_bar) eps, all [N, W] or [N, 1]."""
    return alpha_bar.sqrt() * x0 + (1 - alpha_bar).sqrt() * eps


def stratified_steps(
    num_graphs: int, num_steps: int, generator: torch.Generator | None = None
) -> Tensor:
    """Diffusion steps [B], each uniform on 0..T-1 and together spread evenly."""
    device = generator.device if generator is not None else None
    offset = torch.rand((), generator=generator, device=device)
    order = torch.randperm(num_graphs, generator=generator, device=device)
    return ((order + offset) * (num_steps / num_graphs)).long().clamp(max=num_steps - 1)


def predict_x0(
    output: Tensor, xt: Tensor, alpha_bar: Tensor, columns: Tensor, discrete: Tensor
) -> tuple[Tensor, Tensor]:
    """The network's outputs as x0_hat and as log-probabilities, both [N, W].

    Continuous nodes: x0_hat = sqrt(alpha_bar) xt + sqrt(1 - alpha_bar) output, so that
    for data of unit variance the output has unit variance at every noise level.
    Discrete nodes: the softmax of the outputs over the node's own columns.

    Args:
        output: Raw outputs of the denoiser, [N, W].
        xt: Noisy values, [N, W].
        alpha_bar: Noise level of each node, [N, 1].
        columns: Which columns belong to a node's domain, [N, W].
        discrete: Which nodes are categorical, [N, 1].
    """
    log_prob = output.masked_fill(~columns, -torch.inf).log_softmax(-1)
    x0_hat = alpha_bar.sqrt() * xt + (1 - alpha_bar).sqrt() * output
    return torch.where(discrete, log_prob.exp(), x0_hat * columns), log_prob


def node_loss(
    x0_hat: Tensor,
    log_prob: Tensor,
    x0: Tensor,
    alpha_bar: Tensor,
    discrete: Tensor,
    discrete_loss: DiscreteLoss = "cross_entropy",
    continuous_loss: ContinuousLoss = "x0",
) -> Tensor:
    """Squared error of continuous nodes; of discrete ones that or cross-entropy; [N].

    Args:
        x0_hat: Predictions, probabilities where discrete, [N, W].
        log_prob: Log-probabilities of discrete nodes, [N, W].
        x0: Targets, one-hot where discrete, [N, W].
        alpha_bar: Noise level of each node, [N, 1].
        discrete: Which nodes are categorical, [N, 1].
        discrete_loss: The loss of discrete nodes.
        continuous_loss: "x0" is the squared error itself; "v" divides it by
            1 - alpha_bar, and so judges the network's raw output (minus the
            velocity of Salimans and Ho, 2022) alike at every noise level.
    """
    squared = (x0_hat - x0).square().sum(-1)
    continuous = squared
    if continuous_loss == "v":
        continuous = squared / (1 - alpha_bar).squeeze(-1)
    categorical = squared
    if discrete_loss == "cross_entropy":
        categorical = -torch.where(x0 > 0, log_prob, 0).sum(-1)
    return torch.where(discrete.squeeze(-1), categorical, continuous)
