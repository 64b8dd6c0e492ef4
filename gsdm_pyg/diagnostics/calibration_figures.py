"""Figures of a calibration: one row per check, with simultaneous bands."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.diagnostics.calibration import Check
from gsdm_pyg.diagnostics.ecdf import ecdf_band, uniform_counts
from gsdm_pyg.diagnostics.quantity import Quantity
from gsdm_pyg.diagnostics.ranks import COVERAGE_BINS, central_levels
from gsdm_pyg.diagnostics.reliability import reliability_curve

_BAND, _LINE = "0.85", "tab:blue"


def check_figure(check: Check) -> Figure:
    """Ranks, the deviation of their ECDF, and coverage or reliability, side by side."""
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    quantity = check.quantity
    _draw_histogram(first, quantity)
    counts = quantity.ranks.bincount(minlength=quantity.num_samples + 1)
    _draw_deviation(second, counts)
    second.set(title="ECDF of ranks, minus uniform", xlabel="rank / (S + 1)")
    if quantity.num_classes is None:
        levels = uniform_counts(central_levels(quantity.u), COVERAGE_BINS)
        _draw_deviation(third, levels)
        third.set(title="coverage, minus level", xlabel="level of the central interval")
    else:
        _draw_reliability(third, quantity)
    return figure


def _draw_histogram(ax: Axes, quantity: Quantity) -> None:
    """Ranks in at most 15 bins, each with ±2 std of its height."""
    num, num_bins = quantity.num_instances, min(15, quantity.num_samples + 1)
    counts = uniform_counts(quantity.u, num_bins)
    share = 1 / num_bins
    half = 2 * (share * (1 - share) / num) ** 0.5 * num_bins
    ax.axhspan(1 - half, 1 + half, color=_BAND)
    edges = np.linspace(0, 1, num_bins + 1)
    ax.stairs(
        (counts * num_bins / num).numpy(), edges, color=_LINE, alpha=0.6, fill=True
    )
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set(title="ranks of the truth", xlabel="rank / (S + 1)", ylim=(0, None))


def _draw_deviation(ax: Axes, counts: Tensor) -> None:
    """The ECDF minus the diagonal, in its simultaneous band of 95%."""
    num, num_bins = int(counts.sum()), len(counts)
    z = np.arange(num_bins + 1) / num_bins
    lower, upper = ecdf_band(num, num_bins)
    low = np.concatenate([[0], lower, [num]]) / num - z
    high = np.concatenate([[0], upper, [num]]) / num - z
    ax.fill_between(z, low, high, color=_BAND)
    below = torch.cat([torch.zeros(1), counts.cumsum(0)]).numpy() / num
    ax.plot(z, below - z, color=_LINE)
    ax.axhline(0, color="black", linewidth=0.8)


def _draw_reliability(ax: Axes, quantity: Quantity) -> None:
    """How often a class was true against its predicted probability."""
    assert quantity.num_classes is not None
    curve = reliability_curve(quantity.draws, quantity.num_classes)
    ax.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    ax.errorbar(
        curve.predicted,
        curve.frequency,
        yerr=2 * curve.error,
        fmt="o-",
        color=_LINE,
        capsize=3,
    )
    ax.set(title="reliability, ±2 std", xlabel="predicted", ylabel="came true")
