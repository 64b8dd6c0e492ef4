"""Corner plots: the marginal of each entry, and each pair of entries below."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from gsdm_pyg.diagnostics.entries import as_samples, entries, is_discrete

logger = logging.getLogger("gsdm_pyg")

MAX_ENTRIES = 8  # of one figure
MAX_TICKS = 12
MAX_POINTS = 2_000  # of one pair
_SAMPLES, _TRUTH = "tab:blue", "tab:red"


def plot_posterior(
    samples: Mapping[str, Any],
    truth: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Marginals and pairs of entries of posterior samples.

    Continuous entries are shown by histograms and points, discrete ones, which are
    integers or booleans, by bars and by dots whose areas are shares. At most 8 entries
    fit; the figure and a warning say how many are left out.

    Args:
        samples: An array [S, *shape] per variable, as `GSDM.sample` returns them.
        truth: An array [*shape] for any of the variables, marked in red.
        names: Which to show, variables such as "A" or entries such as "A[0,1]". By
            default all entries in which samples differ.
    """
    arrays = as_samples("samples", samples)
    columns = entries(arrays)
    marks = _marks(arrays, truth or {})
    chosen = _choose(arrays, columns, names)
    if not chosen:
        raise ValueError(
            "All samples are the same, so there is nothing to plot: pass samples of "
            f"variables that are not given (got {', '.join(arrays)})."
        )
    shown = chosen[:MAX_ENTRIES]
    num = len(shown)
    figure = Figure(figsize=(2 * num + 1, 2 * num + 1), layout="constrained")
    axes = figure.subplots(num, num, squeeze=False)
    for i, row in enumerate(shown):
        _marginal(axes[i, i], columns[row], marks.get(row))
        limits = _limits(columns[row], marks.get(row))
        axes[i, i].set(title=row, xlim=limits)
        for j, column in enumerate(shown):
            if j > i:
                axes[i, j].set_axis_off()
            elif j < i:
                axes[i, j].sharex(axes[j, j])
                _pair(axes[i, j], columns[column], columns[row])
                axes[i, j].set_ylim(limits)
                if column in marks and row in marks:
                    axes[i, j].plot(marks[column], marks[row], "+", color=_TRUTH, ms=12)
            if i < num - 1:
                axes[i, j].tick_params(labelbottom=False)
            if 0 < j < i:
                axes[i, j].tick_params(labelleft=False)
        if i:
            axes[i, 0].set_ylabel(row)
        axes[-1, i].set_xlabel(row)
    if len(chosen) > num:
        left_out = _left_out(chosen, num)
        figure.suptitle(left_out, fontsize="medium")
        logger.warning(left_out)
    return figure


def _choose(
    arrays: Mapping[str, Tensor],
    columns: Mapping[str, Tensor],
    names: Sequence[str] | None,
) -> list[str]:
    """The names of the entries to show, each once."""
    if names is None:
        return [name for name, x in columns.items() if bool((x != x[0]).any())]
    if isinstance(names, str):
        names = [names]
    chosen: list[str] = []
    for name in names:
        if name in arrays:
            chosen += entries({name: arrays[name]})
        elif str(name).replace(" ", "") in columns:
            chosen.append(str(name).replace(" ", ""))
        else:
            raise ValueError(
                f"names takes the variables {', '.join(arrays)}, or entries such as "
                f"{next(iter(columns))!r} (got {name!r})."
            )
    return list(dict.fromkeys(chosen))


def _marks(arrays: Mapping[str, Tensor], truth: Mapping[str, Any]) -> dict[str, float]:
    """The true value of each entry that has one; NaN says that it has none."""
    true = {}
    for name, value in truth.items():
        value = torch.as_tensor(value).detach().cpu()
        if name in arrays:
            if value.shape != arrays[name].shape[1:]:
                raise ValueError(
                    f"truth[{name!r}] must have the shape of one sample, "
                    f"{tuple(arrays[name].shape[1:])} (got {tuple(value.shape)})."
                )
            true[name] = value[None]
    marks = {name: float(value) for name, value in entries(true).items()}
    return {name: value for name, value in marks.items() if value == value}


def _left_out(chosen: Sequence[str], num: int) -> str:
    rest = chosen[num:]
    listed = ", ".join(rest[:3]) + (", ..." if len(rest) > 3 else "")
    return (
        f"{num} of {len(chosen)} entries are shown, {len(rest)} left out "
        f"({listed}): choose by names=[...]"
    )


def _marginal(ax: Axes, x: Tensor, mark: float | None) -> None:
    if is_discrete(x):
        classes, counts = x.unique(return_counts=True)
        ax.bar(classes.int().numpy(), (counts / len(x)).numpy(), color=_SAMPLES)
        if len(classes) <= MAX_TICKS:  # counts may be many
            ax.set_xticks(classes.int().tolist())
    else:
        ax.hist(x.numpy(), bins=40, density=True, color=_SAMPLES)
    if mark is not None:
        ax.axvline(mark, color=_TRUTH)
    ax.set_yticks([])


def _pair(ax: Axes, x: Tensor, y: Tensor) -> None:
    """Points, in strips where one of the two is discrete; dots where both are."""
    if is_discrete(x) and is_discrete(y):
        both = torch.stack([x.int(), y.int()])
        cells, counts = both.unique(dim=1, return_counts=True)
        ax.scatter(cells[0], cells[1], s=400 * counts / len(x), color=_SAMPLES)
    else:
        points = _spread(x, 0), _spread(y, 1)
        ax.scatter(*points, s=4, alpha=0.5, linewidths=0, color=_SAMPLES)
    for axis, values in ((ax.xaxis, x), (ax.yaxis, y)):
        if is_discrete(values):
            axis.set_ticks(values.int().unique().tolist())


def _limits(values: Tensor, mark: float | None) -> tuple[float, float]:
    """Where an axis begins and ends, so that values and truth are inside."""
    marks = [] if mark is None else [mark]
    low = min(float(values.min()), *marks, float(values.max()))
    high = max(float(values.max()), *marks, low)
    margin = 0.6 if is_discrete(values) else 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _spread(values: Tensor, key: int) -> NDArray[Any]:
    """Values of at most MAX_POINTS samples, classes at random within their strip."""
    shown = values[:MAX_POINTS].numpy()
    if not is_discrete(values):
        return shown
    return shown + np.random.default_rng(key).uniform(-0.3, 0.3, len(shown))
