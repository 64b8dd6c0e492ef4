"""Quality against evaluations: every solver on fresh instances, and which to use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import mean
from typing import TypeVar, get_args

import torch
from torch import Tensor
from tqdm import tqdm

from gsdm_pyg.choices import Solver, Spacing
from gsdm_pyg.diffusion.solvers import is_stochastic
from gsdm_pyg.energy import ENERGY_SCORE, EnergyScore
from gsdm_pyg.evaluation import (
    Evaluation,
    EvaluationInterrupted,
    evaluate,
    prior_metrics,
)
from gsdm_pyg.model import GSDM
from gsdm_pyg.problem import Problem, default_metrics
from gsdm_pyg.seeding import as_seed, keyed_generator
from gsdm_pyg.settings import SamplerSettings

EVALUATIONS = (5, 10, 20, 50, 100)  # by default
_RESAMPLES = 200  # of the bootstrap

_Number = TypeVar("_Number", float, Tensor)
Scores = Sequence[Mapping[str, float]]  # the metrics of each instance


@dataclass(frozen=True)
class Row:
    """One setting of the sampler, and what it reaches.

    `behind` is the distance to the best value less that of the best setting, and
    `behind_error` the standard error of this difference.
    """

    sampler: SamplerSettings
    value: float
    error: float
    behind: float
    behind_error: float


@dataclass(frozen=True)
class Report:
    """Settings of the sampler on the same instances with the same noise.

    Standard errors are those of a bootstrap over the instances, which all settings
    share: a difference between two settings is paired.

    Args:
        problem: What was solved, at one size.
        metric: The metric to compare by, as `choose_metric` names it.
        scores: The metrics of each instance, by setting.
    """

    problem: Problem
    metric: str
    scores: Mapping[SamplerSettings, Scores]

    @property
    def best_value(self) -> float:
        """What the metric would ideally be."""
        return self.problem.best_values.get(self.metric, 0.0)

    @cached_property
    def rows(self) -> list[Row]:
        """All settings, in the order of `scores`."""
        num = len(next(iter(self.scores.values())))
        generator = keyed_generator("bootstrap", num)
        resamples = torch.randint(num, (_RESAMPLES, num), generator=generator).tolist()
        values, drawn = {}, {}
        for sampler, scores in self.scores.items():
            values[sampler] = self._value(scores)
            resampled = [self._value([scores[i] for i in rows]) for rows in resamples]
            drawn[sampler] = torch.tensor(resampled, dtype=torch.double)
        far = {s: _distance(value, self.best_value) for s, value in values.items()}
        measured = [sampler for sampler in far if not math.isnan(far[sampler])]
        if not measured:
            raise ValueError(
                f"{self.metric} is not defined on any of the {num} instances: choose "
                "another metric, or more instances (got NaN for every setting)."
            )
        best = min(measured, key=lambda sampler: far[sampler])
        best_drawn = _distance(drawn[best], self.best_value)
        return [
            Row(
                sampler,
                value,
                _deviation(drawn[sampler]),
                far[sampler] - far[best],
                _deviation(_distance(drawn[sampler], self.best_value) - best_drawn),
            )
            for sampler, value in values.items()
        ]

    @property
    def best(self) -> Row:
        """The setting that comes closest to the best value."""
        return min((r for r in self.rows if r.behind == 0), key=_cost)

    @property
    def chosen(self) -> Row:
        """The cheapest setting within one standard error of the best one.

        It must stay so close with more evaluations too: fewer may come near by chance,
        as where the spread of samples passes the right one on its way.
        """
        near = [row for row in self.rows if row.behind <= row.behind_error]
        far = [row for row in self.rows if row not in near]
        settled = [
            row
            for row in near
            if not any(_same_method(row, o) and _cost(o) > _cost(row) for o in far)
        ]
        return min([*settled, self.best], key=_cost)

    def _value(self, scores: Scores) -> float:
        if self.metric == ENERGY_SCORE:
            return mean(score[ENERGY_SCORE] for score in scores)
        return self.problem.summary(scores)[self.metric]


def _same_method(row: Row, other: Row) -> bool:
    """Whether two settings differ in the number of steps alone."""
    steps = {"steps": row.sampler.steps}
    return other.sampler.updated(steps) == row.sampler


def candidates(
    own: SamplerSettings, num_timesteps: int, evaluations: Iterable[int] | None = None
) -> list[SamplerSettings]:
    """The settings to compare: every solver, spacing and number of evaluations.

    The model's own setting is one of them. If it has restarts, stochastic solvers are
    also tried with as many, in as many steps as the evaluations allow.

    Args:
        own: The sampler of the model.
        num_timesteps: T, the steps of the diffusion.
        evaluations: How many to allow; by default `EVALUATIONS` up to T.
    """
    if evaluations is None:
        evaluations = [e for e in EVALUATIONS if e <= num_timesteps] or [num_timesteps]
    counts = list(evaluations)
    for count in counts:
        if not 1 <= count <= num_timesteps:
            raise ValueError(
                f"Evaluations must be between 1 and num_timesteps, {num_timesteps} "
                f"(got {count})."
            )
    found = []
    for solver in get_args(Solver):
        for spacing in get_args(Spacing):
            repeats = {0, own.restarts} if is_stochastic(solver) else {0}
            for restarts in sorted(repeats):
                for count in counts:
                    setting = {"solver": solver, "spacing": spacing}
                    steps = _steps(count, restarts)
                    if steps is not None:
                        setting |= {"steps": steps, "restarts": restarts}
                        found.append(SamplerSettings.parse(setting))
    return list(dict.fromkeys([*found, SamplerSettings(**own.model_dump())]))


def measure(
    model: GSDM,
    problem: Problem,
    samplers: Iterable[SamplerSettings],
    num_instances: int = 64,
    *,
    seed: int = 0,
    finished: Mapping[SamplerSettings, Scores] | None = None,
    keep: Callable[[Mapping[SamplerSettings, Scores]], None] | None = None,
) -> dict[SamplerSettings, Scores]:
    """The metrics of each instance, by setting.

    All settings see the same instances and start from the same noise. No seed gives
    the instances of `GSDM.evaluate`: figures to publish come from others than those
    that a setting was chosen on. Where `has_energy_score`, two answers are drawn of
    each instance, and that score is among the metrics.

    Args:
        model: The model to examine.
        problem: The problem, of any size that the model knows.
        samplers: The settings, such as `candidates`.
        num_instances: Instances to average over.
        seed: Chooses instances and noise.
        finished: What was measured before, and is not measured again.
        keep: Is called with all that is finished after every setting.
    """
    own_seed = as_seed(keyed_generator("report", seed))
    energy_score = EnergyScore(problem) if has_energy_score(problem) else None
    settings, known = list(samplers), dict(finished or {})
    scores = {sampler: known[sampler] for sampler in settings if sampler in known}
    left = [sampler for sampler in settings if sampler not in known]
    total = sum(sampler.evaluations for sampler in settings)
    done = total - sum(sampler.evaluations for sampler in left)
    with tqdm(total=total, initial=done, desc="report", disable=None) as bar:
        for sampler in left:
            what = (model.diffusion, problem, num_instances, sampler, own_seed)
            try:
                scores[sampler] = _scores(energy_score, partial(evaluate, *what))
            except EvaluationInterrupted:
                raise KeyboardInterrupt from None  # of whole settings alone
            if keep is not None:
                keep(scores)
            bar.update(sampler.evaluations)
    return {sampler: scores[sampler] for sampler in settings}


def choose_metric(problem: Problem, name: str | None = None) -> str:
    """A metric of a problem; by default the first that has a best value.

    Where no metric has one, the first that the problem defines itself. Where it defines
    none, the energy score: the errors that every problem has by default are those of a
    single answer, which are lowest for an answer in the middle of the posterior.

    Args:
        problem: The problem.
        name: The metric that is wanted.
    """
    known = list(prior_metrics(problem, 2))
    rated = [metric for metric in problem.best_values if metric in known]
    own = [metric for metric in known if metric not in default_metrics(problem)]
    if not rated and not own:
        known.append(ENERGY_SCORE)
    if name is None:
        return [*rated, *own, ENERGY_SCORE][0]
    if name not in known:
        raise ValueError(
            f"The metrics of {type(problem).__name__} are {', '.join(known)} "
            f"(got {name!r})."
        )
    return name


def has_energy_score(problem: Problem) -> bool:
    """Whether settings of this problem are compared by `gsdm_pyg.energy`."""
    return choose_metric(problem) == ENERGY_SCORE


def _scores(
    energy_score: EnergyScore | None, answers: Callable[..., Evaluation]
) -> list[dict[str, float]]:
    """The metrics of each instance, with the energy score of two answers if wanted."""
    first = answers()
    if energy_score is None:
        return first.scores
    second = answers(draw=1)
    pairs = zip(first.samples, second.samples, strict=True)
    truths = zip(first.truths, first.observed, strict=True)
    return [
        {**score, ENERGY_SCORE: energy_score(pair, truth, observed)}
        for score, pair, (truth, observed) in zip(
            first.scores, pairs, truths, strict=True
        )
    ]


def _steps(evaluations: int, restarts: int) -> int | None:
    """The most steps that so many evaluations allow; restarts need at least two."""
    for steps in range(evaluations, 1 if restarts else 0, -1):
        if SamplerSettings(steps=steps, restarts=restarts).evaluations <= evaluations:
            return steps
    return None


def _distance(value: _Number, best: float) -> _Number:
    """How far a metric is from its best value; without an end, how far back it is."""
    if math.isinf(best):
        return -value if best > 0 else value
    return abs(value - best)


def _deviation(values: Tensor) -> float:
    """The standard deviation of the values that are not NaN, if there are two."""
    values = values[~values.isnan()]
    return values.std().item() if len(values) > 1 else math.nan


def _cost(row: Row) -> tuple[int, float]:
    """What to prefer: fewer evaluations, and the better of equally many."""
    return row.sampler.evaluations, row.behind
