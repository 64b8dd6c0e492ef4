"""Confidence intervals of means: Student's t over seeds, or over instances of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.stats import t as student
from torch import Tensor

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean, and the interval that holds the true one with 95% confidence."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low) or math.isinf(self.high):
            return f"{self.mean:.3g}"
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def mean_interval(strata: Sequence[Tensor]) -> Interval:
    """The mean of the means of several strata, with its interval.

    The units of a stratum are its seeds, and its instances where it has one seed, which
    tells nothing of other seeds. Variances of strata add up, with Satterthwaite's
    degrees of freedom. Where strata have a single unit, all strata are the units of one
    sample. The interval of a single number has no ends.

    Args:
        strata: Scores [S, n] of S seeds with n instances each; NaN where an instance
            has no score.
    """
    units = [_units(scores.double()) for scores in strata]
    if not units or any(not len(one) for one in units):
        return Interval(math.nan, math.nan, math.nan)
    if len(units) > 1 and any(len(one) == 1 for one in units):
        units = [torch.stack([one.mean() for one in units])]
    mean = torch.stack([one.mean() for one in units]).mean().item()
    if len(units[0]) == 1:
        return Interval(mean, -math.inf, math.inf)
    shares = [(one.var() / len(one) / len(units) ** 2).item() for one in units]
    variance = sum(shares)
    if variance == 0:
        return Interval(mean, mean, mean)
    pairs = zip(shares, units, strict=True)
    freedom = 1 / sum((s / variance) ** 2 / (len(one) - 1) for s, one in pairs)
    half = float(student.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)


def _units(scores: Tensor) -> Tensor:
    """What varies in scores [S, n]: the means of seeds, or the instances of one."""
    units = scores.nanmean(1) if len(scores) > 1 else scores[0]
    return units[~units.isnan()]
