"""Sampling: reverse the diffusion with one of diffusers' solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from diffusers import (
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    UniPCMultistepScheduler,
)
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor

Solver = Literal["ddpm", "ddim", "ddim_sde", "dpm++", "dpm++_sde", "unipc"]

_SOLVERS: dict[str, tuple[type, dict[str, Any], dict[str, Any]]] = {
    # name: (scheduler, arguments of the scheduler, arguments of its step)
    "ddpm": (DDPMScheduler, {"clip_sample": False}, {}),
    "ddim": (DDIMScheduler, {"clip_sample": False}, {}),
    "ddim_sde": (DDIMScheduler, {"clip_sample": False}, {"eta": 1.0}),
    "dpm++": (DPMSolverMultistepScheduler, {"algorithm_type": "dpmsolver++"}, {}),
    "dpm++_sde": (
        DPMSolverMultistepScheduler,
        {"algorithm_type": "sde-dpmsolver++"},
        {},
    ),
    "unipc": (UniPCMultistepScheduler, {}, {}),
}


@torch.no_grad()
def sample(
    denoise: Callable[[Tensor, int], Tensor],
    x: Tensor,
    observed: Tensor,
    beta: Tensor,
    steps: int = 50,
    solver: Solver = "ddim_sde",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw x0 given the observed rows of x.

    Args:
        denoise: Maps (xt [N, W], t) to x0_hat [N, W]; t counts from 0.
        x: Values [N, W]; rows that are not observed are overwritten.
        observed: Which rows to keep, [N].
        beta: beta_1..beta_T of the schedule, [T].
        steps: Evaluations of `denoise`.
        solver: "ddpm", "ddim", "dpm++" and "unipc" name diffusers' schedulers; "ddim"
            and "dpm++" follow the ODE, "ddim_sde" and "dpm++_sde" the SDE.
        generator: Source of randomness, on the device of x or on the CPU.
    """
    if solver not in _SOLVERS:
        raise ValueError(f"solver is one of {', '.join(_SOLVERS)} (got {solver!r}).")
    if not 1 <= steps <= len(beta):
        raise ValueError(
            f"steps lies between 1 and the {len(beta)} of the schedule (got {steps})."
        )
    scheduler_class, arguments, step_arguments = _SOLVERS[solver]
    scheduler = scheduler_class(
        num_train_timesteps=len(beta),
        trained_betas=beta.tolist(),
        prediction_type="sample",
        timestep_spacing="trailing",
        **arguments,
    )
    scheduler.set_timesteps(steps, device=x.device)
    if solver != "unipc":  # whose step draws nothing and takes no generator
        step_arguments = {**step_arguments, "generator": generator}
    keep = observed[:, None]
    noise = randn_tensor(x.shape, generator, x.device, x.dtype)
    xt = torch.where(keep, x, noise)
    for t in scheduler.timesteps:
        x0_hat = denoise(xt, int(t))
        xt = scheduler.step(x0_hat, t, xt, return_dict=False, **step_arguments)[0]
        xt = torch.where(keep, x, xt)
    return xt
