"""A hierarchical normal model with groups of varying size: exact on a grid."""

import pytest
import torch
from torch.distributions import Normal
from torch.testing import assert_close

from examples.programs.hierarchical_normal import (
    error,
    exact_posterior,
    hierarchical_normal,
    members,
)
from gsdm_pyg import GSDM
from tests.problems.draws import draw_batch, seeded
from tests.references.oracles import PriorAnswers, weighted_moments

CASES = [
    ((1,), [0.7]),
    ((2, 3), [0.3, -0.6, 1.5, 2.4, 1.1]),
    ((1, 4, 1), [-0.5, 0.2, 1.0, 0.1, -0.8, 0.9]),
]


@pytest.mark.parametrize("groups, y", CASES)
def test_the_grid_agrees_with_weighted_draws_from_the_prior(groups, y):
    y = torch.tensor(y)
    drawn = draw_batch(hierarchical_normal(groups=groups), 500_000)
    at = Normal(drawn["theta"][:, members(groups)], drawn["sigma"][:, None])
    weights = at.log_prob(y).sum(1)
    exact = exact_posterior(y, groups).moments()
    for name, moments in exact.items():
        found = weighted_moments(drawn[name].view(len(weights), -1), weights)
        assert_close(moments, found, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("groups, y", CASES)
def test_the_grid_is_fine_enough(groups, y):
    coarse, fine = (
        exact_posterior(torch.tensor(y), groups, points).moments()
        for points in (300, 600)
    )
    assert_close(coarse, fine, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("groups, y", CASES)
def test_draws_have_the_moments(groups, y):
    posterior = exact_posterior(torch.tensor(y), groups)
    drawn = posterior.draw(40_000, seeded())
    for name, (mean, std) in posterior.moments().items():
        values = drawn[name].view(40_000, -1)
        assert_close(values.mean(0), mean, atol=0.02, rtol=0)
        assert_close(values.std(0), std, atol=0.02, rtol=0)


def test_groups_of_one_model_vary_in_number_and_size():
    sizes = {"length": (1, 3), "each": (1, 4)}
    family = hierarchical_normal.family(groups=sizes)
    problems, _ = family.draw_many(200, seeded())
    for problem in problems:
        values = draw_batch(problem, 2)
        assert values["theta"].shape == (2, len(problem.groups))
        assert values["y"].shape == (2, sum(problem.groups))
    assert {len(problem.groups) for problem in problems} == {1, 2, 3}
    assert members((2, 1, 3)).tolist() == [0, 0, 1, 2, 2, 2]


def test_errors_of_exact_samples_fall_with_their_number():
    few, many = (error(None, (2, 3), 60, num) for num in (100, 1600))
    for name in few.keys() - {"scales at bounds"}:  # four times the precision
        assert many[name] == pytest.approx(few[name] / 4, rel=0.3), name
    assert many["scales at bounds"] == 0


@pytest.mark.slow
def test_a_trained_model_knows_the_means_and_scales_of_groups():
    family = hierarchical_normal.family(groups={"length": 2, "each": (2, 4)})
    model = GSDM.from_problem(family, width=32, layers=4, heads=2)
    model.fit(max_steps=500, batch_size=64, lr=3e-3)
    prior, trained = (
        error(answers, (2, 4), samples=200) for answers in (PriorAnswers(), model)
    )
    for name in ("mu mean", "sigma mean", "theta mean", "theta spread"):
        assert trained[name] < 0.4 * prior[name], (name, trained, prior)
    assert trained["tau mean"] < 0.8 * prior["tau mean"]  # two groups say little of it
    assert trained["scales at bounds"] == 0
