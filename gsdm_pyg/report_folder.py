"""What a report leaves: a table, a picture, and JSON that an interrupted one reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from matplotlib.figure import Figure

from gsdm_pyg.choices import Solver
from gsdm_pyg.energy import ENERGY_SCORE
from gsdm_pyg.evaluation import as_json
from gsdm_pyg.files import atomic_writer, check_new_folder, write_file
from gsdm_pyg.report import Report, Row, Scores
from gsdm_pyg.settings import SamplerSettings

REPORT, PICTURE = "report.json", "report.png"


class ReportFolder:
    """A folder with report.json and report.png.

    Args:
        folder: A new or empty folder, or that of the same report.
        described: What the scores depend on, as JSON writes it.
        overwrite: Whether another report may be replaced.
    """

    def __init__(
        self, folder: Path, described: Mapping[str, Any], overwrite: bool = False
    ) -> None:
        self._folder, self._described = folder, dict(described)
        self.finished: dict[SamplerSettings, Scores] = {}  # of an earlier run
        file = folder / REPORT
        if not file.is_file():
            remedy = "choose another folder, or pass --overwrite"
            check_new_folder(folder, "--out", remedy, overwrite)
            return
        try:
            before = json.loads(file.read_text())
            measured = {
                SamplerSettings.parse(entry["sampler"]): _from_json(entry["scores"])
                for entry in before["settings"]
            }
            described_before = before["described"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if overwrite:
                return
            raise ValueError(
                f"{file} is damaged: choose another folder, or pass --overwrite "
                f"(got {error})."
            ) from error
        if described_before == self._described:
            self.finished = measured
        elif not overwrite:
            raise ValueError(
                f"{file} is the report of another model, problem, seed or number of "
                "instances: choose another folder, or pass --overwrite "
                f"(got {described_before})."
            )

    def keep(self, scores: Mapping[SamplerSettings, Scores]) -> None:
        """Write what is finished, together with what was before."""
        self._write({}, {**self.finished, **scores}, {})

    def write(self, report: Report) -> None:
        """Write the report and its picture."""
        found = {
            "metric": report.metric,
            "best_value": report.best_value,
            "best": report.best.sampler.model_dump(),
            "chosen": report.chosen.sampler.model_dump(),
        }
        figures = {row.sampler: row_as_json(row) for row in report.rows}
        self._write(found, {**self.finished, **report.scores}, figures)
        with atomic_writer(self._folder / PICTURE) as file:
            report_figure(report).savefig(file, dpi=120)

    def _write(
        self,
        found: Mapping[str, Any],
        scores: Mapping[SamplerSettings, Scores],
        figures: Mapping[SamplerSettings, Mapping[str, Any]],
    ) -> None:
        settings = [
            {
                "sampler": sampler.model_dump(),
                "evaluations": sampler.evaluations,
                **figures.get(sampler, {}),
                "scores": [as_json(dict(score)) for score in entries],
            }
            for sampler, entries in scores.items()
        ]
        content = {"described": self._described, **found, "settings": settings}
        write_file(self._folder / REPORT, json.dumps(content, indent=1).encode())


def row_as_json(row: Row) -> dict[str, float | None]:
    """The numbers of a row: null instead of NaN."""
    names = ("value", "error", "behind", "behind_error")
    return as_json({name: getattr(row, name) for name in names})


def report_table(report: Report) -> str:
    """The rows in Markdown, the chosen setting marked."""
    lines = [
        f"| solver | spacing | steps | restarts | evaluations | {report.metric} "
        "| behind the best | |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in report.rows:
        sampler = row.sampler
        mark = "best" if row is report.best else ""
        mark = "chosen" if row is report.chosen else mark
        lines.append(
            f"| {sampler.solver} | {sampler.spacing} | {sampler.steps} "
            f"| {sampler.restarts} | {sampler.evaluations} "
            f"| {row.value:.4f} ± {row.error:.4f} "
            f"| {row.behind:.4f} ± {row.behind_error:.4f} | {mark} |"
        )
    return "\n".join(lines)


def report_figure(report: Report) -> Figure:
    """The metric against evaluations, with one line per solver, spacing and restarts.

    A ring marks the chosen setting.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    ax = figure.subplots()
    colors = {solver: f"C{i}" for i, solver in enumerate(get_args(Solver))}
    lines: dict[tuple[str, str, int], list[Row]] = {}
    for row in report.rows:
        key = (row.sampler.solver, row.sampler.spacing, row.sampler.restarts)
        lines.setdefault(key, []).append(row)
    for (solver, spacing, restarts), rows in lines.items():
        rows.sort(key=lambda row: row.sampler.evaluations)
        again = f", {restarts} restarts" if restarts else ""
        ax.errorbar(
            [row.sampler.evaluations for row in rows],
            [row.value for row in rows],
            [0.0 if math.isnan(row.error) else row.error for row in rows],
            color=colors[solver],
            linestyle="--" if spacing == "time" else "-",
            marker="^" if restarts else ".",
            capsize=2,
            label=f"{solver}, {spacing}{again}",
        )
    chosen = report.chosen
    ax.plot(
        [chosen.sampler.evaluations],
        [chosen.value],
        linestyle="",
        marker="o",
        markersize=14,
        markerfacecolor="none",
        markeredgecolor="black",
        label="chosen",
    )
    ticks = sorted({row.sampler.evaluations for row in report.rows})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    best = f"best: {report.best_value:g}"
    if report.metric == ENERGY_SCORE:  # 0 for who knows the truth
        best = "lower is better"
    label = f"{report.metric} ({best})"
    ax.set(xlabel="evaluations of the network", ylabel=label)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def _from_json(scores: Any) -> Scores:
    return [
        {name: math.nan if value is None else value for name, value in score.items()}
        for score in scores
    ]
