"""Simultaneous bands against enumeration, simulation and a known distribution."""

from itertools import product
from math import factorial, prod

import numpy as np
import pytest
import torch
from scipy.stats import binom

from gsdm_pyg.diagnostics.ecdf import ecdf_band, ecdf_pvalue, uniform_counts
from tests.helpers import seeded


def all_counts(num, num_bins):
    """Every way to distribute N values over K bins, with its probability."""
    for counts in product(range(num + 1), repeat=num_bins):
        if sum(counts) == num:
            ways = factorial(num) / prod(map(factorial, counts))
            yield torch.tensor(counts), ways / num_bins**num


def smallest_tail(counts):
    num, num_bins = int(counts.sum()), len(counts)
    below, tails = 0, []
    for k in range(1, num_bins):
        below += int(counts[k - 1])
        masses = binom.pmf(np.arange(num + 1), num, k / num_bins)
        tails.append(2 * min(masses[: below + 1].sum(), masses[below:].sum()))
    return min(tails)


@pytest.mark.parametrize(("num", "num_bins"), [(5, 4), (8, 3), (3, 5)])
def test_pvalue_is_the_probability_of_a_statistic_as_small(num, num_bins):
    table = [(c, p, smallest_tail(c)) for c, p in all_counts(num, num_bins)]
    for counts, _, tail in table[:: max(1, len(table) // 12)]:
        exact = sum(p for _, p, other in table if other <= tail * (1 + 1e-9))
        assert ecdf_pvalue(counts) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_band_contains_all_counts_with_at_least_its_probability(coverage):
    lower, upper = ecdf_band(8, 3, coverage)
    inside = 0.0
    for counts, p in all_counts(8, 3):
        below = counts.cumsum(0)[:-1].numpy()
        inside += p * bool(((below >= lower) & (below <= upper)).all())
    assert coverage <= inside < 1


def test_band_of_many_values_has_its_coverage_within_the_error_of_simulation():
    lower, upper = (torch.from_numpy(edge) for edge in ecdf_band(300, 31))
    u = torch.rand(2000, 300, generator=seeded(0))
    edges = torch.arange(1, 31) / 31
    below = torch.stack([(u < edge).sum(1) for edge in edges], 1)
    inside = ((below >= lower) & (below <= upper)).all(1).double().mean()
    assert inside == pytest.approx(0.95, abs=0.02)  # four standard errors


def test_ecdf_leaves_its_band_exactly_where_the_test_rejects():
    lower, upper = (torch.from_numpy(edge) for edge in ecdf_band(100, 20))
    for seed in range(100):
        u = torch.rand(100, generator=seeded(seed)) ** 1.3
        counts = uniform_counts(u, 20)
        below = counts.cumsum(0)[:-1]
        inside = bool(((below >= lower) & (below <= upper)).all())
        assert inside == (ecdf_pvalue(counts) > 0.05)


def test_concentrated_values_have_a_vanishing_pvalue():
    counts = torch.zeros(21, dtype=torch.long)
    counts[10] = 200
    assert ecdf_pvalue(counts) < 1e-12
