"""Heat maps (appendix G): one model at many sizes beyond those of training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import CHANCE, FigureFile
from gsdm_pyg.paper.jobs import EvaluationJob, Job, TrainingJob
from gsdm_pyg.paper.runs import Run


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

    The scale of each map ends at chance, as in the paper.
    """
    rows = [r for r in data.figure.rows if any(x["row"] == r for x in data.records)]
    panels = sorted(data.panels, key=lambda panel: float(panel.rpartition(" ")[2]))
    size = (2.6 * len(panels) + 0.6, 2.6 * len(rows) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(rows), len(panels), squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for ax, panel in zip(line, panels, strict=True):
            records = [
                r for r in data.records if (r["row"], r["panel"]) == (row, panel)
            ]
            if not records:
                ax.set_axis_off()
                continue
            names = list(records[0]["sizes"])[:2]
            ticks = [sorted({r["sizes"][name] for r in records}) for name in names]
            values = np.full([len(t) for t in ticks], np.nan)
            for record in records:
                place = tuple(
                    ticks[i].index(record["sizes"][n]) for i, n in enumerate(names)
                )
                values[place] = data.mean(record)
            top = max(data.mean(record, CHANCE) for record in records)
            image = ax.imshow(values, vmin=0, vmax=top, origin="lower")
            ax.set_xticks(range(len(ticks[1])), [str(t) for t in ticks[1]], fontsize=7)
            ax.set_yticks(range(len(ticks[0])), [str(t) for t in ticks[0]], fontsize=7)
            ax.set(title=f"{row}, {panel}", xlabel=names[1], ylabel=names[0])
            ax.title.set_fontsize(8)
            for (i, j), value in np.ndenumerate(values):
                if not math.isnan(value):
                    color = "white" if value < 0.6 * top else "black"
                    text = f"{value:.2f}".removeprefix("0")
                    ax.text(j, i, text, ha="center", va="center", color=color, size=5)
            figure.colorbar(image, ax=ax, shrink=0.8)
    return figure
