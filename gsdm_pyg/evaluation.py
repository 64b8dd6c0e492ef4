"""Evaluation: fresh instances, sampled answers, the problem's own metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.choices import Observe
from gsdm_pyg.data import encode
from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.files import atomic_writer
from gsdm_pyg.posterior import (
    MAX_NODES,
    SamplingInterrupted,
    sample_posterior,
)
from gsdm_pyg.problem import Problem
from gsdm_pyg.returned import Method, check_scores
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import SamplerSettings
from gsdm_pyg.simulate import simulate_one


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C between batches: `result` has the instances that are finished."""

    def __init__(self, result: Evaluation) -> None:
        super().__init__()
        self.result = result


@dataclass(frozen=True)
class Evaluation:
    """Metrics summed up over instances, and the samples that they score."""

    problem: Problem
    metrics: dict[str, float]
    samples: list[dict[str, Tensor]]
    truths: list[dict[str, Tensor]]
    observed: list[dict[str, Tensor]]  # boolean, what each sample was given
    scores: list[dict[str, float]]  # the metrics of each instance

    def figures(self, count: int) -> list[Figure]:
        """Pictures of the first `count` answers."""
        answers = zip(self.samples, self.truths, self.observed, strict=True)
        return [plot_of(self.problem, *answer) for answer in islice(answers, count)]

    def save_pictures(self, count: int, folder: Path, tag: str) -> None:
        """Draw the first `count` answers as `folder`/bcmf-m8-n8-k4-<tag>-<i>.png."""
        sizes = [
            f"{name}{'-'.join(map(str, size)) if isinstance(size, tuple) else size}"
            for name, size in self.problem.sizes().items()
        ]
        stem = "-".join([type(self.problem).__name__.lower(), *sizes, tag])
        for i, figure in enumerate(self.figures(count)):
            with atomic_writer(folder / f"{stem}-{i}.png") as file:
                figure.savefig(file, dpi=120)


Answer = Callable[[Problem, Arrays, Arrays], dict[str, Tensor]]
"""Maps a problem, values and which of them are observed, [B, *shape], to samples."""


def evaluate(
    diffusion: GraphModel,
    problem: Problem,
    num_instances: int,
    sampler: SamplerSettings,
    seed: int = 0,
    max_nodes: int = MAX_NODES,
    draw: int = 0,
) -> Evaluation:
    """Sample one answer for each of `num_instances` fresh instances and score it.

    Args:
        diffusion: The model to evaluate.
        problem: The problem, of any size.
        num_instances: Instances to average over.
        sampler: How to draw.
        seed: Chooses instances and noise.
        max_nodes: Bound on the nodes of one batch.
        draw: Which of several answers to the same instances to draw, from 0.
    """
    settings = diffusion.settings
    diffusion.spec.graph(problem, settings.graph)  # raises if the problem does not fit
    another = (draw,) if draw else ()

    def generator(i: int) -> torch.Generator:
        return keyed_generator("answer", seed, i, *another)

    def answer(problem: Problem, values: Arrays, known: Arrays) -> dict[str, Tensor]:
        instances = encode(problem, values, known, settings.graph)
        return sample_posterior(diffusion, instances, sampler, generator, max_nodes)

    return evaluate_answers(answer, problem, num_instances, seed, settings.observe)


def evaluate_answers(
    answer: Answer,
    problem: Problem,
    num_instances: int,
    seed: int = 0,
    observe: Observe = "roles",
) -> Evaluation:
    """Score the answers of any method, all of them on the same fresh instances.

    Args:
        answer: Draws an answer for each of B instances: an array [B, *shape] per
            variable. It gets the true values, and which entries of them are observed.
        problem: The problem, of any size.
        num_instances: Instances to average over.
        seed: Chooses the instances.
        observe: What is given, see `Problem.observe`.
    """
    truths, observed, _ = _draw(problem, num_instances, seed, observe)
    interrupted = False
    try:
        drawn = answer(problem, _stack(truths), _stack(observed))
    except SamplingInterrupted as stopped:
        drawn, interrupted = stopped.samples, True
    num = len(next(iter(drawn.values())))
    samples = [{name: values[i] for name, values in drawn.items()} for i in range(num)]
    truths, observed = truths[:num], observed[:num]
    scores = _scores(problem, samples, truths, observed)
    metrics = problem.summary(scores)
    result = Evaluation(problem, metrics, samples, truths, observed, scores)
    if interrupted:
        raise EvaluationInterrupted(result)
    return result


def prior_metrics(
    problem: Problem,
    num_instances: int = 64,
    seed: int = 0,
    observe: Observe = "roles",
) -> dict[str, float]:
    """Metrics of draws from the prior that keep what is given, and ignore it.

    They answer the instances of `evaluate`.
    """
    truths, observed, generator = _draw(problem, num_instances, seed, observe)
    samples = [
        {
            name: torch.where(observed[i][name].bool(), truth[name].to(value), value)
            for name, value in simulate_one(problem, generator).items()
        }
        for i, truth in enumerate(truths)
    ]
    return problem.summary(_scores(problem, samples, truths, observed))


def label(problem: Problem) -> str:
    """A short name such as BCMF(m=8,n=8,k=4)."""
    sizes = ",".join(f"{name}={size}" for name, size in problem.sizes().items())
    return f"{type(problem).__name__}({sizes})"


def as_json(metrics: dict[str, float]) -> dict[str, float | None]:
    """Metrics as JSON knows them: null instead of NaN."""
    return {name: None if math.isnan(v) else v for name, v in metrics.items()}


def _draw(
    problem: Problem, num_instances: int, seed: int, observe: Observe
) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]], torch.Generator]:
    """Instances, what is given of each, and the generator of further randomness."""
    if num_instances < 1:
        raise ValueError(f"num_instances must be at least 1 (got {num_instances}).")
    generator = keyed_generator("evaluation", seed)
    truths = [simulate_one(problem, generator) for _ in range(num_instances)]
    observed = [problem.observe(generator, observe) for _ in truths]
    return truths, observed, generator


def _stack(instances: Sequence[Arrays]) -> dict[str, Tensor]:
    """Arrays of several instances [*shape] -> one array [B, *shape] per name."""
    return {
        name: torch.stack([torch.as_tensor(arrays[name]) for arrays in instances])
        for name in instances[0]
    }


def _scores(
    problem: Problem,
    samples: Sequence[Arrays],
    truths: Sequence[Arrays],
    observed: Sequence[Arrays],
) -> list[dict[str, float]]:
    """The problem's metrics of each instance."""
    answers = zip(samples, truths, observed, strict=True)
    scores = [metrics_of(problem, *answer) for answer in answers]
    return check_scores(Method("metrics", problem), scores)


def metrics_of(
    problem: Problem, sample: Arrays, truth: Arrays, observed: Arrays
) -> dict[str, float]:
    """The problem's metrics of one sample, given what `observed` marks of the truth."""
    scores: dict[str, float] = _with_observed(problem.metrics, sample, truth, observed)
    return scores


def plot_of(
    problem: Problem, sample: Arrays, truth: Arrays, observed: Arrays
) -> Figure:
    """The problem's picture of one sample."""
    figure: Figure = _with_observed(problem.plot, sample, truth, observed)
    return figure


def _with_observed(
    method: Callable[..., Any], sample: Arrays, truth: Arrays, observed: Arrays
) -> Any:
    """`metrics` or `plot` of a problem, with `observed` if it has such an argument."""
    extra = {"observed": observed} if "observed" in signature(method).parameters else {}
    return method(sample, truth, **extra)
