"""One setting changed at a time, on problems whose posterior is exact.

    python -m benchmarks.defaults [--task two_moons] [--set schedule=cosine]
    python -m benchmarks.defaults --minutes 2 --set num_examples=30000

trains on the CPU for as many steps or core-minutes whatever is changed, and compares
samples with exact ones. The observations are drawn for this alone: settings must not be
chosen on those of sbibm, which `benchmarks.sbibm` reports. docs/defaults.md has the
results. Errors are C2ST, 0.5 at best, or mean errors of marginal probabilities.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from benchmarks.sbibm_methods import duration, measured, read_settings, split
from examples.programs.gaussian_mixture import gaussian_mixture
from examples.programs.hidden_markov import error as hidden_markov_error
from examples.programs.hidden_markov import hidden_markov
from examples.programs.slcp import slcp
from examples.programs.two_moons import two_moons
from gsdm_pyg import GSDM, Problem, ProblemFamily
from gsdm_pyg.diagnostics import c2st
from gsdm_pyg.settings import SamplerSettings, TrainingSettings

SAMPLERS = ("20 dpm++_sde logsnr", "50 dpm++_sde logsnr", "20 dpm++ logsnr")
OBSERVATIONS, SAMPLES = 6, 3000
Draw = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
# What is trained on, settings that suit it, and the error of a trained model.
Task = tuple[Problem | ProblemFamily, dict[str, Any], Callable[[GSDM], float]]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Options, checked before any work, with `changes` and `samplers` by name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=TASKS, action="append", help="default: all")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--steps", type=int, default=3000, help="of training")
    end.add_argument("--minutes", type=float, help="of one core, instead of --steps")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the model or its training, such as width=32; repeatable",
    )
    parser.add_argument("--sampler", action="append", help='such as "50 ddpm time"')
    options = parser.parse_args(arguments)
    try:
        options.changes = read_settings(options.set)
        TrainingSettings.from_keywords(split(options.changes)[1])
        texts = options.sampler or SAMPLERS
        options.samplers = {text: read_sampler(text) for text in texts}
    except ValueError as error:
        parser.error(str(error))
    return options


def read_sampler(text: str) -> SamplerSettings:
    """A sampler from its steps, solver and spacing."""
    words = text.split()
    if len(words) != 3 or not words[0].isdecimal():
        raise ValueError(f'A sampler reads "{SAMPLERS[0]}" (got {text!r}).')
    steps, solver, spacing = words
    settings = {"steps": int(steps), "solver": solver, "spacing": spacing}
    return SamplerSettings.parse(settings)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    end: dict[str, Any] = {"max_steps": options.steps}
    if options.minutes is not None:
        end = {"max_time": duration(options.minutes), "clock": "processor"}
    print("| task | settings | sampler | error | steps | training, core-min |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for task in options.task or TASKS:
        source, defaults, error = TASKS[task]()
        of_model, of_fit = split({**defaults, **options.changes})
        torch.manual_seed(0)
        model = GSDM.from_problem(source, **of_model)
        with measured() as training:
            model.fit(**{**end, "accelerator": "cpu", **of_fit})
        limits = TrainingSettings.from_keywords({**end, **of_fit}).trainer
        training.check_finished(
            options.minutes or math.inf, limits.max_steps or math.inf
        )
        cost = f"{training.steps:,} | {training.minutes:.1f}"
        what = " ".join(options.set) or "defaults"
        for name, model.sampler in options.samplers.items():
            found = error(model)
            print(f"| {task} | {what} | {name} | {found:.4f} | {cost} |", flush=True)


def two_moons_draws(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Proposals of theta [M, 2] given x [2], and which are draws of the posterior."""
    num = 20 * SAMPLES
    angle = (torch.rand(num, generator=generator) - 0.5) * math.pi
    radius = 0.1 + 0.01 * torch.randn(num, generator=generator)
    crescent = torch.stack([radius * angle.cos() + 0.25, radius * angle.sin()], 1)
    minus_sum, difference = ((x - crescent) * math.sqrt(2)).unbind(1)
    sign = torch.randint(2, (num,), generator=generator) * 2 - 1
    total = -minus_sum * sign
    theta = torch.stack([total - difference, total + difference], 1) / 2
    return theta, (minus_sum <= 0) & (theta.abs() <= 1).all(1)


