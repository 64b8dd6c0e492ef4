"""What `python -m benchmarks.solve` counts: cost curves and how uniform draws are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats


def cost_curve(solved: Sequence[bool], evaluations: Sequence[int]) -> list[list[float]]:
    """The share of instances solved within each number of evaluations that one took."""
    costs, curve = np.sort(np.asarray(evaluations)[np.asarray(solved, bool)]), []
    for cost in np.unique(costs):
        within = np.searchsorted(costs, cost, "right")
        curve.append([int(cost), float(within / len(solved))])
    return curve


def solved_within(
    curve: Sequence[Sequence[float]], costs: Sequence[int]
) -> list[float]:
    """The share of instances solved within each of some costs, by their cost curve."""
    return [max((s for c, s in curve if c <= cost), default=0.0) for cost in costs]


def expected_distinct(num: int, draws: int) -> float:
    """How many of `num` equally likely outcomes occur in that many draws, on average.

    D (1 - (1 - 1/D)^n)
    """
    return num * (1 - (1 - 1 / num) ** draws)


def chi_square(counts: Sequence[int], num: int) -> float:
    """Of draws against equal chances: sum over D of (count - n/D)^2 / (n/D).

    Args:
        counts: How often each outcome was drawn that was drawn at all.
        num: D, how many outcomes there are.
    """
    drawn = np.asarray(counts, np.double)
    return float(num * np.square(drawn).sum() / drawn.sum() - drawn.sum())


def chi_square_test(
    values: Sequence[float], nums: Sequence[int], draws: Sequence[int]
) -> dict[str, float]:
    """The sum of independent chi-squares, what it should be, z, and its p-value.

    Under equal chances a chi-square has mean D - 1 and variance 2 (D - 1) (n - 1) / n,
    exactly and however few the draws are. z and p are of a normal distribution, which
    their sum approaches.
    """
    free = np.asarray(nums, np.double) - 1
    n = np.asarray(draws, np.double)
    expected, variance = free.sum(), (2 * free * (n - 1) / n).sum()
    z = (sum(values) - expected) / math.sqrt(variance)
    return {
        "chi_square": float(sum(values)),
        "expected": float(expected),
        "z": float(z),
        "p": float(stats.norm.sf(z)),
    }
