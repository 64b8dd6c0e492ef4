"""Evaluation: fresh instances, sampled answers, the problem's own metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gsdm_pyg.data import keyed_generator, to_data
from gsdm_pyg.diffusion.sampling import Solver
from gsdm_pyg.model import GSDM
from gsdm_pyg.problem import Problem


@dataclass(frozen=True)
class Evaluation:
    """Metrics averaged over instances, and the samples that they judge."""

    metrics: dict[str, float]
    samples: list[dict[str, Tensor]]
    truths: list[dict[str, Tensor]]


def evaluate(
    model: GSDM,
    problem: Problem,
    num_instances: int = 64,
    steps: int = 50,
    solver: Solver = "ddpm",
    seed: int = 0,
    max_nodes: int = 200_000,
) -> Evaluation:
    """Sample one answer for each of `num_instances` fresh instances and judge it.

    Args:
        model: The model to judge.
        problem: The problem, of any size.
        num_instances: Instances to average over.
        steps: Evaluations of the network per sample.
        solver: How to integrate.
        seed: Chooses instances and noise.
        max_nodes: Bound on the nodes of one batch.
    """
    if num_instances < 1:
        raise ValueError(f"num_instances must be at least 1 (got {num_instances}).")
    graph = model.check_problem(problem)
    generator = keyed_generator("evaluation", seed)
    truths = [problem.sample(generator) for _ in range(num_instances)]
    graphs = [
        to_data(problem, truth, problem.observe(generator, model.observe))
        for truth in truths
    ]
    values = model.sample_data(graphs, steps, solver, generator, max_nodes)
    samples = [graph.decode(x.cpu()) for x in values]
    judged = [problem.metrics(s, t) for s, t in zip(samples, truths, strict=True)]
    return Evaluation(mean_metrics(judged), samples, truths)


def prior_metrics(problem: Problem, num_instances: int = 64, seed: int = 0) -> dict:
    """The metrics of answers drawn from the prior, ignoring what is given."""
    generator = keyed_generator("evaluation", seed)
    return mean_metrics(
        [
            problem.metrics(problem.sample(generator), problem.sample(generator))
            for _ in range(num_instances)
        ]
    )


def mean_metrics(judged: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric."""
    return {
        name: torch.tensor([float(j[name]) for j in judged]).double().mean().item()
        for name in judged[0]
    }


def label(problem: Problem) -> str:
    """A short name such as BCMF(m=8,n=8,k=4)."""
    sizes = ",".join(f"{name}={size}" for name, size in problem.sizes().items())
    return f"{type(problem).__name__}({sizes})"
