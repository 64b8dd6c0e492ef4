"""What a figure is drawn from: records of its jobs, read from one JSON file.

Nothing but this file and the figure's own YAML is needed to draw it again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.paper.figure_file import CHANCE, FigureFile, Panel, Scale
from gsdm_pyg.paper.statistics import Interval, mean_interval
from gsdm_pyg.registry import resolve_problem

Record = dict[str, Any]  # labels and result of a job


@dataclass(frozen=True)
class Data:
    """The records of a figure at one scale, and the file that describes it.

    Args:
        figure: The file of the figure.
        scale: Which scale the records are of.
        records: Labels and result of each finished job.
        missing: The names of the jobs that are not done.
    """

    figure: FigureFile
    scale: Scale
    records: list[Record]
    missing: list[str]

    @classmethod
    def load(cls, path: Path, figure: FigureFile) -> Data:
        """Read what `gsdm_pyg.paper.making.save` wrote."""
        if not path.is_file():
            raise ValueError(
                f"There is no {path}: make the figure without --redraw first (got no "
                "such file)."
            )
        try:
            content = json.loads(path.read_text())
            return cls(figure, content["scale"], content["records"], content["missing"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged: make the figure without --redraw (got {error!r})."
            ) from error

    @cached_property
    def panels(self) -> list[str]:
        """The panels that have records, in the file's order."""
        found = dict.fromkeys(record["panel"] for record in self.records)
        known = [panel for panel in self.figure.panels if panel in found]
        return known + [panel for panel in found if panel not in known]

    def points(self, panel: str) -> list[str]:
        """The points of a panel, in order."""
        return self._labels("point", lambda record: record["panel"] == panel)

    def rows(self, panel: str) -> list[str]:
        """The rows of a panel, in the file's order."""
        found = self._labels("row", lambda record: record["panel"] == panel)
        return [row for row in self.figure.rows if row in found]

    def of(self, panel: str, point: str, row: str) -> list[Record]:
        """The records of one place, a seed each."""
        wanted = (panel, point, row)
        place = ("panel", "point", "row")
        found = [r for r in self.records if tuple(r[p] for p in place) == wanted]
        return sorted(found, key=lambda record: record["seed"])

    def scores(
        self, panel: str, point: str, row: str, metric: str | None = None
    ) -> dict[int, Tensor]:
        """The scores [n] of a place's instances by seed; none without records.

        By default of what the panel shows: its metric, or the minutes to get as good as
        `time_to`. A run that never got there has the minutes of the longest run, see
        `is_lower_bound`.
        """
        limit = self.panel_of(panel).time_to if metric is None else None
        metric = metric or self.metric(panel)
        if limit is None:
            return {
                record["seed"]: _numbers(record["scores"][metric])
                for record in self.of(panel, point, row)
                if metric in record.get("scores", {})
            }
        longest = max(r.get("minutes", 0.0) for r in self.records)
        return {
            seed: _numbers([longest if minutes is None else minutes])
            for seed, minutes in self._minutes_to(panel, point, row, limit).items()
        }

    def is_lower_bound(self, panel: str, point: str, row: str) -> bool:
        """Whether some run never got as good as `time_to`: it takes more minutes."""
        limit = self.panel_of(panel).time_to
        if limit is None:
            return False
        return None in self._minutes_to(panel, point, row, limit).values()

    def _minutes_to(
        self, panel: str, point: str, row: str, limit: float
    ) -> dict[int, float | None]:
        """The minutes of each seed until the panel's metric is as good as a limit."""
        metric = self.metric(panel)
        best = self._best(panel, metric)
        return {
            record["seed"]: minutes_to(record, metric, limit, best)
            for record in self.of(panel, point, row)
        }

    def chance(
        self, panel: str, point: str, row: str, metric: str | None = None
    ) -> dict[int, Tensor]:
        """The same of answers that ignore what is given, on a row's instances."""
        metric = metric or self.metric(panel)
        return {
            record["seed"]: _numbers(record[CHANCE][metric])
            for record in self.of(panel, point, row)
            if metric in record.get(CHANCE, {})
        }

    def during(
        self, panel: str, point: str, row: str, metric: str | None = None
    ) -> dict[int, Tensor]:
        """The mean of a metric over the curve of training, [1] by seed."""
        metric = metric or self.metric(panel)
        found = {}
        for record in self.of(panel, point, row):
            curve = (record.get("curve") or {}).get(metric, [])
            values = [value for value in curve if value is not None]
            if values:
                found[record["seed"]] = _numbers([sum(values) / len(values)])
        return found

    def interval(self, panel: str, point: str, row: str) -> Interval | None:
        """The mean of a place with its interval; a lower bound has none."""
        found = _interval(self.scores(panel, point, row))
        if found is not None and self.is_lower_bound(panel, point, row):
            return Interval(found.mean, -math.inf, math.inf)
        return found

    def chance_interval(
        self, panel: str, point: str, row: str | None = None
    ) -> Interval | None:
        """The same of chance, on a row's instances; by default the first one's."""
        rows = self.rows(panel) if row is None else [row]
        found = (self.chance(panel, point, row) for row in rows)
        timed = self.panel_of(panel).time_to is not None
        return None if timed else _interval(next(filter(None, found), {}))

    def mean(self, record: Record, kept: str = "scores") -> float:
        """The mean of the shown metric over the instances of one record."""
        metric = self.metric(record["panel"])
        return _numbers(record.get(kept, {}).get(metric, [])).nanmean().item()

    def metric(self, panel: str) -> str:
        """The metric of a panel."""
        return self.panel_of(panel).metric

    def shown(self, panel: str) -> str:
        """What a panel shows: its metric, or the minutes to a value of it."""
        chosen = self.panel_of(panel)
        if chosen.time_to is None:
            return chosen.metric
        return f"{self.minutes} to {chosen.metric} of {chosen.time_to:g}"

    @cached_property
    def minutes(self) -> str:
        """What minutes are: of a processor's core where all runs used its clock."""
        return self._unit("minutes")

    @cached_property
    def seconds(self) -> str:
        """What the seconds of sampling are."""
        return self._unit("sampling_seconds").replace("sampling_", "")

    def _unit(self, effort: str) -> str:
        clocks = {r.get("clock") for r in self.records if effort in r}
        return f"core-{effort}" if clocks == {"processor"} else effort

    def best_value(self, panel: str, metric: str | None = None) -> float:
        """What the shown metric, or another, would ideally be."""
        if metric is None and self.panel_of(panel).time_to is not None:
            return 0.0
        return self._best(panel, metric or self.metric(panel))

    def panel_of(self, title: str) -> Panel:
        """The panel of the file; those that cells of a grid make are like the first."""
        panels = self.figure.panels
        return panels.get(title, next(iter(panels.values())))

    def _best(self, panel: str, metric: str) -> float:
        """The best value of a metric, as the problem says: 0 by default."""
        problem = next(r["problem"] for r in self.records if r["panel"] == panel)
        return resolve_problem(problem).best_values.get(metric, 0.0)

    def _labels(self, label: str, fits: Callable[[Record], bool]) -> list[str]:
        return list(dict.fromkeys(r[label] for r in self.records if fits(r)))


def _numbers(values: list[float | None]) -> Tensor:
    numbers = [math.nan if value is None else value for value in values]
    return torch.tensor(numbers, dtype=torch.double)


def _interval(scores: dict[int, Tensor]) -> Interval | None:
    if not scores or len({len(values) for values in scores.values()}) > 1:
        return None
    return mean_interval([torch.stack(list(scores.values()))])


def minutes_to(record: Record, metric: str, limit: float, best: float) -> float | None:
    """The minutes of training until a metric is as good as a limit, if it ever is."""
    curve = record.get("curve") or {"minutes": []}
    for minutes, value in zip(curve["minutes"], curve.get(metric, []), strict=False):
        if value is not None and abs(value - best) <= abs(limit - best):
            return float(minutes)
    return None


def round_numbers(value: Any) -> Any:
    """JSON values with numbers of six digits, null instead of NaN."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: round_numbers(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [round_numbers(inner) for inner in value]
    return value
