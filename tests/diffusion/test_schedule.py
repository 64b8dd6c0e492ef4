"""Noise schedules."""

import math
from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg.choices import Schedule
from gsdm_pyg.diffusion.schedule import alpha_bars, betas


@pytest.mark.parametrize("num_steps", [10, 100, 1000])
@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_schedules_lose_signal_steadily_and_never_all_of_it(schedule, num_steps):
    beta = betas(schedule, num_steps)
    alpha_bar = alpha_bars(beta)
    assert beta.shape == (num_steps,) and beta.dtype == torch.float64
    assert (beta > 0).all() and (beta < 1).all()
    assert (alpha_bar > 0).all() and (alpha_bar < 1).all()
    assert (alpha_bar.diff() < 0).all()


def test_alpha_bar_is_the_product_of_what_each_step_keeps():
    alpha_bar = alpha_bars(torch.tensor([0.1, 0.2, 0.5], dtype=torch.float64))
    assert_close(alpha_bar, torch.tensor([0.9, 0.72, 0.36], dtype=torch.float64))


def test_the_papers_schedule_is_linear_and_ends_at_0_078():
    beta = betas("paper")
    assert len(beta) == 1000
    assert_close(beta[[0, -1]], torch.tensor([1e-4, 0.005], dtype=torch.float64))
    assert_close(beta.diff(), (beta[1] - beta[0]).expand(999), rtol=1e-6, atol=0)
    assert abs(alpha_bars(beta)[-1] - 0.078) < 5e-4


def test_the_linear_schedule_ends_in_noise():
    beta = betas("linear")
    assert beta[-1] == 0.02
    assert alpha_bars(beta)[-1] < 1e-4


def test_the_cosine_schedule_follows_the_squared_cosine_down_to_1e_4():
    alpha_bar = alpha_bars(betas("cosine"))
    end = math.acos(0.01)
    for t in (0, 1, 499, 998, 999):
        angle = ((t + 1) / 1000 + 0.008) / 1.008 * end
        start = math.cos(0.008 / 1.008 * end) ** 2
        assert alpha_bar[t].item() == pytest.approx(math.cos(angle) ** 2 / start)
    assert alpha_bar[-1].item() == pytest.approx(1e-4, rel=1e-3)


def test_the_shifted_schedule_is_a_cosine_at_lower_noise():
    alpha_bar = alpha_bars(betas("shifted"))
    sigma = ((1 - alpha_bar) / alpha_bar).sqrt()
    assert_close(sigma[[0, -1]], torch.tensor([0.002, 50.0], dtype=torch.float64))
    angle = (5 * sigma).atan()
    assert_close(angle.diff(), (angle[1] - angle[0]).expand(999), rtol=1e-6, atol=0)


def test_every_step_of_a_schedule_differs_in_float32():
    for schedule in get_args(Schedule):
        assert (alpha_bars(betas(schedule)).float().diff() < 0).all()
