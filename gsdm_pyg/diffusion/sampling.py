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

Solver = Literal["ddpm", "ddim", "dpm++", "dpm++_sde", "unipc"]

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
) -> Tensor:
    """Draw x0 given the observed rows of x.

    Args:
        denoise: Maps (xt [N, W], t) to x0_hat [N, W]; t counts from 0.
        x: Values [N, W]; rows that are not observed are overwritten.
        observed: Which rows to keep, [N].
        beta: beta_1..beta_T of the schedule, [T].
        steps: Evaluations of `denoise`.
        solver: "ddpm" (ancestral sampling, also DDIM with eta = 1) and "dpm++_sde"
            follow the SDE, whose noise corrects mistakes: best where values must fit
            together, such as discrete ones. "ddim", "dpm++" and "unipc" follow the ODE:
            best for the spread of a posterior, which "ddpm" narrows in few steps.
        generator: Source of randomness, on the device of x or on the CPU.
    """
    check_choice("solver", solver, Solver)
    if not 1 <= steps <= len(beta):
        raise ValueError(
            f"steps lies between 1 and the {len(beta)} of the schedule (got {steps})."
        )
    scheduler_class, arguments = _SOLVERS[solver]
    scheduler = scheduler_class(
        num_train_timesteps=len(beta),
        trained_betas=beta.tolist(),
        prediction_type="sample",
        timestep_spacing="trailing",
        **arguments,
    )
    scheduler.set_timesteps(steps, device=x.device)
    # Rounding makes diffusers append t = -1 for some numbers of steps: cut it off.
    scheduler.timesteps = scheduler.timesteps[:steps]
    scheduler.num_inference_steps = steps
    if hasattr(scheduler, "sigmas"):
        scheduler.sigmas = torch.cat([scheduler.sigmas[:steps], scheduler.sigmas[-1:]])
    # UniPC's step draws nothing and takes no generator.
    random = {} if solver == "unipc" else {"generator": generator}
    keep = observed[:, None]
    noise = randn_tensor(x.shape, generator, x.device, x.dtype)
    xt = torch.where(keep, x, noise)
    for t in scheduler.timesteps:
        x0_hat = denoise(xt, int(t))
        xt = scheduler.step(x0_hat, t, xt, return_dict=False, **random)[0]
        xt = torch.where(keep, x, xt)
    return xt
