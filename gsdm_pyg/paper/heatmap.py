"""Heat maps (appendix G): one model at many sizes beyond those of training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from gsdm_pyg.paper.data import Data, Record
from gsdm_pyg.paper.figure_file import CHANCE, FigureFile
from gsdm_pyg.paper.jobs import EvaluationJob, Job, TrainingJob
from gsdm_pyg.paper.runs import Run
from gsdm_pyg.paper.table import seconds_per_answer


def heatmap_jobs(figure: FigureFile, runs: Sequence[Run]) -> list[Job]:
    """Train each model that is not there, then evaluate it at every cell of its grid.

    The last name of the grid makes the panels, and the others their axes.
    """
    jobs: list[Job] = [TrainingJob(run) for run in runs if run.pretrained is None]
    for run in runs:
        cells = []
        for cell in run.cells():
            *axes, (last, value) = cell.items()
            problem = run.problem(**cell)
            panel, point = (
                f"{last} = {value}",
                " x ".join(str(size) for _, size in axes),
            )
            cells.append((math.prod(cell.values()), problem, panel, point))
        cells.sort(key=lambda cell: cell[0])  # small ones first
        jobs += [EvaluationJob(run, *cell[1:]) for cell in cells]
    return jobs


def heatmap_figure(data: Data) -> Figure:
    """The mean metric of each cell: one line of maps per row, a map per panel.

    Below it are the seconds of an answer. The scale of each map ends at chance, as in
    the paper.
    """
    rows = [r for r in data.figure.rows if any(x["row"] == r for x in data.records)]
    panels = sorted(data.panels, key=lambda panel: float(panel.rpartition(" ")[2]))
    most = max(len(_ticks(data.records, axis)) for axis in (0, 1))
    side = max(2.8, 0.42 * most + 1.2)  # inches
    size = (side * len(panels) + 0.6, side * 0.92 * len(rows) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(rows), len(panels), squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for ax, panel in zip(line, panels, strict=True):
            records = [
                r for r in data.records if (r["row"], r["panel"]) == (row, panel)
            ]
            if records:
                image = _heat_map(ax, data, records)
                bar = figure.colorbar(image, ax=ax, shrink=0.8)
                bar.ax.tick_params(labelsize=7)
                ax.set_title(f"{row}, {panel}", fontsize=9)
            else:
                ax.set_axis_off()
    shown = f"{data.metric(data.panels[0])}, {data.seconds} per answer"
    figure.supxlabel(f"in each cell: {shown}", size=8)
    return figure


def _heat_map(ax: Axes, data: Data, records: Sequence[Record]) -> AxesImage:
    """The map of one row and panel."""
    names = list(records[0]["sizes"])[:2]
    ticks = [_ticks(records, axis) for axis in (0, 1)]
    values = np.full([len(t) for t in ticks], np.nan)
    seconds = values.copy()
    for record in records:
        sizes = list(record["sizes"].values())
        place = ticks[0].index(sizes[0]), ticks[1].index(sizes[1])
        values[place] = data.mean(record)
        seconds[place] = seconds_per_answer(record) or math.nan
    top = max(data.mean(record, CHANCE) for record in records)
    image = ax.imshow(values, vmin=0, vmax=top, origin="lower")
    ax.set_xticks(range(len(ticks[1])), [str(t) for t in ticks[1]], fontsize=7)
    ax.set_yticks(range(len(ticks[0])), [str(t) for t in ticks[0]], fontsize=7)
    ax.set_xlabel(names[1], fontsize=8)
    ax.set_ylabel(names[0], fontsize=8)
    for (i, j), value in np.ndenumerate(values):
        if not math.isnan(value):
            color = "white" if value < 0.6 * top else "black"
            text = f"{value:.2f}\n{_short(float(seconds[i, j]))}".strip()
            large = 7.5 if max(values.shape) <= 5 else 5.5
            ax.text(j, i, text, ha="center", va="center", color=color, size=large)
    return image


def _ticks(records: Sequence[Record], axis: int) -> list[int]:
    """The sizes along an axis."""
    return sorted({list(record["sizes"].values())[axis] for record in records})


def _short(seconds: float) -> str:
    """Seconds in a few characters, such as 0.12 s or 35 s."""
    if math.isnan(seconds):
        return ""
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.2g} s"
