"""Intervals against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsdm_pyg.paper.statistics import Interval, mean_interval

Z = 1.96


def half_width(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.double)


def test_interval_of_one_seed_is_that_of_the_standard_error():
    scores = 3 + 2 * normal(1, 400)
    found = mean_interval([scores])
    expected = Z * scores.std(correction=0).item() / math.sqrt(400)
    assert found.mean == pytest.approx(scores.mean().item())
    assert half_width(found) == pytest.approx(expected, rel=0.06)


def test_spread_among_seeds_widens_the_interval():
    """Resampling S seeds of equal instances: a variance of s2 (S - 1) / S / S."""
    levels = normal(8, 1)
    found = mean_interval([levels.expand(8, 50)])
    variance = levels.var().item() * (8 - 1) / 8 / 8
    assert half_width(found) == pytest.approx(Z * math.sqrt(variance), rel=0.08)


def test_strata_are_independent():
    """The mean of two strata has half of their variance, however alike they are."""
    scores = normal(1, 300)
    one, two = mean_interval([scores]), mean_interval([scores, scores])
    assert half_width(two) == pytest.approx(half_width(one) / math.sqrt(2), rel=0.08)


def test_strata_of_any_size_weigh_the_same():
    found = mean_interval([torch.zeros(1, 100), torch.ones(1, 3)])
    assert found == Interval(0.5, 0.5, 0.5)


def test_interval_holds_the_true_mean_in_nearly_95_percent_of_cases():
    held = 0
    for seed in range(200):
        interval = mean_interval([normal(1, 40, seed=seed)])
        held += interval.low <= 0 <= interval.high
    assert 180 <= held <= 198


def test_instances_without_a_score_do_not_count():
    scores = torch.tensor([[1.0, math.nan, 3.0, math.nan]])
    found = mean_interval([scores])
    assert found.mean == 2
    assert 1 <= found.low <= 2 <= found.high <= 3
    assert math.isnan(mean_interval([torch.full((1, 3), math.nan)]).mean)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20))
def test_interval_is_within_the_scores_and_the_same_each_time(values):
    scores = torch.tensor([values], dtype=torch.double)
    found = mean_interval([scores])
    assert found == mean_interval([scores])
    small = 1e-9
    assert min(values) - small <= found.low <= found.mean + small
    assert found.mean - small <= found.high <= max(values) + small
