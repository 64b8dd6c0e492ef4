"""Evaluation: fresh instances, sampled answers, the problem's own metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.data import keyed_generator, to_data
from gsdm_pyg.diffusion.sampling import Solver
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.model import GSDM
from gsdm_pyg.problem import Observe, Problem


@dataclass(frozen=True)
class Evaluation:
    """Metrics summed up over instances, and the samples that they judge."""

    metrics: dict[str, float]
    samples: list[dict[str, Tensor]]
    truths: list[dict[str, Tensor]]
    observed: list[dict[str, Tensor]]  # boolean, what each sample was given

    def figures(self, problem: Problem, count: int) -> list[Figure]:
        """Pictures of the first `count` answers."""
        answers = zip(self.samples, self.truths, self.observed, strict=True)
        return [_ask(problem.plot, *answer) for answer in islice(answers, count)]


def evaluate(
    model: GSDM,
    problem: Problem,
    num_instances: int = 64,
    steps: int = 50,
    solver: Solver = "ddpm",
    seed: int = 0,
    max_nodes: int = 200_000,
    restarts: int = 0,
) -> Evaluation:
    """Sample one answer for each of `num_instances` fresh instances and judge it.

    Args:
        model: The model to judge.
        problem: The problem, of any size.
        num_instances: Instances to average over.
        steps: Evaluations of the network on the way from noise to a sample.
        solver: How to integrate.
        seed: Chooses instances and noise.
        max_nodes: Bound on the nodes of one batch.
        restarts: How many times to go part of the way back, see `GSDM.sample`.
    """
    graph = model.check_problem(problem)
    truths, observed, generator = _draw(problem, num_instances, seed, model.observe)
    given = zip(truths, observed, strict=True)
    graphs = [to_data(problem, *arrays, model.view) for arrays in given]
    values = model.sample_data(graphs, steps, solver, generator, max_nodes, restarts)
    samples = [model.decode(graph, x.cpu()) for x in values]
    metrics = _judge(problem, samples, truths, observed)
    return Evaluation(metrics, samples, truths, observed)


def _ask(
    method: Callable[..., Any], sample: Arrays, truth: Arrays, observed: Arrays
) -> Any:
    """`metrics` or `plot` of a problem, with `observed` if it has such an argument."""
    extra = {"observed": observed} if "observed" in signature(method).parameters else {}
    return method(sample, truth, **extra)


def prior_metrics(
    problem: Problem,
    num_instances: int = 64,
    seed: int = 0,
    observe: Observe = "roles",
) -> dict[str, float]:
    """Metrics of answers that ignore what is given, on the instances of `evaluate`."""
    truths, observed, generator = _draw(problem, num_instances, seed, observe)
    samples = [problem.sample(generator) for _ in truths]
    return _judge(problem, samples, truths, observed)


def _draw(
    problem: Problem, num_instances: int, seed: int, observe: Observe
) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]], torch.Generator]:
    """Instances, what is given of each, and where further randomness comes from."""
    if num_instances < 1:
        raise ValueError(f"num_instances must be at least 1 (got {num_instances}).")
    generator = keyed_generator("evaluation", seed)
    truths = [problem.sample(generator) for _ in range(num_instances)]
    observed = [problem.observe(generator, observe) for _ in truths]
    return truths, observed, generator


def _judge(
    problem: Problem,
    samples: Sequence[Arrays],
    truths: Sequence[Arrays],
    observed: Sequence[Arrays],
) -> dict[str, float]:
    """The problem's summary of its metrics."""
    answers = zip(samples, truths, observed, strict=True)
    return problem.summary([_ask(problem.metrics, *answer) for answer in answers])


def label(problem: Problem) -> str:
    """A short name such as BCMF(m=8,n=8,k=4)."""
    sizes = ",".join(f"{name}={size}" for name, size in problem.sizes().items())
    return f"{type(problem).__name__}({sizes})"
