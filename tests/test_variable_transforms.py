"""The scales that variables diffuse on, chosen by support and draws."""

import math

import pytest
import torch
from torch.distributions import Cauchy, Dirichlet, Laplace, LogNormal, Normal
from torch.testing import assert_close

from gsdm_pyg.transforms import Scale, choose_scale
from gsdm_pyg.variables import Categorical, Continuous

POSITIVE, UNIT = Continuous(0, math.inf), Continuous(0, 1)


def draws_of(distribution, num=4096):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return distribution.sample((num,)).double().flatten()


NORMAL = draws_of(Normal(0.0, 1.0))


@pytest.mark.parametrize(
    ("domain", "draws", "expected"),
    [
        (Continuous(), NORMAL, Scale()),
        (Continuous(), draws_of(Laplace(3.0, 2.0)), Scale()),
        (Categorical(2), (NORMAL > 0).double(), Scale()),
        (POSITIVE, NORMAL.abs(), Scale("log", 0.0, 1.0)),
        (Continuous(2, math.inf), 2 + NORMAL.exp(), Scale("log", 2.0, 1.0)),
        (Continuous(-math.inf, 3), 3 - NORMAL.exp(), Scale("log", 3.0, -1.0)),
        (UNIT, NORMAL.sigmoid(), Scale("probit", 0.0, 1.0)),
        (Continuous(-1, 3), 4 * NORMAL.sigmoid() - 1, Scale("probit", -1.0, 4.0)),
        (UNIT, draws_of(Dirichlet(torch.ones(3))), Scale("probit", 0.0, 1.0)),
    ],
)
def test_the_support_chooses_the_transform(domain, draws, expected):
    assert choose_scale(domain, draws) == expected


@pytest.mark.parametrize("distribution", [Cauchy(5.0, 3.0), LogNormal(0.0, 2.0)])
def test_heavy_tails_on_the_whole_line_are_transformed_by_asinh(distribution):
    draws = draws_of(distribution)
    scale = choose_scale(Continuous(), draws)
    assert scale.transform == "asinh"
    y = scale.apply(draws)
    assert ((y - y.mean()) / y.std()).abs().max() < 8  # 60 and more before


def test_the_center_of_a_cauchy_is_its_median_and_the_width_its_scale():
    scale = choose_scale(Continuous(), draws_of(Cauchy(5.0, 3.0), 100_000))
    assert scale.origin == pytest.approx(5, abs=0.1)
    assert scale.width == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("domain", [UNIT, POSITIVE])
def test_a_bound_with_mass_of_its_own_keeps_the_identity(domain):
    gated = NORMAL.sigmoid() * (NORMAL > -1)  # exactly 0 in a sixth of the draws
    assert choose_scale(domain, gated) == Scale()


def test_a_sparse_variable_keeps_the_identity():
    sparse = NORMAL * (NORMAL > 2)  # 0 except for the tail, and of high kurtosis
    assert choose_scale(Continuous(), sparse) == Scale()


def test_logarithms_that_spread_too_far_keep_the_identity():
    assert choose_scale(POSITIVE, (20 * NORMAL).exp()) == Scale()


def test_a_constant_keeps_the_identity():
    for domain in (Continuous(), UNIT, POSITIVE):
        assert choose_scale(domain, torch.full((9,), 0.5).double()) == Scale()


def test_uniform_draws_become_gaussian():
    even = (torch.arange(10_000).double() + 0.5) / 10_000
    y = Scale("probit", -2.0, 4.0).apply(4 * even - 2)
    assert y.mean().abs() < 1e-9 and y.square().mean() == pytest.approx(1, abs=1e-3)
    assert y.pow(4).mean() == pytest.approx(3, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("scale", "x"),
    [
        (Scale("log", 0.0, 1.0), [1e-30, 1e-7, 0.5, 3.0, 1e20]),
        (Scale("log", 2.0, -1.0), [-1e20, -5.0, 0.0, 1.999]),
        (Scale("probit", 0.0, 1.0), [1e-30, 1e-20, 1e-7, 0.3, 0.5, 0.999]),
        (Scale("probit", -3.0, 6.0), [-2.9999, 0.0, 1.0, 2.9999]),
        (Scale("asinh", 4.0, 0.5), [-1e20, -3.0, 4.0, 4.1, 1e20]),
    ],
)
def test_inverting_undoes_a_transform(scale, x, dtype):
    x = torch.tensor(x, dtype=dtype)
    assert_close(scale.invert(scale.apply(x)), x, rtol=2e-5, atol=0)


def test_transforms_are_their_formulas():
    x = torch.tensor([0.2, 0.9], dtype=torch.double)
    assert_close(Scale("log", 1.0, -1.0).apply(x), (1 - x).log())
    assert_close(Scale("probit", 0.0, 2.0).apply(x), Normal(0, 1).icdf(x / 2))
    assert_close(Scale("asinh", 0.5, 0.1).apply(x), ((x - 0.5) / 0.1).asinh())
