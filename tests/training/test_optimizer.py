"""The optimizer of a config, and the learning rate of each step."""

from __future__ import annotations

import math

import pytest
import torch

from gsdm_pyg import Denoiser
from gsdm_pyg.settings import OptimizerSettings
from gsdm_pyg.training.muon import Muon
from gsdm_pyg.training.optimizer import build_optimizer
from tests.helpers import tiny_model
from tests.training.runs import watched


def test_hidden_matrices_are_the_square_weights_of_the_blocks():
    denoiser = Denoiser(num_columns=3, num_variables=4, width=8, layers=2)
    shapes = [tuple(p.shape) for p in denoiser.hidden_matrices()]
    assert sorted(shapes) == sorted(2 * [*5 * [(8, 8)], (24, 8)])


def test_muon_gets_the_hidden_matrices_and_adamw_the_rest():
    diffusion = tiny_model().diffusion
    settings = OptimizerSettings(
        lr=0.1, matrix_lr=0.2, betas=(0.8, 0.9), weight_decay=0.3
    )
    optimizer = build_optimizer(diffusion, settings)
    assert isinstance(optimizer, Muon)
    matrices, others = optimizer.param_groups
    assert (matrices["lr"], others["lr"], others["betas"]) == (0.2, 0.1, (0.8, 0.9))
    assert {matrices["weight_decay"], others["weight_decay"]} == {0.3}
    hidden = {id(p) for p in diffusion.denoiser.hidden_matrices()}
    assert {id(p) for p in matrices["params"]} == hidden
    everything = {id(p) for p in diffusion.parameters()}
    assert {id(p) for p in others["params"]} == everything - hidden


def test_adamw_is_that_of_torch_for_all_parameters():
    diffusion = tiny_model().diffusion
    settings = OptimizerSettings(
        name="adamw", lr=0.1, betas=(0.8, 0.9), weight_decay=0.3
    )
    optimizer = build_optimizer(diffusion, settings)
    assert type(optimizer) is torch.optim.AdamW
    (group,) = optimizer.param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in diffusion.parameters()]
    assert (group["lr"], group["betas"], group["weight_decay"]) == (
        0.1,
        (0.8, 0.9),
        0.3,
    )


def factor(step: int, progress: float, warmup_steps: int) -> float:
    """Linear warm-up times half a cosine."""
    decay = 0.5 * (1 + math.cos(math.pi * progress))
    return min(1.0, (step + 1) / warmup_steps) * decay


@pytest.mark.slow
@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_learning_rate_of_every_step_is_that_of_the_formula(name):
    settings = {"name": name, "lr": 1e-2, "matrix_lr": 5e-2, "warmup_steps": 4}
    training = watched(12, optimizer=settings)
    peaks = [5e-2, 1e-2] if name == "muon" else [1e-2]
    for step, rates in enumerate(training.rates):
        expected = [peak * factor(step, step / 12, 4) for peak in peaks]
        assert rates == pytest.approx(expected, rel=1e-6)
    assert len(training.rates) == 12


@pytest.mark.slow
def test_learning_rate_without_warm_up_starts_at_its_peak():
    training = watched(3, optimizer={"lr": 1e-2, "warmup_steps": 0})
    assert training.rates[0][-1] == pytest.approx(1e-2)


@pytest.mark.slow
def test_learning_rate_of_a_run_limited_by_time_follows_the_clock():
    watched(1)  # compiles the kernels
    limit = {"max_time": "00:00:00:02"}
    training = watched(trainer=limit, optimizer={"lr": 1.0, "warmup_steps": 1})
    assert len(training.rates) > 5
    earlier = 0.0  # seconds at the step before, after which the rate was set
    for (*_, rate), seconds in zip(training.rates, training.seconds, strict=True):
        assert factor(1, seconds / 2, 1) <= rate <= factor(1, earlier / 2, 1)
        earlier = seconds
    assert training.rates[-1][-1] < 0.5 * training.rates[0][-1]
