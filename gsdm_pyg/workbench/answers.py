"""One question to the model: what is given, how many samples -> a stream of frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveInt

from gsdm_pyg.data import check_given, structure
from gsdm_pyg.model import GSDM
from gsdm_pyg.settings_base import Settings
from gsdm_pyg.workbench.frames import Frames, shown_variables
from gsdm_pyg.workbench.jobs import Job
from gsdm_pyg.workbench.subject import Subject
from gsdm_pyg.workbench.values import BadRequest, read_given

Given = dict[str, np.ndarray[Any, Any]]  # NaN where unknown


@dataclass(frozen=True)
class Limits:
    """How much work the workbench takes on."""

    samples: int = 16  # of one request
    nodes: int = 100_000  # of all samples of one request
    edges: int = 10_000_000  # likewise
    evaluations: int = 5_000  # of the network, to solve one instance
    waiting: int = 32  # requests that may wait while another one runs


class Question(Settings):
    """What the page asks for."""

    given: dict[str, Any] = Field(default_factory=dict)  # `read_given` checks them
    """All entries of a variable by name, null where unknown."""
    num_samples: PositiveInt = 1
    """How many samples to draw."""
    seed: NonNegativeInt = 0
    """Chooses the samples."""
    steps: PositiveInt | None = None
    """Steps of the sampler; by default the model's own."""
    solve: bool = False
    """Whether to try until each answer satisfies all constraints."""

    @property
    def sampler(self) -> dict[str, int]:
        """The settings of the sampler that are not the model's own."""
        return {} if self.steps is None else {"steps": self.steps}


def answer(
    subject: Subject, asked: Mapping[str, Any], limits: Limits
) -> Callable[[Job], None]:
    """The work of a job that answers; raises what is wrong with the question."""
    question, model = Question.parse(asked), subject.model
    if model is None:
        raise BadRequest("There is no trained model yet: wait until training is done.")
    _check_size(subject, question, limits)
    given = read_given(subject.graph, question.given)
    values, known = check_given(subject.graph, given, subject.settings.graph)
    with subject.turns.turn():
        subject.problem.check_given(values, known)
    names = [name for name in subject.shown if not known[name].all()]
    names = shown_variables(subject.graph, names, question.num_samples)
    sampler = model.sampler.updated(question.sampler)
    total = sampler.within(model.settings.num_timesteps).evaluations
    if not question.solve:
        return partial(_sample, subject, model, question, given, names, total)
    if not subject.has_rules:
        raise BadRequest(
            f"{type(subject.problem).__name__} does not say what a solution is: sample "
            "it, or define violations(self, samples) of the problem (got neither)."
        )
    return partial(_solve, subject, model, question, given, names, limits.evaluations)


def _check_size(subject: Subject, question: Question, limits: Limits) -> None:
    """Refuse more work than the workbench takes on."""
    count, nodes = question.num_samples, subject.graph.num_nodes
    edges = structure(subject.problem, subject.settings.graph).edge_index.size(1)
    most = min(limits.samples, limits.nodes // nodes, limits.edges // max(edges, 1))
    if count > max(most, 1):
        raise BadRequest(
            f"The workbench draws at most {max(most, 1)} samples at once of this size, "
            f"{nodes:,} nodes (got {count}); model.sample() has no such limit."
        )
    if question.seed >= 2**62:
        raise BadRequest(f"A seed is less than 2**62 (got {question.seed}).")


def _sample(
    subject: Subject,
    model: GSDM,
    question: Question,
    given: Given,
    names: Sequence[str],
    total: int,
    job: Job,
) -> None:
    """Draw samples, and show each estimate."""
    count = question.num_samples
    frames = Frames(job, subject, names, count, total)
    with subject.turns.turn():
        samples = model.sample(
            subject.problem,
            given,
            count,
            generator=question.seed,
            max_nodes=count * subject.graph.num_nodes,
            on_estimate=frames.show,
            **question.sampler,
        )
        frames.finish(samples)


def _solve(
    subject: Subject,
    model: GSDM,
    question: Question,
    given: Given,
    names: Sequence[str],
    most_evaluations: int,
    job: Job,
) -> None:
    """Solve the instance once per sample, and show each estimate."""
    count, first = question.num_samples, subject.graph.variables[subject.names[0]]
    frames = Frames(job, subject, names, count, None)
    # Repeated, so that estimates say which of the answers they are of. There is at
    # least one array, since arrays say how many instances there are.
    arrays = {first.name: np.full(first.shape, np.nan), **given}
    settings: dict[str, Any] = question.sampler
    with subject.turns.turn():
        solutions = model.solve(
            subject.problem,
            {name: np.stack([array] * count) for name, array in arrays.items()},
            generator=question.seed,
            max_nodes=count * subject.graph.num_nodes,
            on_estimate=frames.show,
            max_evaluations=most_evaluations,
            **settings,
        )
        assert isinstance(solutions, list)
        answers = [solution.solution for solution in solutions]
        found = {name: torch.stack([a[name] for a in answers]) for name in answers[0]}
        frames.finish(found, certain=True)
