"""One setting changed at a time, on problems whose posterior is exact.

    python -m benchmarks.defaults [--task two_moons] [--set schedule=cosine]
    python -m benchmarks.defaults --set num_examples=30000 --set optimizer.ema=0.99

trains on the CPU for as many steps whatever is changed, and compares samples with exact
ones given observations that are drawn for this alone, none of sbibm's: settings must
not be chosen on the cases that `benchmarks.sbibm` reports. docs/defaults.md has the
results. Errors are C2ST, 0.5 at best, or mean errors of marginal probabilities.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from benchmarks.sbibm_methods import read_settings, split
from examples.programs.gaussian_mixture import gaussian_mixture
from examples.programs.hidden_markov import error as hidden_markov_error
from examples.programs.hidden_markov import hidden_markov
from examples.programs.two_moons import two_moons
from gsdm_pyg import GSDM, Problem, ProblemFamily
from gsdm_pyg.diagnostics import c2st
from gsdm_pyg.settings import TrainingSettings

SAMPLERS = ("20 dpm++ karras", "50 dpm++ karras", "50 dpm++_sde karras", "50 ddpm time")
OBSERVATIONS, SAMPLES = 6, 3000
Draw = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
# What is trained on, settings that suit it, and the error of a trained model.
Task = tuple[Problem | ProblemFamily, dict[str, Any], Callable[[GSDM], float]]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Options, checked before any work; `changes` has the settings by name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=TASKS, action="append", help="default: all")
    parser.add_argument("--steps", type=int, default=3000, help="of training")
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
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    print("| task | settings | sampler | error | training, s |")
    print("| --- | --- | --- | ---: | ---: |")
    for task in options.task or TASKS:
        source, defaults, error = TASKS[task]()
        of_model, of_fit = split({**defaults, **options.changes})
        torch.manual_seed(0)
        model = GSDM.from_problem(source, **of_model)
        start = time.process_time()
        model.fit(**{"max_steps": options.steps, "accelerator": "cpu", **of_fit})
        seconds = time.process_time() - start
        for sampler in options.sampler or SAMPLERS:
            steps, solver, spacing = sampler.split()
            model.sampler = model.sampler.updated(
                {"steps": int(steps), "solver": solver, "spacing": spacing}
            )
            what = " ".join(options.set) or "defaults"
            found = error(model)
            print(f"| {task} | {what} | {sampler} | {found:.4f} | {seconds:.0f} |")


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


def mean_c2st(model: GSDM, problem: Problem, draw: Draw) -> float:
    """Mean C2ST over observations of our own."""
    generator = torch.Generator().manual_seed(99)
    x = problem.sample_batch(OBSERVATIONS, generator)["x"]
    samples = model.sample(problem, {"x": x}, SAMPLES, generator=5)["theta"]
    found = []
    for observation, drawn in zip(x, samples, strict=True):
        theta, accepted = draw(observation, generator)
        exact = theta[accepted]
        if len(exact) < SAMPLES:
            raise RuntimeError(f"Too few exact samples (got {len(exact)}).")
        found.append(c2st(drawn, exact[:SAMPLES]))
    return mean(found)


def _c2st_task(problem: Problem, draw: Draw) -> Task:
    return problem, {"layers": 6}, lambda model: mean_c2st(model, problem, draw)


def _hidden_markov() -> Task:
    def error(model: GSDM) -> float:
        return hidden_markov_error(model, 30, samples=200)["probability"]

    return hidden_markov.family(length=(2, 10)), {"layers": 10, "heads": 4}, error


TASKS: dict[str, Callable[[], Task]] = {
    "two_moons": lambda: _c2st_task(two_moons(), two_moons_draws),
    "gaussian_mixture": lambda: _c2st_task(gaussian_mixture(), mixture_draws),
    "hidden_markov": _hidden_markov,
}

if __name__ == "__main__":
    main()
