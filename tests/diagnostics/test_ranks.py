"""Ranks and coverage against closed forms."""

import pytest
import torch
from scipy.stats import chisquare, norm

from gsdm_pyg.diagnostics.ranks import expected_coverage, ranks, uniform_from_ranks
from tests.helpers import seeded


def test_rank_counts_the_samples_below_the_truth():
    draws = torch.tensor([[2.0, 1, 3, 1.5], [0, 1, 2, 3], [9, 1, 2, 3]])
    assert ranks(draws, seeded(0)).tolist() == [2, 0, 3]


def test_a_tie_takes_every_rank_that_it_could_have():
    draws = torch.tensor([[1.0, 0, 1, 1, 2]]).expand(3000, -1)
    counts = ranks(draws, seeded(0)).bincount(minlength=5).tolist()
    assert counts[0] == counts[4] == 0
    assert chisquare(counts[1:4]).pvalue > 1e-3


def test_discrete_ranks_of_an_exact_sampler_are_uniform():
    generator = seeded(0)
    p = torch.rand(20_000, 1, generator=generator)
    draws = (torch.rand(20_000, 10, generator=generator) < p).double()
    counts = ranks(draws, generator).bincount(minlength=10)
    assert chisquare(counts.tolist()).pvalue > 1e-3


def test_coverage_of_a_gaussian_with_wrong_spread_is_the_closed_form():
    """A central interval of level c has half-width 0.85 z((1 + c) / 2) in truth."""
    generator = seeded(0)
    draws = torch.randn(20_000, 201, generator=generator, dtype=torch.double)
    draws[:, 1:] *= 0.85
    u = uniform_from_ranks(ranks(draws, generator), 200, generator)
    levels = torch.tensor([0.5, 0.8, 0.9], dtype=torch.double)
    half = 0.85 * norm.ppf((1 + levels.numpy()) / 2)
    expected = 2 * norm.cdf(half) - 1
    found = expected_coverage(u, levels)
    assert found.tolist() == pytest.approx(expected.tolist(), abs=0.015)
