"""Tests by exchange against enumeration of all picks."""

from itertools import product

import pytest
import torch

from gsdm_pyg.diagnostics.exchange import (
    cells_pvalue,
    dependence_pvalue,
    standard_scores,
    sum_pvalue,
)
from tests.helpers import seeded


def all_picks(rows):
    """Every way to pick one entry of each row, [ways, N]."""
    return torch.tensor(list(product(*rows.tolist())))


def test_sum_has_the_pvalue_of_enumeration():
    scores = torch.randn(5, 4, generator=seeded(0)).double()
    scores[:, 0] += 0.5
    null = all_picks(scores).sum(1)
    observed = scores[:, 0].sum()
    above = (null >= observed - 1e-9).double().mean()
    below = (null <= observed + 1e-9).double().mean()
    exact = min(1.0, 2 * float(min(above, below)))
    assert sum_pvalue(scores, 40_000, seeded(1)) == pytest.approx(exact, abs=0.01)


def test_dependence_has_the_pvalue_of_enumeration():
    scores = standard_scores(torch.randn(5, 4, generator=seeded(0)).double())
    feature = torch.tensor([[1.0], [2], [4], [-3], [0]])
    direction = (feature - feature.mean()).double()[:, 0]
    null = (all_picks(scores).double() @ direction).square()
    observed = (scores[:, 0] @ direction).square()
    exact = float((null >= observed - 1e-6).double().mean())
    found = dependence_pvalue(scores, feature, 40_000, seeded(1))
    assert found == pytest.approx(exact, abs=0.01)


def test_cells_have_the_pvalue_of_enumeration():
    cells = torch.randint(3, (6, 3), generator=seeded(0))
    picks = all_picks(cells)

    def statistic(picked):
        total = torch.zeros(len(picked), dtype=torch.double)
        for c in range(3):
            share = (cells == c).double().mean(1)
            away = (picked == c).sum(1) - share.sum()
            total += away**2 / ((share * (1 - share)).sum() + 1)
        return total

    null, observed = statistic(picks), statistic(cells[:, :1].T)
    exact = float((null >= observed - 1e-9).double().mean())
    found = cells_pvalue(cells, 40_000, seeded(1))
    assert found == pytest.approx(exact, abs=0.01)


def test_evidence_that_does_not_vary_says_nothing():
    scores = torch.randn(30, 4, generator=seeded(0)).double()
    assert dependence_pvalue(scores, torch.ones(30, 2), 99, seeded(0)) == 1.0


def test_constant_rows_have_the_score_zero():
    draws = torch.tensor([[1.0, 1, 1], [0, 1, 2]])
    scores = standard_scores(draws)
    assert scores[0].tolist() == [0, 0, 0]
    assert scores[1].square().mean().item() == pytest.approx(1)
