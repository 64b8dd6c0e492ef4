"""Self-conditioning: the denoiser sees its last estimate of x0."""

from __future__ import annotations

import pytest
import torch

from gsdm_pyg import GSDM, ProblemBatches
from gsdm_pyg.data import keyed_generator
from problems import BCMF

PROBLEM = BCMF(m=2, n=3, k=2)


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = GSDM.from_problem(
        PROBLEM, width=16, layers=1, heads=2, self_conditioning=True
    )
    for weight in model.denoiser.hidden_matrices():
        torch.nn.init.normal_(weight, std=0.1)  # the branches begin at zero
    return model


@pytest.fixture
def estimates(model):
    """The estimates that the denoiser is given, in the order of its calls."""
    seen = []
    model.denoiser.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[-1]))
    return seen


def test_training_makes_an_estimate_in_half_of_its_steps(model, estimates):
    batch = ProblemBatches(PROBLEM, batch_size=2).batch(0)
    for step in range(40):
        model.loss(batch, keyed_generator("noise", step))
    extra = len(estimates) - 40
    assert 10 <= extra <= 30
    assert sum(bool(estimate.any()) for estimate in estimates) == extra


def test_estimates_are_zero_where_nodes_are_observed(model, estimates):
    batch = ProblemBatches(PROBLEM, batch_size=2).batch(0)
    for step in range(8):
        model.loss(batch, keyed_generator("noise", step))
    (used, *_) = [estimate for estimate in estimates if estimate.any()]
    assert not used[batch.observed].any()
    assert used[~batch.observed].any(1).all()


def test_the_estimate_changes_the_prediction_but_takes_no_gradient(model, estimates):
    batch = ProblemBatches(PROBLEM, batch_size=2).batch(0)
    step = next(
        i
        for i in range(20)
        if model.loss(batch, keyed_generator("noise", i)) is not None
        and estimates[-1].any()
    )
    assert not estimates[-1].requires_grad
    with_estimate = model.loss(batch, keyed_generator("noise", step))
    model.denoiser.embed_estimate.weight.data.zero_()
    without = model.loss(batch, keyed_generator("noise", step))
    assert (with_estimate - without).abs() > 1e-5


def test_sampling_feeds_each_estimate_to_the_next_step(model, estimates):
    truth = PROBLEM.sample(torch.Generator().manual_seed(0))
    model.sample(PROBLEM, {"E": truth["E"]}, steps=4, generator=keyed_generator("s"))
    assert len(estimates) == 4
    assert not estimates[0].any()
    assert all(bool(estimate.any()) for estimate in estimates[1:])
    assert not torch.equal(estimates[1], estimates[2])


def test_a_restart_goes_on_from_the_last_estimate(model, estimates):
    model.sample(PROBLEM, steps=5, restarts=2, generator=keyed_generator("s"))
    assert len(estimates) == 5 + 2 * 2
    assert all(bool(estimate.any()) for estimate in estimates[1:])


def test_every_parameter_gets_a_gradient_whatever_the_coin_says(model):
    batch = ProblemBatches(PROBLEM, batch_size=2).batch(0)
    for step in range(4):
        model.zero_grad()
        model.loss(batch, keyed_generator("noise", step)).backward()
        assert all(p.grad is not None for p in model.parameters())


def test_a_saved_model_remembers(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    loaded = GSDM.from_pretrained(tmp_path / "model")
    assert loaded.self_conditioning
    assert torch.equal(
        loaded.denoiser.embed_estimate.weight, model.denoiser.embed_estimate.weight
    )
