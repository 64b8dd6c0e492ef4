"""Solvers: a scheduler of diffusers, set up for a noise schedule and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from diffusers import DPMSolverMultistepScheduler
from torch import Tensor

from gsdm_pyg.choices import Solver, Spacing
from gsdm_pyg.diffusion.schedule import alpha_bars
from gsdm_pyg.problem_spec import VariableSpec
from gsdm_pyg.settings import SamplerSettings
from gsdm_pyg.variables import Role

_SOLVERS: dict[str, dict[str, Any]] = {
    # In first order these are the updates of DDPM and DDIM (Lu et al., 2022).
    "ddpm": {"algorithm_type": "sde-dpmsolver++", "solver_order": 1},
    "ddim": {"algorithm_type": "dpmsolver++", "solver_order": 1},
    "dpm++": {"algorithm_type": "dpmsolver++"},
    "dpm++_sde": {"algorithm_type": "sde-dpmsolver++"},
}


def is_stochastic(solver: Solver) -> bool:
    """Whether a solver follows the SDE and so adds noise on the way."""
    return bool(_SOLVERS[solver]["algorithm_type"].startswith("sde"))


def default_sampler(
    variables: Sequence[VariableSpec], num_timesteps: int
) -> SamplerSettings:
    """What suits a problem until `gsdm report` has measured something better.

    Classes must fit together, which takes more steps.

    Args:
        variables: The variables of the problem.
        num_timesteps: T, the steps of the diffusion.
    """
    sampler = SamplerSettings()
    if any(v.num_classes for v in variables if v.role is not Role.OBSERVED):
        sampler = SamplerSettings(steps=50)
    return sampler.updated({"steps": min(sampler.steps, num_timesteps)})


class ReverseSteps:
    """The steps from noise to a sample; fresh for every pass, as solvers remember.

    Args:
        solver: Which update to make.
        beta: beta_1..beta_T of the schedule, [T].
        times: The steps t of the schedule to evaluate the network at, falling.
        device: Where the values are.
    """

    def __init__(
        self, solver: Solver, beta: Tensor, times: Tensor, device: torch.device
    ) -> None:
        arguments = _SOLVERS[solver]
        scheduler: Any = DPMSolverMultistepScheduler  # whose type is not known
        self._scheduler = scheduler(
            num_train_timesteps=len(beta),
            trained_betas=beta.tolist(),
            prediction_type="sample",
            **arguments,
        )
        self._scheduler.set_timesteps(timesteps=times.tolist(), device=device)
        self.times: Tensor = self._scheduler.timesteps  # [steps]
        self.stochastic = is_stochastic(solver)

    def step(
        self, x0_hat: Tensor, t: Tensor, xt: Tensor, noise: Tensor | None
    ) -> Tensor:
        """The values at the next, lower noise level; a stochastic solver adds noise."""
        return self._scheduler.step(
            x0_hat, t, xt, variance_noise=noise, return_dict=False
        )[0]


def step_times(beta: Tensor, steps: int, spacing: Spacing) -> Tensor:
    """The steps t of the schedule that a sampler visits: T - 1 first, then falling.

    "time" spaces them evenly and stops short of t = 0. "logsnr" goes down to it, evenly
    in log sigma with sigma^2 = (1 - alpha_bar) / alpha_bar (Lu et al., 2022). Steps at
    high noise count too: much of the mean of many nodes that vary together is still
    left where the noise hides each of them.

    Args:
        beta: beta_1..beta_T of the schedule, [T].
        steps: How many.
        spacing: How to space them.
    """
    last = len(beta) - 1
    index = torch.arange(steps)
    if spacing == "time" or steps == 1:
        return last - (index * len(beta)).div(steps, rounding_mode="floor")
    alpha_bar = alpha_bars(beta.double())
    log_sigma = ((1 - alpha_bar) / alpha_bar).log() / 2  # [T], rising
    ends = log_sigma[-1], log_sigma[0]
    levels = torch.linspace(*ends, steps, dtype=log_sigma.dtype)
    times = torch.searchsorted(log_sigma, levels.clamp(*ends[::-1]))
    # Each step has a time of its own, and enough are left for the steps that follow.
    times = (times + index).cummin(0).values - index
    return times.maximum(steps - 1 - index)
