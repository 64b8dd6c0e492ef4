"""The scale on which values diffuse."""

import math

import pytest
import torch

from gsdm_pyg.scaling import Scaling

CLASSES = [None, 3]  # a continuous variable in column 0, three classes in 1 to 3


def one_hot_codes() -> tuple[torch.Tensor, torch.Tensor]:
    """Each of the three classes once, and whose they are."""
    x = torch.cat([torch.zeros(3, 1), torch.eye(3)], dim=1)
    return x, torch.ones(3, dtype=torch.long)


@pytest.mark.parametrize("discrete_scale", [1.0, 0.25])
def test_one_hot_codes_have_zero_mean_and_the_scale_asked_for(discrete_scale):
    scaling = Scaling(CLASSES, [5.0, 0.0], [2.0, 1.0], discrete_scale)
    codes = scaling.standardise(*one_hot_codes())[:, 1:]
    torch.testing.assert_close(codes.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    spread = torch.full((3,), discrete_scale)
    torch.testing.assert_close(codes.std(0, correction=0), spread)


def test_scale_of_codes_leaves_continuous_variables_alone():
    scaling = Scaling(CLASSES, [5.0, 0.0], [2.0, 1.0], discrete_scale=0.25)
    x = torch.tensor([[9.0, 0.0, 0.0, 0.0]])
    x0 = scaling.standardise(x, torch.tensor([0]))
    torch.testing.assert_close(x0, torch.tensor([[2.0, 0.0, 0.0, 0.0]]))


def test_restoring_undoes_standardising():
    scaling = Scaling(CLASSES, [5.0, 0.0], [2.0, 1.0], discrete_scale=0.25)
    x, variable_id = one_hot_codes()
    x0 = scaling.standardise(x, variable_id)
    torch.testing.assert_close(scaling.restore(x0, variable_id), x)


@pytest.mark.parametrize("discrete_scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_not_finite_and_positive_is_refused(discrete_scale):
    message = rf"discrete_scale must be finite and above 0 \(got {discrete_scale}\)"
    with pytest.raises(ValueError, match=message):
        Scaling(CLASSES, [5.0, 0.0], [2.0, 1.0], discrete_scale)


def test_nothing_to_scale_is_refused():
    with pytest.raises(ValueError, match=r"at least one variable.*\(got none\)"):
        Scaling([], [], [])
