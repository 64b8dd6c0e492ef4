"""Regressors predict the mean of the posterior from what is observed alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gsdm_pyg import GSDM, ProblemBatches
from problems import BCMF, StateSpace
from tests.helpers import CopyTask, seeded, tiny_model

PATH = StateSpace(steps=4)


def input_of(model: GSDM, act) -> tuple[Tensor, Tensor]:
    """x_t and t that the network sees."""
    seen = []
    hook = model.diffusion.denoiser.register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[:2])
    )
    act()
    hook.remove()
    return seen[0]


def test_the_network_sees_zeros_in_place_of_noise_and_time():
    problem = BCMF(m=2, n=3, k=2)
    model = tiny_model(problem, method="regression", layers=4, scales="linear")
    batch = ProblemBatches(problem, batch_size=3).batch(0)
    latent = ~batch.observed
    given = {"E": problem.sample(seeded(0))["E"]}
    for act in (
        lambda: model.diffusion.loss(batch),
        lambda: model.sample(problem, given, 3),
    ):
        xt, t = input_of(model, act)
        assert not xt[latent].any() and xt[~latent].any() and not t.any()


def test_the_loss_has_no_randomness_of_its_own(untouched_random_state):
    problem = CopyTask(n=3)
    model = tiny_model(problem, method="regression", discrete_loss="squared")
    batch = ProblemBatches(problem, batch_size=3).batch(0)
    first, other = (model.diffusion.loss(batch, seeded(seed)) for seed in (0, 1))
    assert first == other > 0


def test_the_loss_is_the_squared_error_of_what_is_predicted():
    problem = StateSpace(steps=3)
    model = tiny_model(problem, method="regression", dropout=0.0)
    truth = problem.sample_batch(4, seeded(0))
    batch = ProblemBatches(problem, batch_size=4).batch(0)
    batch.x = batch.x.clone()
    x = torch.cat([truth["x"], truth["y"]], 1).reshape(-1, 1)
    batch.x = x
    predicted = model.sample(problem, {"y": truth["y"]})["x"][:, 0]
    scale = model.spec.variables[0].scale
    expected = ((predicted - truth["x"]) / scale).square().mean()
    torch.testing.assert_close(model.diffusion.loss(batch), expected)


@pytest.mark.slow
@pytest.mark.parametrize("edges", ["structured", "complete"])
def test_a_regressor_reaches_the_mean_of_a_linear_gaussian_model(edges):
    torch.manual_seed(0)
    model = GSDM.from_problem(
        PATH, method="regression", edges=edges, width=32, layers=5, embedding="array"
    )
    model.fit(max_steps=300, batch_size=128)
    truth = PATH.sample_batch(64, seeded(1))
    found = model.sample(PATH, {"y": truth["y"]}, 2)["x"]
    assert torch.equal(found[:, 0], found[:, 1])
    errors = []
    for y, x in zip(truth["y"], found[:, 0], strict=True):
        mean, std = PATH.exact_posterior({"y": y})
        errors.append((x - mean) / std)
    rms = torch.stack(errors).square().mean().sqrt()
    assert rms < 0.2  # answers from the prior mean: 2.2


@pytest.mark.slow
def test_a_regressor_fails_where_the_posterior_has_several_modes():
    """The paper's reason for its regressors' errors: E has many factorizations."""
    torch.manual_seed(0)
    problem = BCMF(m=4, n=4, k=3)
    model = GSDM.from_problem(problem, method="regression", width=32, layers=4)
    model.fit(max_steps=60)
    drawn = model.sample(problem, {"E": problem.sample(seeded(0))["E"]})
    spread = drawn["A"][0].std(1).max()  # over the three terms, which are alike to it
    assert spread < 1e-4
