"""C2ST against the best accuracy that any classifier can have."""

import math

import pytest
import torch

from gsdm_pyg.diagnostics import c2st
from tests.problems.draws import seeded

pytest.importorskip("sklearn")


def test_samples_of_one_distribution_cannot_be_distinguished():
    x, y = torch.randn(2, 1500, 2, generator=seeded())
    assert c2st(x, y) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_shifted_gaussians_are_distinguished_as_well_as_bayes_can(shift):
    x, y = torch.randn(2, 1500, 1, generator=seeded())
    best = 0.5 * (1 + math.erf(shift / 2 / math.sqrt(2)))  # Phi(shift / 2)
    assert c2st(x + shift, y) == pytest.approx(best, abs=0.03)


def test_classes_are_compared_by_their_shares():
    generator = seeded()
    x = torch.tensor([0.2, 0.8]).multinomial(1500, True, generator=generator)
    y = torch.tensor([0.6, 0.4]).multinomial(1500, True, generator=generator)
    assert c2st({"z": x}, {"z": y}) == pytest.approx(0.7, abs=0.03)


def test_variables_that_the_reference_does_not_have_are_left_out():
    x, y, other = torch.randn(3, 300, 1, generator=seeded())
    found = c2st({"x": x, "other": other + 9}, {"x": y})
    assert found == c2st({"x": x}, {"x": y})


def test_wrong_samples_are_refused():
    x = torch.randn(20, 2)
    with pytest.raises(ValueError, match=r"same shape .*\(20, 2\) and \(20, 3\)"):
        c2st(x, torch.randn(20, 3))
    with pytest.raises(ValueError, match=r"must be finite \(got nan\)"):
        c2st(x, x.clone().fill_(math.nan))
    with pytest.raises(ValueError, match=r"got none of b"):
        c2st({"a": x}, {"b": x})
    with pytest.raises(TypeError, match="both be arrays, or both hold arrays by name"):
        c2st({"a": x}, x)
    with pytest.raises(ValueError, match=r"folds .*\(got 1\)"):
        c2st(x, x, folds=1)
