"""Figures of lines: a metric against sizes, and against minutes of training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gsdm_pyg.paper.data import Data, Record
from gsdm_pyg.paper.figure_file import CHANCE

_COLORS = [*(f"C{i}" for i in range(10)), "navy", "goldenrod"]
_WIDE = 30  # times the smallest value, from where on an axis is logarithmic
_DEEP = 1000  # times the smallest value, at most, that a logarithmic axis shows
_HOLLOW: dict[str, Any] = {  # the marker of a lower bound
    "marker": "o",
    "markerfacecolor": "white",
    "linestyle": "",
    "zorder": 3,
}


def scaling_figure(data: Data) -> Figure:
    """The metric against the points of each panel: means with their intervals."""
    figure, axes = _panels(len(data.panels))
    for ax, panel in zip(axes, data.panels, strict=True):
        points = data.points(panel)
        x = _positions(ax, points)
        means: list[float] = []
        bounds = {
            point: [r for r in data.rows(panel) if data.is_lower_bound(panel, point, r)]
            for point in points
        }
        for row in data.rows(panel):
            found = [data.interval(panel, point, row) for point in points]
            shown = [(at, i) for at, i in zip(x, found, strict=True) if i is not None]
            means += [i.mean for _, i in shown]
            bar = ax.errorbar(
                [at for at, _ in shown],
                [i.mean for _, i in shown],
                [
                    [_length(i.mean - i.low) for _, i in shown],
                    [_length(i.high - i.mean) for _, i in shown],
                ],
                capsize=2,
                marker="o",
                markersize=3,
                **_style(data, row),
            )
            for at, interval, point in zip(x, found, points, strict=True):
                if interval is not None and row in bounds[point]:
                    color, number = bar.lines[0].get_color(), bounds[point].index(row)
                    size = 3 + 2 * (len(bounds[point]) - number)  # rings, if several
                    style = {"markersize": size, "markeredgecolor": color, **_HOLLOW}
                    ax.plot(at, interval.mean, **style)
        chance = [data.chance_interval(panel, point) for point in points]
        shown = [(at, i) for at, i in zip(x, chance, strict=True) if i is not None]
        if shown:
            level = [i.mean for _, i in shown]
            ax.plot([at for at, _ in shown], level, "k--", lw=1, label=CHANCE)
            means += level
        ax.set(title=panel, xlabel=data.panel_of(panel).axis, ylabel=data.shown(panel))
        _scale(ax, means, data.best_value(panel))
    return _with_legend(figure, axes)


def curves_figure(data: Data) -> Figure:
    """The metric against minutes of training: means, and the range over the seeds.

    Panels with several points have a figure of their own for each.
    """
    places = [(panel, point) for panel in data.panels for point in data.points(panel)]
    figure, axes = _panels(len(places))
    for ax, (panel, point) in zip(axes, places, strict=True):
        metric = data.metric(panel)
        measured: list[float] = []
        for row in data.rows(panel):
            curves = [_curve(r, metric) for r in data.of(panel, point, row)]
            curves = [curve for curve in curves if len(curve[0])]
            measured += [value for _, values in curves for value in values]
            style = _style(data, row)
            if curves:
                grid, values = _on_one_grid(curves)
                ax.plot(grid, values.mean(0), **style)
                low, high = values.min(0), values.max(0)
                ax.fill_between(grid, low, high, color=style["color"], alpha=0.2)
            elif (interval := data.interval(panel, point, row)) is not None:
                ax.axhline(interval.mean, **{**style, "linestyle": ":"})
                measured.append(interval.mean)
        chance = data.chance_interval(panel, point)
        if chance is not None:
            ax.axhline(chance.mean, color="black", linestyle="--", lw=1, label=CHANCE)
            measured.append(chance.mean)
        title = f"{panel}, {data.panel_of(panel).axis} {point}" if point else panel
        ax.set(
            title=title, xlabel=f"{data.minutes} of training", ylabel=data.shown(panel)
        )
        _scale(ax, measured, data.best_value(panel))
    return _with_legend(figure, axes)


def _length(error: float) -> float:
    """Of an error bar; none where an interval has no end."""
    return max(0.0, error) if math.isfinite(error) else 0.0


def _panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    columns = min(max(count, 1), 3)
    lines = math.ceil(max(count, 1) / columns)
    width = 4.4 if columns == 1 else 3.2
    size = (width * columns + 0.4, 2.7 * lines + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes[:count]


def _style(data: Data, row: str) -> dict[str, Any]:
    """One color per row in all panels."""
    number = list(data.figure.rows).index(row)
    dashed = "w/o int" in row
    color = _COLORS[number % len(_COLORS)]
    return {"label": row, "color": color, "linestyle": "--" if dashed else "-"}


def _positions(ax: Axes, points: Sequence[str]) -> list[float]:
    """Where the points are on the x axis: at their numbers, if they are numbers."""
    try:
        x = [float(point) for point in points]
    except ValueError:
        x = [float(i) for i in range(len(points))]
    else:
        if min(x) > 0 and max(x) >= 4 * min(x):
            ax.set_xscale("log")
    ax.set_xticks(x, points)
    ax.minorticks_off()
    return x


def _scale(ax: Axes, measured: Sequence[float], best: float) -> None:
    """A logarithmic y axis where errors span orders of magnitude.

    Below the smallest value, or the largest / `_DEEP`, it is linear down to 0: exact
    methods would take the space of all others.
    """
    above = [value for value in measured if value > 0]
    if best != 0 or not above or max(above) <= _WIDE * min(above):
        return
    least, most = min(above), max(above)
    if min(measured) > 0 and most <= _DEEP * least:
        ax.set_yscale("log")
        ax.set_ylim(least / 2, 1.6 * most)
    else:
        limit = max(least, most / _DEEP)
        ax.set_yscale("symlog", linthresh=limit)
        ax.set_ylim(-0.1 * limit, 1.6 * most)


def _curve(record: Record, metric: str) -> tuple[list[float], list[float]]:
    """Minutes and values of one run."""
    curve = record.get("curve") or {}
    pairs = zip(curve.get("minutes", []), curve.get(metric, []), strict=False)
    known = [(m, v) for m, v in pairs if m is not None and v is not None]
    return [m for m, _ in known], [v for _, v in known]


def _on_one_grid(
    curves: Sequence[tuple[list[float], list[float]]],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Curves at the same minutes: from where all have begun to where all have ended."""
    first = max(minutes[0] for minutes, _ in curves)
    last = max(first, min(minutes[-1] for minutes, _ in curves))
    grid = np.linspace(first, last, 50)
    return grid, np.stack([np.interp(grid, *curve) for curve in curves])


def _with_legend(figure: Figure, axes: Sequence[Axes]) -> Figure:
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=max(2, min(4, round(figure.get_figwidth() / 2.4))),
        fontsize=8,
    )
    return figure
