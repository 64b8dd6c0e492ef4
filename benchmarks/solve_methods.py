"""How `python -m benchmarks.solve` answers: by a model, or without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.solve_baselines import (
    Attempt,
    alternation_attempt,
    factorize,
    nmf_attempt,
    propagate,
)
from benchmarks.solve_checks import EXACT
from benchmarks.solve_tasks import Equation, Given, Instance, Task
from gsdm_pyg import GSDM
from gsdm_pyg.seeding import keyed_generator

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a method without a model found; it claims nothing."""

    solution: Given
    evaluations: int = 0
    verified: bool = False
    distinct: int = 0
    solutions: Given = field(default_factory=dict)
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run:
    """What a method may use.

    Args:
        folder: The trained model.
        solve: Keywords of `GSDM.solve`, such as its budget.
        seed: Source of randomness.
        seconds: What the model took per instance, of all cores; 0 before it has run.
    """

    folder: str | Path
    solve: Options
    seed: int
    seconds: float


Solve = Callable[[Sequence[Instance]], Sequence[Any]]  # one answer per instance
Method = Callable[[Task, Run], Solve]


def model(task: Task, run: Run) -> Solve:
    """The trained model."""
    return _solve(GSDM.from_pretrained(run.folder), task, run)


def uniform(task: Task, run: Run) -> Solve:
    """A network by which all classes are equally likely: what the rest achieves."""
    model = GSDM.from_pretrained(run.folder)
    for parameter in model.diffusion.denoiser.output.parameters():
        torch.nn.init.zeros_(parameter)
    return _solve(model, task, run)


def propagation(task: Task, run: Run) -> Solve:
    """What the constraints of a Sudoku imply, see `propagate`."""
    return lambda instances: [
        Answer({"cells": propagate(instance.given["cells"])}) for instance in instances
    ]


def nmf(task: Task, run: Run) -> Solve:
    """Non-negative factorization, threshold, bounded least squares, and restarts."""
    return _factorize(nmf_attempt, task, run)


def alternation(task: Task, run: Run) -> Solve:
    """The best A given R and the best R given A in turns, and restarts."""
    return _factorize(alternation_attempt, task, run)


def polish(task: Equation, run: Run) -> Solve:
    """`Problem.polish` of draws from the prior, and restarts: solving without a model.

    All instances that are left are polished together, as the model's tries are, and may
    take as long as the model took in all. `Answer.evaluations` is the number of draws.
    """

    def solve(instances: Sequence[Instance]) -> list[Answer]:
        end = time.process_time() + run.seconds * len(instances)
        answers = [Answer({}) for _ in instances]
        errors = [np.inf] * len(instances)
        left = list(range(len(instances)))
        while left and (not answers[0].solution or time.process_time() < end):
            draw = answers[left[0]].evaluations  # draws of all that are left so far
            sources = [keyed_generator("polish", run.seed, i, draw) for i in left]
            found = _polished(task, [instances[i].given for i in left], sources)
            for i, solution in zip(left, found, strict=True):
                best, num = answers[i].solution, answers[i].evaluations + 1
                error = task.error(instances[i].given, solution)
                if error < errors[i] or not best:
                    best, errors[i] = solution, error
                answers[i] = Answer(best, num)
            left = [i for i in left if errors[i] >= EXACT]
        return answers

    return solve


def _polished(
    task: Equation, given: Sequence[Given], generators: Sequence[torch.Generator]
) -> list[Given]:
    """A draw from the prior for each instance, polished given what is known of it."""
    draws = [task.problem.sample_batch(1, generator) for generator in generators]
    drawn = {name: torch.cat([draw[name] for draw in draws]) for name in draws[0]}
    known = {name: torch.zeros_like(x, dtype=torch.bool) for name, x in drawn.items()}
    for name in given[0]:
        values = np.stack([instance[name] for instance in given])
        drawn[name] = torch.as_tensor(values).to(drawn[name])
        known[name] = torch.ones_like(known[name])
    polished = {**drawn, **task.problem.polish(drawn, known)}
    return [{n: x[i].numpy() for n, x in polished.items()} for i in range(len(given))]


METHODS: dict[str, Method] = {
    method.__name__: method
    for method in (model, uniform, propagation, nmf, alternation, polish)
}


def timed(
    name: str, task: Task, instances: Sequence[Instance], run: Run
) -> tuple[Sequence[Any], dict[str, float]]:
    """Answers by a method, one per instance; its seconds, and those of all cores.

    Loading and compiling do not count.
    """
    solve = METHODS[name](task, run)
    start, start_cores = time.perf_counter(), time.process_time()
    answers = solve(instances)
    spent = time.perf_counter() - start, time.process_time() - start_cores
    return answers, dict(zip(("seconds", "core_seconds"), spent, strict=True))


def _solve(model: GSDM, task: Task, run: Run) -> Solve:
    model.sample(task.problem, steps=1, restarts=0, generator=run.seed)  # compiles

    def solve(instances: Sequence[Instance]) -> Sequence[Any]:
        given = {
            name: np.stack([instance.given[name] for instance in instances])
            for name in instances[0].given
        }
        draws = task.draws
        return model.solve(
            task.problem, given, num_solutions=draws, generator=run.seed, **run.solve
        )

    return solve


def _factorize(attempt: Attempt, task: Task, run: Run) -> Solve:
    """`Answer.evaluations` is the number of attempts."""
    k = task.problem.k
    factorize(attempt, np.ones((2, 2)), k, 0.0, run.seed)  # compiles

    def solve(instances: Sequence[Instance]) -> list[Answer]:
        answers = []
        for i, instance in enumerate(instances):
            E = instance.given["E"]
            A, R, num = factorize(attempt, E, k, run.seconds, run.seed + i)
            answers.append(Answer({"A": A, "R": R}, num))
        return answers

    return solve
