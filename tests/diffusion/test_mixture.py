"""Few steps with the exact denoiser of a mixture: mode weights and spreads."""

import pytest
import torch
from torch import tensor

from gsdm_pyg.diffusion.diffusion import reverse
from gsdm_pyg.diffusion.schedule import alpha_bars, betas
from gsdm_pyg.diffusion.solvers import step_times
from gsdm_pyg.settings import ModelSettings, SamplerSettings
from tests.helpers import seeded

# A broad mode between two narrow ones, together of about unit variance.
MEAN = tensor([-1.5, 0.0, 1.5], dtype=torch.double)
SPREAD = tensor([0.02, 0.25, 0.05], dtype=torch.double)
WEIGHT = tensor([0.3, 0.5, 0.2], dtype=torch.double)
BETA = betas(ModelSettings().schedule)
ALPHA_BAR = alpha_bars(BETA)


def denoise(xt, t):
    """E[x0 | xt] of the mixture."""
    alpha_bar, x = ALPHA_BAR[t], xt.double()
    variance = alpha_bar * SPREAD**2 + 1 - alpha_bar
    distance = x - alpha_bar.sqrt() * MEAN
    log_weight = WEIGHT.log() - variance.log() / 2 - distance.square() / variance / 2
    mean = MEAN + alpha_bar.sqrt() * SPREAD**2 / variance * distance
    return (log_weight.softmax(-1) * mean).sum(-1, keepdim=True).float()


def modes(**sampler):
    """The weight of each mode, and its spread relative to the true one."""
    num, generator = 40_000, seeded(0)
    x, fixed = torch.zeros(num, 1), torch.zeros(num, 1).bool()
    noise = lambda: torch.randn(num, 1, generator=generator)  # noqa: E731
    drawn = reverse(denoise, x, fixed, BETA, SamplerSettings(**sampler), noise)
    mode = (drawn - MEAN).abs().argmin(1)
    weights = torch.stack([(mode == k).double().mean() for k in range(3)])
    # 1.4826 times the median distance is the standard deviation of a Gaussian.
    spreads = torch.stack(
        [1.4826 * (drawn[mode == k] - MEAN[k]).abs().median() for k in range(3)]
    )
    return weights, spreads / SPREAD


def test_the_default_sampler_recovers_a_mixture_in_twenty_evaluations():
    assert SamplerSettings().evaluations == 20
    weights, spreads = modes()
    assert (weights - WEIGHT).abs().max() < 0.01  # standard error 0.0025
    assert (spreads - 1).abs().max() < 0.08


@pytest.mark.parametrize("spacing", ["karras", "logsnr"])
def test_twenty_evaluations_of_the_ode_recover_a_mixture(spacing):
    weights, spreads = modes(steps=20, solver="dpm++", spacing=spacing)
    assert (weights - WEIGHT).abs().max() < 0.02
    assert (spreads - 1).abs().max() < (0.15 if spacing == "karras" else 0.05)


@pytest.mark.parametrize("solver", ["ddpm", "ddim", "dpm++_sde"])
def test_every_solver_recovers_a_mixture_in_many_steps(solver):
    weights, spreads = modes(steps=300, solver=solver, spacing="karras")
    assert (weights - WEIGHT).abs().max() < 0.02
    assert (spreads - 1).abs().max() < 0.1


def test_steps_spaced_evenly_in_time_lose_the_spread_of_a_narrow_mode():
    _, spreads = modes(steps=10, solver="dpm++", spacing="time")
    assert spreads[0] < 0.7


def test_karras_steps_reach_the_lowest_noise_and_follow_edm():
    times = step_times(BETA, 20, "karras")
    assert times[0] == len(BETA) - 1 and times[-1] == 0
    sigma = ((1 - ALPHA_BAR) / ALPHA_BAR).sqrt()
    first, last = sigma[-1] ** (1 / 7), sigma[0] ** (1 / 7)
    expected = (first + torch.arange(20) / 19 * (last - first)) ** 7
    # The table has a thousand levels, so the nearest one may be a little off.
    assert (sigma[times].log() - expected.log()).abs().max() < 0.35


@pytest.mark.parametrize("schedule", ["shifted", "cosine"])
def test_logsnr_leaps_over_the_highest_noise_and_is_even_in_its_logarithm(schedule):
    beta = betas(schedule)
    alpha_bar = alpha_bars(beta)
    sigma = ((1 - alpha_bar) / alpha_bar).sqrt()
    times = step_times(beta, 20, "logsnr")
    assert times[0] == len(beta) - 1 and times[-1] == 0
    assert sigma[times[1]] == pytest.approx(5, rel=0.01)
    expected = torch.linspace(sigma[times[1]].log(), sigma[0].log(), 19).double()
    # The table has a thousand levels, so the nearest one may be a little off.
    assert (sigma[times[1:]].log() - expected).abs().max() < 0.2


def test_logsnr_needs_no_leap_where_there_is_little_noise():
    beta = betas("paper")
    alpha_bar = alpha_bars(beta)
    sigma = ((1 - alpha_bar) / alpha_bar).sqrt()
    assert sigma[-1] < 5
    gaps = sigma[step_times(beta, 8, "logsnr")].log().diff()
    assert gaps.std() < 0.1 * gaps.abs().mean()
