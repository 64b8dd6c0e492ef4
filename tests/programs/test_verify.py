"""Values of a program are verified: supports, computed variables, conditions."""

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Normal, Uniform
from torch.testing import assert_close

from examples.programs.paper import bcmf
from gsdm_pyg import factor, let, observe, program, sample


@program
def chain(n):
    """A path in [0, 1], its steps, and a class that a table may forbid."""
    table = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    x = sample("x", Uniform(0, 1), n)
    double = let("double", 2 * x)
    total = let("total", double.sum(), role="latent")
    start = sample("z[0]", Categorical(torch.ones(3) / 3))
    sample("z[1]", Categorical(table[start]))
    factor(x[1:] >= x[:-1])
    observe("y", total + 1)
    observe("noisy", Normal(total, 0.1))


def good(num=3):
    values = chain(n=3).sample_batch(num, torch.Generator().manual_seed(0))
    return {name: value.clone() for name, value in values.items()}


def test_draws_violate_nothing():
    for name, amount in chain(n=3).violations(good()).items():
        assert_close(amount.float(), torch.zeros(amount.shape), msg=name)


@pytest.mark.parametrize(
    "name, change, broken",
    [
        ("x", lambda x: x - 2, {"support of x", "total", "y"}),
        ("x", lambda x: x.flip(-1), {"condition 1 of factor()"}),
        ("total", lambda t: t + 0.5, {"total"}),
        ("y", lambda y: y - 0.25, {"y"}),
        ("z", lambda z: torch.tensor([[0, 2]] * 3), {"support of z"}),
        ("noisy", lambda y: y + 5, set()),  # unlikely, and possible
        ("double", lambda x: x + 1, set()),  # follows from x
    ],
)
def test_what_is_changed_is_named(name, change, broken):
    values = good()
    values[name] = change(values[name])
    found = chain(n=3).violations(values)
    assert {n for n, amount in found.items() if (amount * 1.0 > 1e-3).any()} == broken


def test_violations_are_as_large_as_the_difference():
    values = good()
    values["y"] = values["y"] + torch.tensor([0.0, 0.5, -1.0])
    found = chain(n=3).violations(values)["y"]
    assert_close(found, torch.tensor([0.0, 0.5, 1.0]), atol=1e-5, rtol=0)


def test_polishing_computes_what_let_names():
    values = good()
    exact = {name: value.clone() for name, value in values.items()}
    values["total"] += 1
    values["double"] *= 3
    polished = chain(n=3).polish(values, {})
    for name in exact:
        assert_close(polished[name], exact[name])


def test_vectorized_and_single_runs_agree():
    problem = bcmf(m=2, n=3, k=2)
    values = problem.sample_batch(4, torch.Generator().manual_seed(0))
    values["E"] = values["E"] + 0.5
    together = problem.violations(values)
    for i in range(4):
        alone = problem.violations({n: v[i : i + 1] for n, v in values.items()})
        for name, amount in alone.items():
            assert_close(amount[0], together[name][i])


@program
def unnamed(n):
    x = sample("x", Bernoulli(0.5), n)
    observe("y", x + torch.randn(n))


def test_random_numbers_without_a_name_cannot_be_verified():
    values = unnamed(n=2).sample_batch(2, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="draws random numbers without a name"):
        unnamed(n=2).violations(values)
