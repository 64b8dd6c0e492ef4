"""Noise schedules (section 2.1): beta_t -> alpha_bar_t."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Schedule


def betas(schedule: Schedule, num_steps: int = 1000) -> Tensor:
    """beta_1..beta_T, float64 [T].

    "paper" is linear from 1e-4 to 0.005 and leaves alpha_bar_T = 0.078 at T = 1000;
    "linear" goes on to 0.02 (Ho et al.); "cosine" is Nichol and Dhariwal's,
    ended at alpha_bar_T = 1e-4, before solvers in float32 lose their footing. "shifted"
    is a cosine moved to lower noise (Hoogeboom et al., 2023): with
    sigma^2 = (1 - alpha_bar) / alpha_bar it is sigma = tan(angle) / 5 at even angles,
    from 0.002 to 50.
    """
    check_choice("schedule", schedule, Schedule)
    if schedule == "cosine":
        time = torch.arange(num_steps + 1, dtype=torch.float64) / num_steps
        alpha_bar = ((time + 0.008) / 1.008 * math.acos(0.01)).cos().square()
        return 1 - alpha_bar[1:] / alpha_bar[:-1]
    if schedule == "shifted":
        first, end = (math.atan(5 * sigma) for sigma in (0.002, 50.0))
        angle = torch.linspace(first, end, num_steps, dtype=torch.float64)
        alpha_bar = 1 / (1 + (angle.tan() / 5).square())
        before = torch.cat([alpha_bar.new_ones(1), alpha_bar[:-1]])
        return 1 - alpha_bar / before
    last = {"paper": 0.005, "linear": 0.02}[schedule]
    return torch.linspace(1e-4, last, num_steps, dtype=torch.float64)


def alpha_bars(beta: Tensor) -> Tensor:
    """alpha_bar_t = prod_{s <= t} (1 - beta_s), [T]."""
    return (1 - beta).cumprod(0)
