"""Kinds of figures: which jobs each needs, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from gsdm_pyg.paper.complexity import (
    complexity_figure,
    complexity_jobs,
    complexity_table,
)
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import FigureFile, Kind
from gsdm_pyg.paper.heatmap import heatmap_figure, heatmap_jobs
from gsdm_pyg.paper.jobs import BaselineJob, EvaluationJob, Job, TrainingJob
from gsdm_pyg.paper.lines import curves_figure, scaling_figure
from gsdm_pyg.paper.masks import masks_figure, masks_jobs
from gsdm_pyg.paper.runs import Run
from gsdm_pyg.paper.samples import samples_figure, samples_jobs
from gsdm_pyg.paper.table import Cells, heatmap_table, metric_table


@dataclass(frozen=True)
class HowTo:
    """How a kind of figure is made.

    Args:
        jobs: Its jobs; those that need others come after them.
        draw: The figure.
        table: The entries of its table.
        records: The jobs whose results are shown; others only prepare them.
    """

    jobs: Callable[[FigureFile, Sequence[Run]], list[Any]]
    draw: Callable[[Data], Figure]
    table: Callable[[Data], list[Cells]] = metric_table
    records: Callable[[Job], bool] = lambda job: True


def run_jobs(figure: FigureFile, runs: Sequence[Run]) -> list[Any]:
    """Train, or evaluate, each run."""
    return [run_job(run) for run in runs]


def run_job(run: Run) -> Job:
    """What a run needs: an evaluation of what is there already, or training."""
    if run.baseline is not None:
        return BaselineJob(run)
    if run.pretrained is not None:
        return EvaluationJob(run, run.problem(), run.panel, run.point)
    return TrainingJob(run)


def _is_measured(job: Job) -> bool:
    return not isinstance(job, TrainingJob)


HOW_TO: dict[Kind, HowTo] = {
    "scaling": HowTo(run_jobs, scaling_figure),
    "curves": HowTo(run_jobs, curves_figure),
    "heatmap": HowTo(heatmap_jobs, heatmap_figure, heatmap_table, _is_measured),
    "samples": HowTo(samples_jobs, samples_figure, records=_is_measured),
    "complexity": HowTo(complexity_jobs, complexity_figure, complexity_table),
    "masks": HowTo(masks_jobs, masks_figure, records=_is_measured),
}
