"""VAEAC: any subset given, beside exact posteriors; the bound it maximizes."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from gsdm_pyg import GSDM, ProblemBatches
from problems import StateSpace
from tests.helpers import CopyTask, seeded, tiny_model

nan = math.nan
PATH = StateSpace(steps=3)  # x and y are six correlated Gaussian numbers


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model = GSDM.from_problem(
        PATH,
        method="vaeac",
        embedding="independent",
        observe="mixed",
        width=64,
        layers=3,
    )
    return model.fit(max_steps=1000, batch_size=256)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"y": [1.0, 0.5, -0.2]},
        {"y": [nan, 1.5, nan]},
        {"x": [nan, nan, 1.2]},
        {"x": [-0.6, nan, nan], "y": [nan, nan, 0.1]},
        {},
    ],
    ids=str,
)
def test_a_correlated_gaussian_given_any_subset(trained, given):
    given = {name: torch.tensor(value) for name, value in given.items()}
    samples = trained.sample(PATH, given, 4000, generator=0)
    known = {name: ~value.isnan() for name, value in given.items()}
    mean, std = PATH.exact_posterior(given, known)
    free = std > 0
    error = (samples["x"].mean(0) - mean)[free] / std[free]
    assert error.abs().max() < 0.35  # from the prior: 1 to 3
    assert (samples["x"].std(0)[free] / std[free] - 1).abs().max() < 0.25
    for name, value in given.items():
        kept = samples[name][:, known[name]]
        assert torch.equal(kept, value[known[name]].expand_as(kept))


@pytest.mark.slow
def test_its_samples_have_the_correlations_of_the_posterior(trained):
    x = trained.sample(PATH, {}, 4000, generator=0)["x"]
    expected = PATH.covariance()[:3, :3].float()
    torch.testing.assert_close(x.T.cov(), expected, rtol=0, atol=0.12)


@pytest.mark.slow
def test_the_bound_is_below_the_density_and_close_to_it(trained):
    """E log p(x, y) of the standardized numbers, per latent node of them."""
    batches = ProblemBatches(
        PATH, options=trained.settings.graph, batch_size=4096, observe="roles"
    )
    batch = batches.batch(0)
    batch.observed = torch.zeros_like(batch.observed)  # nothing is given
    with torch.no_grad():
        bound = -trained.diffusion.loss(batch, seeded(0)).item()
    values = batch.x.view(-1, 6).double()
    exact = MultivariateNormal(torch.zeros(6).double(), PATH.covariance())
    scale = sum(3 * math.log(v.scale) for v in trained.spec.variables)
    density = (exact.log_prob(values).mean().item() + scale) / 6
    assert density - 0.15 < bound < density + 0.01


@pytest.mark.slow
def test_classes_and_numbers_together():
    torch.manual_seed(0)
    problem = CopyTask(n=2)
    model = GSDM.from_problem(
        problem, method="vaeac", embedding="independent", width=64, layers=3
    )
    metrics = model.fit(max_steps=500, batch_size=128).evaluate(problem, 64)
    assert metrics.metrics["rmse"] < 0.5  # an answer from the prior: 2.8
    assert metrics.metrics["wrong"] < 0.2  # from the prior: 0.65


def test_latent_values_do_not_reach_what_is_drawn():
    model = tiny_model(
        PATH, method="vaeac", embedding="independent", observe="mixed", layers=2
    )
    batches = ProblemBatches(PATH, options=model.settings.graph, batch_size=2)
    batch = batches.batch(0)
    other = batch.clone()
    other.x = torch.where(batch.observed[:, None], batch.x, batch.x + 5)
    first, second = (
        model.diffusion.sample(b, model.sampler, seeded(0)) for b in (batch, other)
    )
    torch.testing.assert_close(first, second)


def test_observed_values_reach_what_is_drawn():
    model = tiny_model(PATH, method="vaeac", embedding="independent", layers=2)
    given = [{"y": torch.zeros(3)}, {"y": torch.tensor([0.0, 0.0, 1.0])}]
    first, other = (model.sample(PATH, g, generator=0)["x"] for g in given)
    assert (first != other).all()
