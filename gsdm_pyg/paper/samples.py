"""Figures of samples (appendices J, K and N): several answers to one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.clock import clock_name, clock_of
from gsdm_pyg.evaluation import metrics_of, plot_of
from gsdm_pyg.paper.data import Data, Record
from gsdm_pyg.paper.figure_file import FigureFile
from gsdm_pyg.paper.jobs import (
    Job,
    Result,
    TrainingJob,
    by_metric,
    is_trained,
    load_model,
)
from gsdm_pyg.paper.runs import Run, content_key
from gsdm_pyg.problem import Problem
from gsdm_pyg.registry import resolve_problem
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.simulate import simulate

_SHOWN = 2  # samples of each instance, in the picture
_DRAWN = 3  # instances in the picture


def samples_jobs(figure: FigureFile, runs: Sequence[Run]) -> list[Job]:
    """Train each model that is not there, and draw samples from it."""
    jobs: list[Job] = [TrainingJob(run) for run in runs if run.pretrained is None]
    for run in runs:
        count = figure.panels[run.panel].samples
        jobs.append(SamplesJob(run, run.problem(), count))
    return jobs


@dataclass(frozen=True)
class SamplesJob:
    """Several samples of each of some instances, scored one by one.

    Something must be given of the problem.
    """

    place: Run
    problem: Problem
    num_samples: int

    @property
    def name(self) -> str:
        return f"{self.place.name}; {self.problem}"

    @property
    def key(self) -> str:
        asked = [self.place.key, str(self.problem), self.num_samples]
        return content_key("samples", asked)

    @property
    def labels(self) -> dict[str, Any]:
        return {**self.place.labels, "sizes": self.problem.sizes()}

    @property
    def scored(self) -> Problem | None:
        return self.problem

    def ready(self, runs: Path) -> bool:
        return is_trained(self.place, runs)

    def run(self, runs: Path) -> Result:
        """Scores: of each instance the mean over its samples.

        `repeated` is the share of samples that are invalid or repeat another one, where
        the problem can tell.
        """
        config, problem = self.place.config, self.problem
        model = load_model(self.place, runs)
        chosen = config.evaluation.sampler.model_dump(exclude_unset=True)
        generator = keyed_generator("samples", config.seed)
        count = config.evaluation.final_instances
        truths = simulate(problem, count, generator)
        known = problem.observe_batch(count, generator, model.settings.observe)
        given = {
            name: torch.where(known[name], truths[name].double(), torch.nan)
            for name in truths
            if known[name].any()
        }
        device = next(model.parameters()).device
        clock = clock_of(device)
        start = clock()
        drawn = model.sample(
            problem, given, self.num_samples, generator=generator, **chosen
        )
        seconds = clock() - start
        scores: list[dict[str, float]] = []
        examples: list[dict[str, Any]] = []
        for i in range(count):
            truth, asked = _at(truths, i), _at(known, i)
            samples = _at(drawn, i)
            each = [_at(samples, j) for j in range(self.num_samples)]
            scored = [metrics_of(problem, sample, truth, asked) for sample in each]
            score = problem.summary(scored)
            if hasattr(problem, "distinct"):
                distinct = problem.distinct(samples)
                score["repeated"] = 1 - distinct / self.num_samples
            scores.append(score)
            if len(examples) < _DRAWN:
                arrays = [_listed(sample) for sample in each[:_SHOWN]]
                examples.append(
                    {
                        "truth": _listed(truth),
                        "known": _listed(asked),
                        "samples": arrays,
                    }
                )
        return {
            "clock": clock_name(device),
            "sampling_seconds": seconds,
            "answers": count * self.num_samples,
            "scores": by_metric(scores),
            "examples": examples,
        }


def samples_figure(data: Data) -> Figure:
    """The problem's own pictures: a line per instance, a column per sample."""
    pictures = [line for record in data.records for line in _pictures(record)]
    if not pictures:
        return Figure(figsize=(2, 2))
    height, width, _ = pictures[0][0].shape
    columns = max(len(line) for line in pictures)
    whole = 11.0 if width > 3 * height else 7.5  # inches; long pictures have small text
    size = (whole, len(pictures) * whole / columns * height / width)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(pictures), columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for line, images in zip(axes, pictures, strict=True):
        for ax, image in zip(line, images, strict=False):
            ax.imshow(image)
    return figure


def _pictures(record: Record) -> list[list[np.ndarray[Any, Any]]]:
    problem = resolve_problem(record["problem"])(**record["sizes"])
    lines = []
    for example in record["examples"]:
        truth, known = _arrays(example["truth"]), _arrays(example["known"])
        figures = [
            plot_of(problem, _arrays(sample), truth, known)
            for sample in example["samples"]
        ]
        lines.append([_rasterized(figure) for figure in figures])
    return lines


def _rasterized(figure: Figure) -> np.ndarray[Any, Any]:
    figure.set_dpi(110)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def _at(arrays: Mapping[str, Tensor], index: int) -> dict[str, Tensor]:
    """One of several instances."""
    return {name: array[index] for name, array in arrays.items()}


def _listed(arrays: dict[str, Tensor]) -> dict[str, Any]:
    return {name: array.tolist() for name, array in arrays.items()}


def _arrays(lists: dict[str, Any]) -> dict[str, Tensor]:
    return {name: torch.tensor(values) for name, values in lists.items()}
