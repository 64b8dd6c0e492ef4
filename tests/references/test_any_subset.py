"""Linear-Gaussian posteriors at any pattern of given entries."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal
from torch.testing import assert_close

from examples.measures import hide, join
from examples.programs.any_subset import by_role, draw, error
from examples.programs.gaussian_linear import covariance, gaussian_linear
from gsdm_pyg import GSDM
from problems import StateSpace
from problems.gaussian import condition
from tests.problems.draws import draw_batch, draw_list, seeded
from tests.references.oracles import PriorAnswers

PROBLEMS = {
    "gaussian_linear": (gaussian_linear(n=3), covariance(3)),
    "state_space": (StateSpace(steps=4), StateSpace(steps=4).covariance()),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_covariance_is_that_of_the_sampler(name):
    problem, prior = PROBLEMS[name]
    values = join(draw_batch(problem, 40_000), 1)
    scale = prior.diagonal().max().item()
    assert_close(values.T.cov().double(), prior, atol=0.05 * scale, rtol=0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_joint_density_is_that_of_given_entries_times_the_conditional(name):
    problem, prior = PROBLEMS[name]
    zeros = torch.zeros(len(prior), dtype=torch.double)
    values = draw_batch(problem, 10)
    for row, given in zip(
        join(values, 1).double(), join(hide(values, seeded(1)), 1), strict=True
    ):
        known = ~given.isnan()
        mean, rest = condition(zeros, prior, given)
        posterior = MultivariateNormal(mean[~known], rest[~known][:, ~known])
        found = posterior.log_prob(row[~known])
        if known.any():
            seen = MultivariateNormal(zeros[known], prior[known][:, known])
            found = found + seen.log_prob(row[known])
        assert_close(found, MultivariateNormal(zeros, prior).log_prob(row))
        assert_close(mean[known], row[known])
        assert not rest[known].any()


def test_gaussian_linear_has_the_posterior_that_one_computes_by_hand():
    nan = math.nan
    #                      theta             x
    values = torch.tensor([nan, 0.3, nan, 0.4, nan, nan], dtype=torch.double)
    mean, rest = condition(torch.zeros(6), covariance(3), values)
    expected = torch.tensor([0.2, 0.3, 0.0, 0.4, 0.3, 0.0], dtype=torch.double)
    assert_close(mean, expected)
    variance = torch.tensor([0.05, 0.0, 0.1, 0.0, 0.1, 0.2], dtype=torch.double)
    assert_close(rest.diagonal(), variance)


def test_a_given_state_separates_past_and_future():
    problem = StateSpace(steps=5)
    (values,) = draw_list(problem, 1)
    x_given = torch.arange(5) == 2
    observed = {"x": x_given, "y": torch.ones(5).bool()}
    mean, std = problem.exact_posterior(values, observed)
    assert mean[2] == values["x"][2] and std[2] == 0
    changed = {"x": values["x"], "y": values["y"] + 3 * (torch.arange(5) > 2)}
    other, _ = problem.exact_posterior(changed, observed)
    assert_close(other[:3], mean[:3])
    assert not torch.isclose(other[3:], mean[3:]).any()
    # The state next to it: from x[2] alone, N(0.9 x[2], 0.19).
    mean, std = problem.exact_posterior(values, {"x": x_given})
    assert_close(mean[3], 0.9 * values["x"][2])
    assert_close(std[3], torch.tensor(0.19).sqrt())


def test_states_are_not_given_unless_one_says_so():
    problem = StateSpace(steps=5)
    (values,) = draw_list(problem, 1)
    found = problem.exact_posterior(values)
    assert_close(found, problem.exact_posterior({"y": values["y"]}))
    assert (found[1] > 0).all()


def test_hidden_entries_are_0_to_n_minus_1_in_number_and_of_any_place():
    generator = seeded()
    values = {
        "a": torch.rand(4000, 2, generator=generator),
        "b": torch.randint(3, (4000,), generator=generator),
    }
    given = hide(values, generator)
    known = ~join(given, 1).isnan()  # [4000, 3]
    counts = known.sum(1).bincount(minlength=4) / 4000
    assert_close(counts, torch.tensor([1.0, 1.0, 1.0, 0.0]) / 3, atol=0.04, rtol=0)
    assert_close(
        known.double().mean(0), torch.full((3,), 1 / 3).double(), atol=0.04, rtol=0
    )
    for name, value in given.items():
        kept = ~value.isnan()
        assert_close(value[kept], values[name][kept].double())


def test_exact_samples_have_the_covariance_that_is_left():
    _, prior = PROBLEMS["state_space"]
    given = join(hide(draw_batch(StateSpace(steps=4), 3), seeded(2)), 1)
    rows = [condition(torch.zeros(8), prior, row) for row in given]
    means, rest = (torch.stack(parts) for parts in zip(*rows, strict=True))
    drawn = draw(means, rest, 20_000, seeded())
    for samples, mean, left in zip(drawn, means, rest, strict=True):
        assert_close(samples.mean(0), mean, atol=0.05, rtol=0)
        assert_close(samples.T.cov(), left, atol=0.05, rtol=0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_main_conditional_gives_what_the_roles_observe(name):
    problem, _ = PROBLEMS[name]
    values = draw_batch(problem, 3)
    known = by_role(problem, values)
    assert list(known) == list(values)  # the order of the entries of the covariance
    latent, observed = values
    assert known[latent].isnan().all()
    assert_close(known[observed], values[observed].double())


@pytest.mark.parametrize("given", ["any", "roles"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_errors_of_exact_samples_are_those_of_chance(name, given):
    found = error(None, *PROBLEMS[name], patterns=200, samples=400, given=given)
    assert found["mean"] == pytest.approx(1 / 400**0.5, rel=0.2)
    assert found["spread"] == pytest.approx(1 / 800**0.5, rel=0.2)


@pytest.mark.slow
def test_a_model_trained_on_any_subset_comes_near_the_exact_posterior():
    problem, prior = PROBLEMS["gaussian_linear"]
    model = GSDM.from_problem(problem, width=32, layers=3, heads=2, observe="mixed")
    model.fit(max_steps=400, batch_size=128, lr=3e-3)
    ignorant, trained = (
        error(answers, problem, prior, samples=200)
        for answers in (PriorAnswers(), model)
    )
    for name in ("mean", "spread"):
        assert trained[name] < 0.35 * ignorant[name], (trained, ignorant)
