"""Posterior predictive checks of a model whose posterior is known."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Normal, Uniform

from gsdm_pyg import keyed_generator, observe, program, sample
from gsdm_pyg.diagnostics import predictive_check

N = 50


@program
def normal_mean():
    mu = sample("mu", Normal(0.0, 10.0))
    observe("y", Normal(mu, 1.0), N)


class Exact:
    """mu | y ~ N(mean(y), 1 / N), but for the prior's hundredth of a percent."""

    def sample(self, problem, given=None, num_samples=1, *, generator=None, **sampler):
        y = torch.as_tensor(given["y"]).double()
        known = ~y.isnan()
        spread = 1 / math.sqrt(int(known.sum()))
        noise = torch.randn(num_samples, generator=generator)
        mu = y[known].mean() + spread * noise
        return {"mu": mu.float(), "y": y.float().expand(num_samples, -1)}


def draw(spread):
    noise = torch.randn(N, generator=keyed_generator("data"))
    return 3.0 + spread * (noise - noise.mean()) / noise.std()


def test_replicated_statistics_have_their_predictive_distribution():
    found = predictive_check(Exact(), normal_mean(), {"y": draw(1.0)}, num_samples=2000)
    mean = found.replicated["mean(y)"]
    assert mean.mean() == pytest.approx(3.0, abs=0.02)
    assert mean.std() == pytest.approx(math.sqrt(2 / N), rel=0.1)  # mu, and y given mu
    assert found.data["std(y)"] == pytest.approx(1.0, abs=1e-5)
    assert 0.2 < found.tail_probabilities["std(y)"] < 0.8
    assert found.replications["y"].shape == (2000, N)


def test_data_that_the_model_cannot_have_made_are_in_the_tail():
    found = predictive_check(Exact(), normal_mean(), {"y": draw(2.0)})
    tails = found.tail_probabilities
    assert tails["std(y)"] < 0.01 and 0.2 < tails["mean(y)"] < 0.8
    assert "std(y)" in str(found)
    assert len(found.figure().axes) == 4


def test_missing_entries_count_nowhere():
    y = draw(1.0)
    y[10:] = torch.nan
    found = predictive_check(
        Exact(), normal_mean(), {"y": y}, {"known": lambda a: (~a["y"].isnan()).sum(1)}
    )
    assert found.data == {"known": 10.0}
    assert (found.replicated["known"] == 10).all()


def test_classes_are_compared_by_their_shares():
    @program
    def coin():
        p = sample("p", Uniform(0.0, 1.0))
        observe("heads", Bernoulli(p), 20)

    class Beta:
        def sample(self, problem, given=None, num_samples=1, **others):
            heads = given["heads"]
            ones = heads.sum()
            posterior = torch.distributions.Beta(1.0 + ones, 1.0 + len(heads) - ones)
            return {
                "p": posterior.sample((num_samples,)),
                "heads": heads.expand(num_samples, -1),
            }

    torch.manual_seed(0)
    heads = (torch.arange(20) < 15).long()
    found = predictive_check(Beta(), coin(), {"heads": heads}, num_samples=2000)
    assert found.data == {"share(heads=1)": 0.75}
    expected = 16 / 22  # the mean of Beta(16, 6)
    assert found.replicated["share(heads=1)"].mean() == pytest.approx(
        expected, abs=0.02
    )
