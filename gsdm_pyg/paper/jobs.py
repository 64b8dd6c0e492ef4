"""Jobs: what a figure needs, each with a folder of its own and a result as JSON."""

from __future__ import annotations

import csv
import json
import math
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from gsdm_pyg.baselines import create
from gsdm_pyg.clock import clock_name, clock_of
from gsdm_pyg.evaluation import label
from gsdm_pyg.experiment import Experiment
from gsdm_pyg.model import GSDM
from gsdm_pyg.paper.runs import Run, content_key
from gsdm_pyg.problem import Problem
from gsdm_pyg.run_folder import new_run, resumed_run
from gsdm_pyg.training.run import CHECKPOINT

Result = dict[str, Any]  # of a job, as JSON has it
RESULT = "result.json"  # in the folder of a job that is done


class Stopped(BaseException):
    """A signal stopped a job, which goes on from its last checkpoint next time."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.signal = number


class Job(Protocol):
    """A piece of a figure."""

    @property
    def name(self) -> str:
        """What it is, for messages."""

    @property
    def key(self) -> str:
        """The name of its folder; jobs with one key have one result."""

    @property
    def labels(self) -> dict[str, Any]:
        """Its place in the figure: panel, point, row, seed, and more."""

    @property
    def place(self) -> Run:
        """The run that it belongs to."""

    @property
    def scored(self) -> Problem | None:
        """The problem whose answers it scores by the metrics of the problem, if any."""

    def ready(self, runs: Path) -> bool:
        """Whether what it needs is there, among the folders of all jobs."""

    def run(self, runs: Path) -> Result:
        """Do it. Called with its folder locked, also after an earlier try failed."""


@dataclass(frozen=True)
class JobOfRun:
    """What a job of one run is, as far as the job does not say otherwise."""

    place: Run

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def key(self) -> str:
        return self.place.key

    @property
    def labels(self) -> dict[str, Any]:
        return self.place.labels

    @property
    def scored(self) -> Problem | None:
        return self.place.problem()

    def ready(self, runs: Path) -> bool:
        return True


class TrainingJob(JobOfRun):
    """Train and evaluate one run."""

    def run(self, runs: Path) -> Result:
        """Train, or go on from the last checkpoint of a run that was killed."""
        config, folder = self.place.config, runs / self.key
        resume = (folder / CHECKPOINT).is_file()
        if not resume:  # it was killed before its first checkpoint
            shutil.rmtree(folder, ignore_errors=True)
        (resumed_run if resume else new_run)(config, self.key, folder)
        experiment = Experiment(config)
        stopped = experiment.run(folder, resume)
        if stopped is not None:
            raise Stopped(stopped)
        problem = experiment.training.problems[0]
        clock = clock_name(next(experiment.model.parameters()).device)
        return {
            "steps": experiment.steps,
            "minutes": experiment.minutes,
            "clock": config.trainer.clock if clock == "processor" else clock,
            "sampling_seconds": experiment.sampling_seconds,
            "parameters": sum(p.numel() for p in experiment.model.parameters()),
            "scores": by_metric(experiment.evaluations[0].scores),
            "curve": read_curve(folder, label(problem)),
        }


@dataclass(frozen=True)
class EvaluationJob:
    """Evaluate the model of a run, or one that is trained already, at one size."""

    place: Run
    problem: Problem
    panel: str
    point: str

    @property
    def name(self) -> str:
        return f"{self.place.row}; {self.panel}; {self.point}"

    @property
    def key(self) -> str:
        sizes = self.problem.sizes()
        return content_key("evaluation", [self.place.key, label(self.problem), sizes])

    @property
    def labels(self) -> dict[str, Any]:
        place = {"panel": self.panel, "point": self.point}
        return {**self.place.labels, **place, "sizes": self.problem.sizes()}

    @property
    def scored(self) -> Problem | None:
        return self.problem

    def ready(self, runs: Path) -> bool:
        return is_trained(self.place, runs)

    def run(self, runs: Path) -> Result:
        config = self.place.config
        model = load_model(self.place, runs)
        chosen = config.evaluation.sampler.model_dump(exclude_unset=True)
        device = next(model.parameters()).device
        clock = clock_of(device)
        start = clock()
        with PeakMemory(device) as memory:
            result = model.evaluate(
                self.problem,
                config.evaluation.final_instances,
                seed=config.seed,
                **chosen,
            )
        return {
            "clock": clock_name(device),
            "sampling_seconds": clock() - start,
            "scores": {**by_metric(result.scores), "peak_gib": [memory.gib]},
        }


class BaselineJob(JobOfRun):
    """Evaluate a method without training on the instances of a run."""

    def run(self, runs: Path) -> Result:
        assert self.place.baseline is not None
        config, (name, settings) = self.place.config, self.place.baseline
        problem = self.place.problem()
        start = time.process_time()
        result = create(name, **json.loads(settings)).evaluate(
            problem,
            config.evaluation.final_instances,
            seed=config.seed,
            observe=config.model.observe,
        )
        minutes = (time.process_time() - start) / 60
        return {
            "minutes": minutes,
            "clock": "processor",
            "scores": by_metric(result.scores),
        }


def model_folder(place: Run, runs: Path) -> Path:
    """Where the model of a run is, or will be."""
    if place.pretrained is not None:
        return Path(place.pretrained)
    return runs / place.key / "model"


def is_trained(place: Run, runs: Path) -> bool:
    """Whether the model of a run is there, and whole."""
    return place.pretrained is not None or (runs / place.key / RESULT).is_file()


def load_model(place: Run, runs: Path) -> GSDM:
    """The model of a run, on the device that its config asks for."""
    wanted = place.config.trainer.accelerator in ("auto", "gpu", "cuda")
    device = "cuda" if wanted and torch.cuda.is_available() else "cpu"
    return GSDM.from_pretrained(model_folder(place, runs), map_location=device)


def by_metric(scores: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    """Scores of instances as one list per metric: six digits, null instead of NaN."""
    return {
        name: [
            None if math.isnan(score[name]) else float(f"{score[name]:.6g}")
            for score in scores
        ]
        for name in scores[0]
    }


def read_curve(folder: Path, problem: str) -> dict[str, list[float]]:
    """The metrics of a problem during training, by steps and minutes.

    A run that was resumed has a log per start. Where they overlap, the later one
    counts, as its steps are those that led to the model.
    """
    rows: dict[int, dict[str, float]] = {}
    files = (folder / "csv").glob("version_*/metrics.csv")
    for file in sorted(files, key=lambda f: int(f.parent.name.partition("_")[2])):
        with open(file, newline="") as lines:
            found = [row for row in csv.DictReader(lines) if row.get("minutes")]
        if found:
            first = int(found[0]["step"])
            rows = {step: row for step, row in rows.items() if step < first}
        for row in found:
            values = {"minutes": float(row["minutes"])}
            for name, text in row.items():
                prefix, _, metric = name.partition("/")
                if prefix == problem and text:
                    values[metric] = float(text)
            rows[int(row["step"])] = values
    names = dict.fromkeys(name for row in rows.values() for name in row)
    curve = {n: [row.get(n, math.nan) for row in rows.values()] for n in names}
    return {"steps": [step + 1 for step in rows], **curve} if rows else {}


class PeakMemory:
    """The most memory in use in a block, in GiB: of a GPU, or of this process.

    None for processes of systems other than Linux.
    """

    def __init__(self, device: torch.device) -> None:
        self.gib: float | None = None
        self._device = device

    def __enter__(self) -> PeakMemory:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return self
        try:
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            self._known = True
        except OSError:
            self._known = False
        return self

    def __exit__(self, *details: object) -> None:
        if self._device.type == "cuda":
            self.gib = torch.cuda.max_memory_allocated(self._device) / 2**30
        elif self._known:
            status = Path("/proc/self/status").read_text()
            (line,) = (text for text in status.splitlines() if "VmHWM" in text)
            self.gib = int(line.split()[1]) / 2**20
