"""The scale on which values diffuse."""

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg.diffusion.scaling import Scaling
from gsdm_pyg.problem_spec import VariableSpec
from gsdm_pyg.variables import Role

# a continuous variable in column 0, three classes in 1 to 3
VARIABLES = [
    VariableSpec(name="a", num_classes=None, role=Role.LATENT, loc=5.0, scale=2.0),
    VariableSpec(name="b", num_classes=3, role=Role.LATENT, loc=1.0, scale=9.0),
]
CODES = torch.cat([torch.zeros(3, 1), torch.eye(3)], dim=1)  # each class once
DISCRETE = torch.ones(3, dtype=torch.long)


@pytest.mark.parametrize("discrete_scale", [1.0, 0.25])
def test_one_hot_codes_have_zero_mean_and_the_scale_asked_for(discrete_scale):
    scaling = Scaling(VARIABLES, discrete_scale)(DISCRETE)
    codes = scaling.standardize(CODES)[:, 1:]
    assert_close(codes.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    assert_close(codes.std(0, correction=0), torch.full((3,), discrete_scale))


def test_the_scale_of_codes_does_not_change_continuous_variables():
    scaling = Scaling(VARIABLES, discrete_scale=0.25)(torch.tensor([0]))
    x0 = scaling.standardize(torch.tensor([[9.0, 0.0, 0.0, 0.0]]))
    assert_close(x0, torch.tensor([[2.0, 0.0, 0.0, 0.0]]))


def test_foreign_columns_are_zero():
    scaling = Scaling(VARIABLES)(torch.tensor([0, 1]))
    assert torch.equal(scaling.columns, torch.tensor([[1, 0, 0, 0], [0, 1, 1, 1]]) > 0)
    assert torch.equal(scaling.discrete, torch.tensor([[False], [True]]))
    x = torch.full((2, 4), 7.0)
    for values in (scaling.standardize(x), scaling.restore(x)):
        assert torch.equal(values != 0, scaling.columns)


def test_restoring_undoes_standardizing():
    x = torch.cat([CODES, torch.tensor([[9.0, 0.0, 0.0, 0.0]])])
    scaling = Scaling(VARIABLES, discrete_scale=0.25)(torch.tensor([1, 1, 1, 0]))
    assert_close(scaling.restore(scaling.standardize(x)), x)


def test_nothing_to_scale_is_refused():
    with pytest.raises(ValueError, match=r"at least one variable.*\(got none\)"):
        Scaling([])
