"""Reliability: exact for exact samplers, and it finds probabilities that are off."""

import pytest
import torch

from gsdm_pyg.diagnostics.reliability import (
    confidence_pvalue,
    confidence_scores,
    reliability_curve,
    reliability_pvalue,
)
from tests.helpers import seeded


def classes(p, said, num_samples, generator):
    """Truths of probabilities p and samples of probabilities `said`, both [N, K]."""
    truth = torch.multinomial(p, 1, generator=generator)
    samples = torch.multinomial(said, num_samples, True, generator=generator)
    return torch.cat([truth, samples], 1).double()


def probabilities(num, num_classes, generator):
    return torch.randn(num, num_classes, generator=generator).mul(1.5).softmax(1)


def tempered(p, power):
    return p**power / (p**power).sum(1, keepdim=True)


def test_few_exact_samples_lie_on_the_diagonal():
    """The share among 5 samples alone would look overconfident."""
    p = probabilities(20_000, 2, seeded(0))
    draws = classes(p, p, 5, seeded(1))
    curve = reliability_curve(draws, 2)
    assert len(curve.count) == 5
    away = (curve.frequency - curve.predicted) / curve.error
    assert away.abs().max() < 4
    alone = (draws[:, 1:] == 1).double().mean(1) == 1
    assert (draws[alone, 0] == 1).double().mean() < 0.95


@pytest.mark.parametrize("test", [reliability_pvalue, confidence_pvalue])
def test_pvalues_of_an_exact_sampler_are_at_most_uniform(test):
    found = []
    for seed in range(200):
        generator = seeded(seed)
        p = probabilities(100, 3, generator)
        found.append(test(classes(p, p, 20, generator), 3, 199, generator))
    rejected = (torch.tensor(found) <= 0.1).sum()
    assert 7 <= rejected <= 35  # of 200 at 10%, within four standard errors


@pytest.mark.parametrize(("power", "sign"), [(1.6, -1), (0.6, 1)])
def test_wrong_confidence_is_rejected_with_its_direction(power, sign):
    p = probabilities(500, 3, seeded(0))
    draws = classes(p, tempered(p, power), 30, seeded(1))
    assert confidence_pvalue(draws, 3, 1999, seeded(2)) < 0.01
    assert confidence_scores(draws, 3)[:, 0].sum() * sign > 0


def test_a_class_that_is_predicted_too_often_is_rejected():
    p = torch.full((500, 2), 0.5)
    said = torch.tensor([[0.6, 0.4]]).expand(500, 2)
    draws = classes(p, said, 30, seeded(0))
    assert reliability_pvalue(draws, 2, 1999, seeded(1)) < 0.01
