"""Distributions are drawn for many instances at once, as torch draws them."""

import pytest
import torch
from torch import distributions as D

from gsdm_pyg import program, sample

PROBABILITIES = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
DISTRIBUTIONS = [
    D.HalfCauchy(2.0),
    D.Exponential(3.0),
    D.Laplace(1.0, 2.0),
    D.StudentT(5.0),
    D.Weibull(1.0, 2.0),
    D.Beta(2.0, 3.0),
    D.Dirichlet(torch.tensor([1.0, 2.0, 3.0])),
    D.Multinomial(9, torch.tensor([0.2, 0.3, 0.5])),
    D.MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 2.0]])),
    D.Independent(D.Beta(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])), 1),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda d: str(d)[:15])
def test_vectorized_draws_have_the_quantiles_of_the_distribution(distribution, caplog):
    @program
    def one():
        sample("x", distribution, 2)

    num = 10_000
    drawn = one().sample_batch(num, torch.Generator().manual_seed(0))["x"].float()
    assert "instance by instance" not in caplog.text
    assert drawn.shape == (num, 2, *distribution.event_shape)
    torch.manual_seed(0)
    exact = distribution.sample((num, 2)).float()
    # How often the draws are below each quantile: exact up to 4 standard errors.
    quantiles = exact.quantile(PROBABILITIES.view(-1), 0)
    below, expected = (
        (x <= quantiles[:, None]).float().mean(1) for x in (drawn, exact)
    )
    torch.testing.assert_close(below, expected, atol=4 * (0.5 / num) ** 0.5, rtol=0)


def test_instances_of_one_batch_differ():
    @program
    def one():
        sample("x", D.HalfCauchy(torch.ones(3)))

    drawn = one().sample_batch(100)["x"]
    assert drawn.unique().numel() == drawn.numel()
