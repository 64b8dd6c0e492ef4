"""What a solver loses in few steps, with a denoiser that is exact.

    python -m benchmarks.solvers [--evaluations 10 20 50]

The data are a mixture of three Gaussians of very different widths, whose denoiser is
known in closed form: all error is that of the steps. The table has the distance in
total variation between samples and the mixture, estimated by 50 bins of equal
probability; as many exact samples show the last row by chance. `heun` is the sampler of
Karras et al. (2022) with its own noise levels, and two evaluations per step.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import pairwise
from typing import get_args

import torch
from torch import Tensor

from gsdm_pyg.choices import Solver, Spacing
from gsdm_pyg.diffusion.diffusion import reverse
from gsdm_pyg.diffusion.schedule import alpha_bars, betas
from gsdm_pyg.settings import ModelSettings, SamplerSettings

NUM, BINS = 200_000, 50
MEAN = torch.tensor([-1.5, 0.0, 1.5], dtype=torch.double)
SPREAD = torch.tensor([0.02, 0.25, 0.05], dtype=torch.double)
WEIGHT = torch.tensor([0.3, 0.5, 0.2], dtype=torch.double)
BETA = betas(ModelSettings().schedule)
ALPHA_BAR = alpha_bars(BETA)


def main() -> None:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--evaluations", type=int, nargs="+", default=[10, 20, 50])
    counts = parser.parse_args().evaluations
    print(f"| solver | spacing | {' | '.join(map(str, counts))} |")
    print(f"| --- | --- |{' ---: |' * len(counts)}")
    for solver in get_args(Solver):
        for spacing in get_args(Spacing):
            settings = {"solver": solver, "spacing": spacing}
            drawn = [
                draw(SamplerSettings.parse({**settings, "steps": steps}))
                for steps in counts
            ]
            show(solver, spacing, drawn)
    show("heun", "of EDM", [heun(count) for count in counts])
    show("exact samples", "", [exact()] * len(counts))


def show(solver: str, spacing: str, drawn: list[Tensor]) -> None:
    errors = (f"{total_variation(x):.3f}" for x in drawn)
    print(f"| {solver} | {spacing} | {' | '.join(errors)} |", flush=True)


def denoise(x: Tensor, sigma: Tensor | float) -> Tensor:
    """E[x0 | x0 + sigma eps = x] of the mixture, [N, 1]."""
    variance = SPREAD**2 + sigma**2
    log_weight = WEIGHT.log() - variance.log() / 2 - (x - MEAN) ** 2 / variance / 2
    mean = MEAN + SPREAD**2 / variance * (x - MEAN)
    return (log_weight.softmax(-1) * mean).sum(-1, keepdim=True)


def draw(sampler: SamplerSettings, num: int = NUM) -> Tensor:
    """Samples by one of our solvers, [N, 1]."""
    latent = torch.zeros(num, 1, dtype=torch.double)

    def denoise_at(xt: Tensor, t: Tensor) -> Tensor:
        root = ALPHA_BAR[t].sqrt()
        return denoise(xt / root, (1 - ALPHA_BAR[t]).sqrt() / root)

    noise = partial(noise_like, latent, torch.Generator().manual_seed(0))
    return reverse(denoise_at, latent, latent.bool(), BETA, sampler, noise)


def heun(evaluations: int, num: int = NUM) -> Tensor:
    """Samples by Heun's method in sigma, with EDM's range and spacing of it, [N, 1]."""
    steps = (evaluations + 1) // 2  # the last one is Euler's
    levels = torch.linspace(80.0 ** (1 / 7), 0.002 ** (1 / 7), steps).double() ** 7
    sigmas = [*levels.tolist(), 0.0]
    latent = torch.zeros(num, 1, dtype=torch.double)
    x = sigmas[0] * noise_like(latent, torch.Generator().manual_seed(0))
    for sigma, lower in pairwise(sigmas):
        slope = (x - denoise(x, sigma)) / sigma
        end = x + (lower - sigma) * slope
        if lower:
            slope = (slope + (end - denoise(end, lower)) / lower) / 2
            end = x + (lower - sigma) * slope
        x = end
    return x


def exact() -> Tensor:
    """Samples of the mixture, [N, 1]."""
    generator = torch.Generator().manual_seed(0)
    mode = torch.multinomial(WEIGHT, NUM, replacement=True, generator=generator)
    noise = noise_like(torch.zeros(NUM, dtype=torch.double), generator)
    return (MEAN[mode] + SPREAD[mode] * noise)[:, None]


def total_variation(x: Tensor) -> float:
    """Half of the summed differences of 50 probabilities."""
    standardized = (x - MEAN) / SPREAD
    level = (torch.special.ndtr(standardized) @ WEIGHT).clamp(max=1 - 1e-12)  # [N]
    counts = torch.bincount((level * BINS).long(), minlength=BINS)
    return (counts / len(x) - 1 / BINS).abs().sum().item() / 2


def noise_like(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, dtype=x.dtype, generator=generator)


if __name__ == "__main__":
    main()
