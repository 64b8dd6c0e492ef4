"""Sampling: reverse the diffusion with one of diffusers' solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from diffusers import (
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    UniPCMultistepScheduler,
)
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor

from gsdm_pyg.checks import check_choice
from gsdm_pyg.diffusion.loss import add_noise
from gsdm_pyg.diffusion.schedule import alpha_bars

Solver = Literal["ddpm", "ddim", "dpm++", "dpm++_sde", "unipc"]

_BACK = 0.4  # of the way to pure noise: how far a restart goes
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


@torch.no_grad()
def sample(
    denoise: Callable[[Tensor, int], Tensor],
    x: Tensor,
    observed: Tensor,
    beta: Tensor,
    steps: int = 50,
    solver: Solver = "ddpm",
    generator: torch.Generator | None = None,
    restarts: int = 0,
) -> Tensor:
    """Draw x0 given the observed rows of x.

    A restart goes part of the way back and down again: it adds noise to the sample, and
    removes it (Xu et al., 2023). An exact denoiser's distribution stays as it is, while
    mistakes of a learned one get mended.

    Args:
        denoise: Maps (xt [N, W], t) to x0_hat [N, W]; t counts from 0.
        x: Values [N, W]; rows that are not observed are overwritten.
        observed: Which rows to keep, [N].
        beta: beta_1..beta_T of the schedule, [T].
        steps: Evaluations of `denoise` on the way down from pure noise; a restart takes
            two fifths of them again.
        solver: "ddpm" (ancestral sampling, also DDIM with eta = 1) and "dpm++_sde"
            follow the SDE, whose noise corrects mistakes: best where values must fit
            together, such as discrete ones. "ddim", "dpm++" and "unipc" follow the ODE:
            best for the spread of a posterior, which "ddpm" narrows in few steps.
        generator: Source of randomness, on the device of x or on the CPU.
        restarts: How many times to go back. Best where values must fit together.
    """
    check_choice("solver", solver, Solver)
    check_steps(steps, restarts, len(beta))
    # UniPC's step draws nothing and takes no generator.
    random = {} if solver == "unipc" else {"generator": generator}
    keep, alpha_bar = observed[:, None], alpha_bars(beta).to(x)
    xt, back = x, steps - round(_BACK * steps)
    for first in [0, *[back] * restarts]:
        scheduler = _scheduler(solver, beta, steps, x.device)
        times = scheduler.timesteps[first:]
        noise = randn_tensor(x.shape, generator, x.device, x.dtype)
        xt = add_noise(xt, noise, alpha_bar[times[0]]) if first else noise
        xt = torch.where(keep, x, xt)
        for t in times:
            x0_hat = denoise(xt, int(t))
            xt = scheduler.step(x0_hat, t, xt, return_dict=False, **random)[0]
            xt = torch.where(keep, x, xt)
    return xt


def check_steps(steps: int, restarts: int, num_timesteps: int) -> None:
    """Refuse numbers of steps and restarts that `sample` cannot take."""
    if not 1 <= steps <= num_timesteps:
        raise ValueError(
            f"steps lies between 1 and the {num_timesteps} of the schedule "
            f"(got {steps})."
        )
    if restarts < 0 or (restarts and steps == 1):
        raise ValueError(
            "restarts is 0 or more, and takes at least 2 steps "
            f"(got {restarts} with steps={steps})."
        )


def _scheduler(solver: Solver, beta: Tensor, steps: int, device: torch.device) -> Any:
    """A fresh solver of diffusers: those of several steps remember the last ones."""
    scheduler_class, arguments = _SOLVERS[solver]
    scheduler = scheduler_class(
        num_train_timesteps=len(beta),
        trained_betas=beta.tolist(),
        prediction_type="sample",
        timestep_spacing="trailing",
        **arguments,
    )
    scheduler.set_timesteps(steps, device=device)
    # Rounding makes diffusers append t = -1 for some numbers of steps: cut it off.
    scheduler.timesteps = scheduler.timesteps[:steps]
    scheduler.num_inference_steps = steps
    if hasattr(scheduler, "sigmas"):
        scheduler.sigmas = torch.cat([scheduler.sigmas[:steps], scheduler.sigmas[-1:]])
    return scheduler
