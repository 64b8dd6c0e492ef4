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


# transforms: a log-normal, a uniform, one with an upper end, heavy tails, identity


def spec(name, transform="identity", origin=0.0, width=1.0, loc=0.0, scale=1.0):
    return VariableSpec(
        name=name,
        num_classes=None,
        role=Role.LATENT,
        loc=loc,
        scale=scale,
        transform=transform,
        origin=origin,
        width=width,
    )


TRANSFORMED = [
    VARIABLES[1],  # three classes in columns 0 to 2, real numbers in 3
    spec("positive", "log", loc=2.0, scale=0.5),
    spec("bounded", "probit", -2.0, 4.0),
    spec("negative", "log", 1.0, -1.0, loc=-1.0, scale=2.0),
    spec("heavy", "asinh", 3.0, 0.1, loc=1.0, scale=2.0),
    spec("plain", loc=5.0, scale=2.0),
]


def nodes_of(variable, values):
    """Values of one variable as nodes: the scaling of them, and x."""
    x = torch.zeros(len(values), 4)
    x[:, 3] = torch.as_tensor(values)
    index = [v.name for v in TRANSFORMED].index(variable)
    return Scaling(TRANSFORMED)(torch.full((len(values),), index)), x


def test_each_node_of_a_mixed_batch_has_its_own_transform():
    scaling = Scaling(TRANSFORMED)(torch.arange(6))
    x = torch.zeros(6, 4)
    x[0, 1] = 1.0
    x[1:, 3] = torch.tensor([torch.e, 0.0, 0.0, 3.0, 9.0])
    x0 = scaling.standardize(x)
    expected = torch.tensor([(1 - 2) / 0.5, 0.0, (0 + 1) / 2, (0 - 1) / 2, 2.0])
    assert_close(x0[1:, 3], expected)
    assert_close(
        x0[0],
        Scaling(VARIABLES)(torch.tensor([1])).standardize(
            torch.tensor([[0.0, 0.0, 1.0, 0.0]])
        )[0, [1, 2, 3, 0]],
    )
    assert not x0[1:, :3].any()
    assert_close(scaling.restore(x0)[1:], x[1:], rtol=1e-5, atol=1e-6)
    assert_close(scaling.restore(x0)[0, :3], x[0, :3])


@pytest.mark.parametrize(
    ("variable", "values"),
    [
        ("positive", torch.logspace(-4, 6, 50)),
        ("bounded", torch.linspace(-2, 2, 1001)),
        ("negative", 1 - torch.logspace(-4, 6, 50)),
        ("heavy", torch.cat([-torch.logspace(-3, 5, 40), torch.logspace(-3, 5, 40)])),
        ("plain", torch.linspace(-50, 50, 11)),
    ],
)
def test_restoring_undoes_standardizing_over_the_whole_support(variable, values):
    scaling, x = nodes_of(variable, values)
    x0 = scaling.standardize(x)
    assert x0.isfinite().all()
    assert_close(scaling.restore(x0), x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("variable", "bound"),
    [("positive", 0.0), ("bounded", -2.0), ("bounded", 2.0), ("negative", 1.0)],
)
def test_a_bound_is_finite_and_comes_back(variable, bound):
    scaling, x = nodes_of(variable, [bound])
    x0 = scaling.standardize(x)
    assert x0.isfinite().all() and x0.abs().max() < 40
    assert_close(scaling.restore(x0), x, rtol=0, atol=2e-6)


@pytest.mark.parametrize("variable", ["positive", "bounded", "negative", "heavy"])
def test_any_sample_is_restored_inside_of_the_support(variable):
    scaling, x = nodes_of(variable, [0.0] * 5)
    x[:, 3] = torch.tensor([-1e30, -50.0, 0.0, 50.0, 1e30])
    value = scaling.restore(x)[:, 3]
    assert value.isfinite().all() and len(value.unique()) == 3  # both ends, the middle
    low, high = {"bounded": (-2, 2), "positive": (0, 1e38)}.get(variable, (-1e38, 1e38))
    assert low < value.min() and value.max() < high


def test_one_hot_codes_are_never_transformed():
    scaling, codes = (
        Scaling(TRANSFORMED)(torch.zeros(3, dtype=torch.long)),
        torch.eye(3),
    )
    x = torch.cat([codes, torch.zeros(3, 1)], 1)
    assert torch.equal(scaling.standardize(x), scaling.standardize_codes(x))


def test_variables_without_transforms_cost_nothing():
    assert Scaling(VARIABLES)(torch.tensor([0, 1])).transforms is None
