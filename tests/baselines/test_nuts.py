"""NUTS by Pyro on continuous programs with known posteriors."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Bernoulli, Dirichlet, Gamma, Normal, Poisson

from gsdm_pyg import observe, program, sample
from gsdm_pyg.baselines import NUTS
from problems import BCMF

nan = math.nan


@program
def counts(n):
    """A rate with a Gamma prior, counted n times; shares beside it."""
    rate = sample("rate", Gamma(2.0, 1.0))
    shares = sample("shares", Dirichlet(torch.tensor([4.0, 2.0, 2.0])))
    observe("y", Poisson(rate), (n,))
    observe("z", Normal(shares[0], 1.0))


@program
def pair():
    """Two numbers of which the second is given."""
    x = sample("x", Normal(0.0, 1.0), 2)
    observe("s", Normal(x.sum(), 1.0))


@pytest.mark.slow
def test_a_positive_rate_has_its_conjugate_posterior():
    given = {"y": torch.tensor([1, 3, 2, 0]), "shares": torch.tensor([0.5, 0.3, 0.2])}
    found = NUTS(warmup=100, chains=1).sample(counts(n=4), given, 300, generator=0)
    rate = found["rate"]
    assert rate.mean().item() == pytest.approx(8 / 5, abs=0.2)
    assert rate.std().item() == pytest.approx(8**0.5 / 5, rel=0.25)
    assert rate.min() > 0


@pytest.mark.slow
def test_shares_keep_to_their_simplex():
    given = {"y": torch.ones(1), "rate": 1.0, "z": nan}
    found = NUTS(warmup=100, chains=1).sample(counts(n=1), given, 200, generator=0)
    shares = found["shares"]
    torch.testing.assert_close(shares.sum(1), torch.ones(200))
    assert shares.mean(0)[0].item() == pytest.approx(0.5, abs=0.06)
    assert found["z"].shape == (200,)


@pytest.mark.slow
def test_a_part_of_a_variable_can_be_given():
    given = {"x": torch.tensor([nan, 1.0]), "s": 3.0}
    x = NUTS(warmup=100, chains=1).sample(pair(), given, 300, generator=0)["x"]
    assert (x[:, 1] == 1).all()
    assert x[:, 0].mean().item() == pytest.approx(1.0, abs=0.2)  # of 2 = x + noise
    assert x[:, 0].std().item() == pytest.approx(0.5**0.5, rel=0.2)


def test_classes_are_rejected():
    with pytest.raises(
        ValueError, match=r"use 'lmh' for BCMF.*\(got Bernoulli for R\)"
    ):
        NUTS().check(BCMF(m=2, n=2, k=2))


def test_counts_that_are_not_given_are_rejected():
    with pytest.raises(ValueError, match=r"\(got Poisson for y\)"):
        NUTS(warmup=1).sample(counts(n=2), {"y": torch.tensor([1.0, nan])})


def test_without_pyro_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyro.infer", None)

    @program
    def coin():
        sample("x", Bernoulli(0.5))

    with pytest.raises(ModuleNotFoundError, match="pip install pyro-ppl"):
        NUTS().check(coin())
