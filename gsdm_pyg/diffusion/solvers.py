"""Solvers: diffusers' schedulers, set up for a schedule and a number of steps."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    UniPCMultistepScheduler,
)
from torch import Tensor

from gsdm_pyg.choices import Solver

_SOLVERS: dict[str, tuple[type, dict[str, Any]]] = {
    "ddpm": (DDPMScheduler, {"clip_sample": False}),
    # DDIM's update; diffusers' DDIMScheduler errs where steps do not divide T.
    "ddim": (
        DPMSolverMultistepScheduler,
        {"algorithm_type": "dpmsolver++", "solver_order": 1},
    ),
    "dpm++": (DPMSolverMultistepScheduler, {"algorithm_type": "dpmsolver++"}),
    "dpm++_sde": (DPMSolverMultistepScheduler, {"algorithm_type": "sde-dpmsolver++"}),
    "unipc": (UniPCMultistepScheduler, {}),
}


class ReverseSteps:
    """The steps from noise to a sample; fresh for every pass, as solvers remember.

    Args:
        solver: Which update to make.
        beta: beta_1..beta_T of the schedule, [T].
        num_steps: How many steps to take.
        device: Where the values are.
    """

    def __init__(
        self, solver: Solver, beta: Tensor, num_steps: int, device: torch.device
    ) -> None:
        scheduler_class, arguments = _SOLVERS[solver]
        self._scheduler = scheduler_class(
            num_train_timesteps=len(beta),
            trained_betas=beta.tolist(),
            prediction_type="sample",
            timestep_spacing="trailing",
            **arguments,
        )
        self._scheduler.set_timesteps(num_steps, device=device)
        self._cut(num_steps)
        self.times: Tensor = self._scheduler.timesteps  # [num_steps], falling
        self._draws = solver != "unipc"  # whose update takes no generator

    def _cut(self, num_steps: int) -> None:
        """Rounding makes diffusers append t = -1 for some numbers of steps."""
        scheduler = self._scheduler
        scheduler.timesteps = scheduler.timesteps[:num_steps]
        scheduler.num_inference_steps = num_steps
        if hasattr(scheduler, "sigmas"):
            sigmas = scheduler.sigmas
            scheduler.sigmas = torch.cat([sigmas[:num_steps], sigmas[-1:]])

    def step(
        self, x0_hat: Tensor, t: Tensor, xt: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """The values at the next, lower noise level."""
        random = {"generator": generator} if self._draws else {}
        return self._scheduler.step(x0_hat, t, xt, return_dict=False, **random)[0]
