"""Forecast of a figure: the minutes of each of its jobs on this machine.

Minutes, limits and seconds of steps are those of the clock of the run: core-minutes
where it is the processor's, which is measured over all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsdm_pyg.config import Config
from gsdm_pyg.doctor.forecast import Forecast, forecast
from gsdm_pyg.paper.jobs import EvaluationJob, Job, TrainingJob
from gsdm_pyg.paper.samples import SamplesJob
from gsdm_pyg.paper.sweep import is_done
from gsdm_pyg.problem import Problem, graph_of

Estimate = Callable[..., Forecast]


@dataclass(frozen=True)
class Expected:
    """What a job is expected to take: minutes, steps of training; None if unknown."""

    key: str
    name: str
    minutes: float | None
    steps: float | None = None
    clock: str = "wall"  # of the minutes


def hours_in_lanes(expected: Iterable[Expected], lanes: int, cores: int) -> float:
    """The hours until all is done: core-minutes are shared by the cores in use."""
    workers = {"wall": lanes, "processor": cores}
    return sum((one.minutes or 0.0) / workers[one.clock] for one in expected) / 60


def expect(
    jobs: Sequence[Job], runs: Path, estimate: Estimate = forecast
) -> list[Expected]:
    """Forecast each job that is not done; runs that figures share count once.

    Args:
        jobs: The jobs of some figures.
        runs: The folder of their folders.
        estimate: Forecasts a training step.
    """
    left = {job.key: job for job in reversed(jobs) if not is_done(job, runs)}
    seconds = _Seconds(estimate)
    found = []
    for job in reversed(left.values()):
        if isinstance(job, TrainingJob):
            found.append(_training(job, seconds))
        elif isinstance(job, EvaluationJob | SamplesJob):
            config, samples = job.place.config, getattr(job, "num_samples", 1)
            count = config.evaluation.final_instances * samples
            evaluating = seconds.sampling(config, job.problem, count)
            clock = config.trainer.clock
            found.append(Expected(job.key, job.name, evaluating / 60, clock=clock))
        else:
            found.append(Expected(job.key, job.name, None))
    return found


def _training(job: TrainingJob, seconds: _Seconds) -> Expected:
    """The budget of the run, or the time of its steps, and its final evaluation."""
    config = job.place.config
    step = seconds.step(config)
    limits: list[float] = []
    if config.trainer.max_time is not None:
        limits.append(seconds_of(config.trainer.max_time))
    problem = job.place.problem()
    if config.trainer.max_steps is not None:
        during = 0.0
        if config.evaluation.every is not None:
            times = config.trainer.max_steps / config.evaluation.every
            count = config.evaluation.num_instances
            during = times * seconds.sampling(config, problem, count)
        limits.append(config.trainer.max_steps * step + during)
    training = min(limits)
    after = seconds.sampling(config, problem, config.evaluation.final_instances)
    steps = min(training / step, config.trainer.max_steps or float("inf"))
    minutes = (training + after) / 60
    return Expected(job.key, job.name, minutes, steps, config.trainer.clock)


def seconds_of(duration: str) -> int:
    """The seconds of a text DD:HH:MM:SS."""
    days, hours, minutes, seconds = map(int, duration.split(":"))
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


class _Seconds:
    """Seconds of steps and of samples, with one forecast per setting."""

    def __init__(self, estimate: Estimate) -> None:
        self._estimate = estimate
        self._known: dict[str, Forecast] = {}

    def step(self, config: Config) -> float:
        """One step of training, with its data."""
        expected = self._forecast(config)
        return expected.step_seconds + expected.data_seconds

    def sampling(self, config: Config, problem: Problem, count: int) -> float:
        """Samples of so many instances: a third of a step per evaluation and work."""
        expected = self._forecast(config)
        graph, model = graph_of(problem, config.model.graph), config.model
        nodes = graph.num_nodes
        edges = graph.edge_index(model.edges).size(1)
        work = 12.0 * model.width**2 * nodes + 4.0 * model.width * edges
        share = count * work * model.layers / expected.operations
        return share * expected.step_seconds * config.evaluation.evaluations

    def _forecast(self, config: Config) -> Forecast:
        clock = config.trainer.clock
        parts = config.model_dump_json(
            include={"problem", "model", "data", "optimizer"}
        )
        parts = f"{clock} {parts}"
        if parts not in self._known:
            source = config.problem.source()
            settings = config.model, config.data, config.optimizer
            now = time.process_time if clock == "processor" else time.perf_counter
            self._known[parts] = self._estimate(source, *settings, clock=now)
        return self._known[parts]
