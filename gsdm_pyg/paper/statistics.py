"""Confidence intervals: a bootstrap over seeds, and over instances within a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gsdm_pyg.seeding import keyed_generator

CONFIDENCE = 0.95
RESAMPLES = 2000
_CHUNK = 4_000_000  # draws at once, to bound memory


@dataclass(frozen=True)
class Interval:
    """A mean, and the interval that holds the true one with 95% confidence."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def mean_interval(strata: Sequence[Tensor]) -> Interval:
    """The mean of the means of several strata, with a bootstrap interval.

    In each stratum, seeds are drawn with replacement and, within each of them,
    instances: both are a source of chance. Of few seeds the interval is too narrow, by
    sqrt((S - 1) / S) where all of the spread is among S of them, and one seed tells
    nothing of it.

    Args:
        strata: Scores [S, n] of S seeds with n instances each; NaN where an instance
            has no score.
    """
    means = torch.stack([scores.double().nanmean() for scores in strata])
    drawn = torch.stack([_resampled(s.double(), i) for i, s in enumerate(strata)])
    drawn = drawn.mean(0)
    drawn = drawn[~drawn.isnan()]
    if not len(drawn) or means.isnan().any():
        return Interval(math.nan, math.nan, math.nan)
    tail = (1 - CONFIDENCE) / 2
    ends = drawn.quantile(drawn.new_tensor([tail, 1 - tail])).tolist()
    return Interval(means.mean().item(), *ends)


def _resampled(scores: Tensor, stratum: int) -> Tensor:
    """The means of resamples [R] of scores [S, n]."""
    num_seeds, num = scores.shape
    generator = keyed_generator("bootstrap", stratum, num_seeds, num)
    per_chunk = max(1, _CHUNK // scores.numel())
    means = []
    for first in range(0, RESAMPLES, per_chunk):
        count = min(per_chunk, RESAMPLES - first)
        seeds = torch.randint(num_seeds, (count, num_seeds, 1), generator=generator)
        instances = torch.randint(num, (count, num_seeds, num), generator=generator)
        means.append(scores[seeds, instances].flatten(1).nanmean(1))
    return torch.cat(means)
