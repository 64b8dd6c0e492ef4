"""Intervals against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from gsdm_pyg.paper.statistics import Interval, mean_interval


def half_width(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.double)


def test_interval_of_one_seed_is_student_s_of_its_instances():
    scores = 3 + 2 * normal(1, 12)
    found = mean_interval([scores])
    low, high = ttest_1samp(scores[0], 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.mean == pytest.approx(scores.mean().item())


def test_interval_of_several_seeds_is_student_s_of_their_means():
    levels = normal(3, 1)
    found = mean_interval([levels + 0.01 * normal(3, 50)])
    assert half_width(found) == pytest.approx(
        4.30265 * levels.std().item() / math.sqrt(3), rel=0.02
    )


@pytest.mark.parametrize("seeds", [1, 2, 3])
@pytest.mark.parametrize("strata", [1, 3])
def test_interval_holds_the_true_mean_in_95_percent_of_cases(seeds, strata):
    held = 0
    for case in range(400):
        levels = normal(strata, seeds, 1, seed=case) if seeds > 1 else 0.0
        scores = levels + normal(strata, seeds, 5, seed=1000 + case)
        interval = mean_interval(list(scores))
        held += interval.low <= 0 <= interval.high
    assert 362 <= held <= 396  # 95% is 380, with a standard deviation of 4.4


def test_strata_are_independent():
    """The mean of two strata has half of their variance."""
    scores = normal(1, 300)
    one, two = mean_interval([scores]), mean_interval([scores, scores])
    assert half_width(two) == pytest.approx(half_width(one) / math.sqrt(2), rel=0.01)


def test_strata_of_any_size_weigh_the_same():
    found = mean_interval([torch.zeros(1, 100), torch.ones(1, 3)])
    assert found == Interval(0.5, 0.5, 0.5)


def test_strata_of_a_single_number_are_one_sample():
    scores = normal(6, 1, 1)
    assert mean_interval(list(scores)) == mean_interval([scores[:, 0].T])


def test_a_single_number_has_an_interval_without_ends():
    assert mean_interval([torch.tensor([[2.0]])]) == Interval(2.0, -math.inf, math.inf)


def test_instances_without_a_score_do_not_count():
    scores = torch.tensor([[1.0, math.nan, 3.0, math.nan]])
    assert mean_interval([scores]) == mean_interval([torch.tensor([[1.0, 3.0]])])
    assert math.isnan(mean_interval([torch.full((1, 3), math.nan)]).mean)
    assert math.isnan(mean_interval([]).mean)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=20))
def test_interval_is_around_the_mean(values):
    found = mean_interval([torch.tensor([values], dtype=torch.double)])
    assert found.low <= found.mean <= found.high
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-9)
