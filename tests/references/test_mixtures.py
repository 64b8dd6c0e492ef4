"""Models that are discrete and continuous: exact by enumeration of what is discrete."""

import pytest
import torch
from torch.distributions import Normal
from torch.testing import assert_close

from examples.mixture import Mixture, binary_configurations
from examples.programs import sparse_regression as regression
from examples.programs import switching
from gsdm_pyg import GSDM
from tests.problems.draws import draw_batch, seeded
from tests.references.oracles import PriorAnswers, weighted_moments

DRAWS = 400_000


def test_all_configurations_are_enumerated_once():
    rows = binary_configurations(3)
    assert sorted(map(tuple, rows.tolist())) == [
        (a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)
    ]
    assert binary_configurations(1).tolist() == [[0], [1]]


def test_draws_of_a_mixture_have_its_probabilities_and_moments():
    posterior = Mixture(
        configurations=torch.tensor([[0, 1], [1, 1]]),
        log_weights=torch.tensor([1.0, 4.0]).double().log() + 7,
        means=torch.tensor([[0.0, 1.0], [5.0, 0.0]]).double(),
        covariances=torch.tensor(
            [[[1.0, 0.5], [0.5, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]
        ).double(),
    )
    assert_close(posterior.probabilities(), torch.tensor([0.8, 1.0]).double())
    mean, std = posterior.moments()
    # By the law of total variance: 1 + 0.16 * 5^2, and 0.2 * 2 + 0.8 * 1 + 0.16 * 1^2.
    assert_close(mean, torch.tensor([4.0, 0.2]).double())
    assert_close(std.square(), torch.tensor([5.0, 1.36]).double())
    which, numbers = posterior.draw(20_000, seeded())
    assert_close(which.double().mean(0), posterior.probabilities(), atol=0.02, rtol=0)
    assert_close(numbers.mean(0), mean, atol=0.06, rtol=0)
    assert_close(numbers.std(0), std, atol=0.06, rtol=0)
    first = numbers[which[:, 0] == 0]
    assert_close(first.T.cov(), posterior.covariances[0], atol=0.12, rtol=0)


@pytest.mark.parametrize("y", [[0.3], [0.1, 1.2, 0.9], [-1.0, -0.9, -0.7]])
def test_switching_agrees_with_weighted_draws_from_the_prior(y):
    y = torch.tensor(y)
    drawn = draw_batch(switching.switching(length=len(y)), DRAWS)
    weights = Normal(drawn["x"], switching.NOISE).log_prob(y).sum(1)
    exact = switching.exact_posterior(y)
    probabilities, _ = weighted_moments(drawn["z"], weights)
    assert_close(exact.probabilities(), probabilities, atol=0.03, rtol=0)
    moments = weighted_moments(drawn["x"], weights)
    assert_close(exact.moments(), moments, atol=0.03, rtol=0)


@pytest.mark.parametrize(
    "X, y",
    [
        ([[1.0, 0.5]], [0.4]),
        ([[1.0, -0.5], [0.3, 1.2], [-0.7, 0.1]], [1.1, 0.2, -0.9]),
    ],
)
def test_inclusion_agrees_with_weighted_draws_from_the_prior(X, y):
    X, y = torch.tensor(X), torch.tensor(y)
    n, p = X.shape
    drawn = draw_batch(regression.sparse_regression(n=n, p=p), DRAWS)
    outputs = (drawn["gate"] * drawn["weight"]) @ X.T
    weights = Normal(outputs, regression.NOISE).log_prob(y).sum(1)
    exact = regression.exact_posterior(X, y)
    inclusion, _ = weighted_moments(drawn["gate"], weights)
    assert_close(exact.probabilities(), inclusion, atol=0.03, rtol=0)
    moments = weighted_moments(drawn["weight"], weights)
    assert_close(exact.moments(), moments, atol=0.03, rtol=0)


def test_many_rows_tell_which_inputs_matter():
    (n, p), generator = (200, 4), seeded()
    X = torch.randn(n, p, generator=generator)
    weight = torch.tensor([1.0, 0.0, -2.0, 0.0])
    y = X @ weight + regression.NOISE * torch.randn(n, generator=generator)
    exact = regression.exact_posterior(X, y)
    expected = torch.tensor([1.0, 0.0, 1.0, 0.0]).double()
    assert_close(exact.probabilities(), expected, atol=0.2, rtol=0)
    mean, std = exact.moments()
    assert_close(mean[[0, 2]].float(), weight[[0, 2]], atol=0.15, rtol=0)
    assert_close(std[[1, 3]], torch.ones(2).double(), atol=0.1, rtol=0)  # the prior's


@pytest.mark.parametrize(
    "error",
    [
        lambda n: switching.error(None, 3, 100, n),
        lambda n: regression.error(None, 4, 2, 100, n),
    ],
)
def test_errors_of_exact_samples_fall_with_their_number(error):
    few, many = error(100), error(1600)
    for name in few:  # four times the precision; rare components show late
        assert 0.15 < many[name] / few[name] < 0.4, name


@pytest.mark.slow
def test_a_trained_model_knows_regimes_and_path():
    problem = switching.switching(length=3)
    model = GSDM.from_problem(problem, width=32, layers=4, heads=2)
    model.fit(max_steps=500, batch_size=128, lr=3e-3)
    prior, trained = (
        switching.error(answers, 3, samples=200) for answers in (PriorAnswers(), model)
    )
    assert trained["probability"] < 0.5 * prior["probability"], (trained, prior)
    for name in ("mean", "spread"):
        assert trained[name] < 0.2 * prior[name], (trained, prior)


@pytest.mark.slow
def test_a_trained_model_knows_which_inputs_matter():
    problem = regression.sparse_regression(n=4, p=2)
    model = GSDM.from_problem(problem, width=32, layers=6, heads=2)
    model.fit(max_steps=600, batch_size=128, lr=3e-3)
    prior, trained = (
        regression.error(answers, 4, 2, samples=100)
        for answers in (PriorAnswers(), model)
    )
    assert trained["inclusion"] < 0.75 * prior["inclusion"], (trained, prior)
    assert trained["mean"] < 0.6 * prior["mean"], (trained, prior)