def mixture_draws(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Likewise for the Gaussian mixture."""
    num = 20 * SAMPLES
    spread = torch.tensor([0.1, 1.0])[torch.randint(2, (num, 1), generator=generator)]
    theta = x + spread * torch.randn(num, 2, generator=generator)
    return theta, (theta.abs() <= 10).all(1)


def slcp_draws(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Likewise for SLCP, x [n, 2].

    Spreads and correlation come from the prior and are accepted by their likelihood
    without the location, |C|^(-(n - 1) / 2) exp(-trace(C^-1 S) / 2) with S the scatter
    of x; C = S / (n - 1) bounds it. Given these the location is Gaussian.
    """
    num, n = 300 * SAMPLES, len(x)
    theta = 6 * torch.rand(num, 5, generator=generator) - 3
    s, t, rho = theta[:, 2].square(), theta[:, 3].square(), theta[:, 4].tanh()
    u, v = (x - x.mean(0)).unbind(1)

    def log_likelihood(s: Tensor, t: Tensor, rho: Tensor) -> Tensor:
        rest = 1 - rho.square()
        residual = (
            (v @ v) / t**2 - 2 * rho * (u @ v) / (s * t) + (u @ u) / s**2
        ) / rest
        return -(n - 1) / 2 * (s.square() * t.square() * rest).log() - residual / 2

    best_s, best_t = ((w @ w / (n - 1)).sqrt() for w in (u, v))
    bound = log_likelihood(best_s, best_t, u @ v / ((u @ u) * (v @ v)).sqrt())
    chance = (log_likelihood(s, t, rho) - bound).exp()
    accepted = torch.rand(num, generator=generator) < chance
    noise = torch.randn(num, 2, generator=generator) / math.sqrt(n)
    theta[:, 0] = x[:, 0].mean() + s * noise[:, 0]
    mixed = rho * noise[:, 0] + (1 - rho.square()).sqrt() * noise[:, 1]
    theta[:, 1] = x[:, 1].mean() + t * mixed
    return theta, accepted & (theta.abs() <= 3).all(1)


def mean_c2st(model: GSDM, problem: Problem, draw: Draw) -> float:
    """Mean C2ST over observations of our own."""
    generator = torch.Generator().manual_seed(99)
    x = problem.sample_batch(OBSERVATIONS, generator)["x"]
    samples = model.sample(problem, {"x": x}, SAMPLES, generator=5)["theta"]
    found = []
    for observation, drawn in zip(x, samples, strict=True):
        exact = exact_samples(partial(draw, observation, generator))
        found.append(c2st(drawn, exact))
    return mean(found)


def exact_samples(draw: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
    """The accepted ones of many proposals, [S, P]."""
    exact: list[Tensor] = []
    for _ in range(100):
        theta, accepted = draw()
        exact.append(theta[accepted])
        if sum(map(len, exact)) >= SAMPLES:
            return torch.cat(exact)[:SAMPLES]
    raise RuntimeError(f"Too few exact samples (got {sum(map(len, exact))}).")


def _c2st_task(problem: Problem, draw: Draw) -> Task:
    return problem, {"layers": 6}, lambda model: mean_c2st(model, problem, draw)


def _hidden_markov() -> Task:
    def error(model: GSDM) -> float:
        return hidden_markov_error(model, 30, samples=200)["probability"]

    return hidden_markov.family(length=(2, 10)), {"layers": 10, "heads": 4}, error


TASKS: dict[str, Callable[[], Task]] = {
    "two_moons": lambda: _c2st_task(two_moons(), two_moons_draws),
    "gaussian_mixture": lambda: _c2st_task(gaussian_mixture(), mixture_draws),
    "slcp": lambda: _c2st_task(slcp(), slcp_draws),
    "hidden_markov": _hidden_markov,
}

if __name__ == "__main__":
    main()
