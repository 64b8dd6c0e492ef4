"""Few steps with the exact denoiser of a mixture: mode weights and spreads."""

import pytest
import torch

from benchmarks.solvers import (
    ALPHA_BAR,
    BETA,
    MEAN,
    SPREAD,
    WEIGHT,
    denoise,
    draw,
    exact,
    heun,
    total_variation,
)
from gsdm_pyg.diffusion.diffusion import reverse
from gsdm_pyg.diffusion.schedule import alpha_bars, betas
from gsdm_pyg.diffusion.solvers import step_times
from gsdm_pyg.settings import SamplerSettings
from tests.helpers import seeded


def modes(**sampler):
    """The weight of each mode, and its spread relative to the true one."""
    drawn = draw(SamplerSettings(**sampler), num=40_000)
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


def test_twenty_evaluations_of_the_ode_recover_a_mixture():
    weights, spreads = modes(steps=20, solver="dpm++")
    assert (weights - WEIGHT).abs().max() < 0.01
    assert (spreads - 1).abs().max() < 0.08


@pytest.mark.parametrize("solver", ["ddpm", "ddim", "dpm++_sde"])
def test_every_solver_recovers_a_mixture_in_many_steps(solver):
    weights, spreads = modes(steps=300, solver=solver)
    assert (weights - WEIGHT).abs().max() < 0.02
    assert (spreads - 1).abs().max() < 0.1


def test_steps_spaced_evenly_in_time_lose_the_spread_of_a_narrow_mode():
    _, spreads = modes(steps=10, solver="dpm++", spacing="time")
    assert spreads[0] < 0.7


@pytest.mark.parametrize("schedule", ["shifted", "cosine", "paper"])
def test_logsnr_reaches_the_lowest_noise_and_is_even_in_its_logarithm(schedule):
    beta = betas(schedule)
    alpha_bar = alpha_bars(beta)
    log_sigma = ((1 - alpha_bar) / alpha_bar).log() / 2
    times = step_times(beta, 20, "logsnr")
    assert times[0] == len(beta) - 1 and times[-1] == 0
    expected = torch.linspace(log_sigma[-1], log_sigma[0], 20).double()
    # The table has a thousand levels, so the nearest one may be a little off.
    assert (log_sigma[times] - expected).abs().max() < 0.35


@pytest.mark.parametrize("solver", ["dpm++", "dpm++_sde"])
def test_the_mean_of_many_nodes_that_vary_together_keeps_its_spread(solver):
    """Noise of a node that leaves nothing of it leaves much of the mean of 100."""
    num, size, shared = 4000, 100, 0.9  # correlation of two nodes
    # of the mean of all nodes, times their number, and of what is left of each
    variance = torch.tensor([1 - shared + size * shared, 1 - shared]).double()
    generator = seeded(0)

    def denoise_nodes(xt, t):
        mean = xt.mean(1, keepdim=True)
        gain = variance * ALPHA_BAR[t].sqrt()
        gain = gain / (variance * ALPHA_BAR[t] + 1 - ALPHA_BAR[t])
        return gain[0] * mean + gain[1] * (xt - mean)

    x = torch.zeros(num, size, dtype=torch.double)
    noise = lambda: torch.randn(x.shape, generator=generator).double()  # noqa: E731
    sampler = SamplerSettings(solver=solver)
    drawn = reverse(denoise_nodes, x, x[:, :1].bool(), BETA, sampler, noise)
    spread = (variance[0] / size) ** 0.5
    # 4,000 samples have a standard error of 0.011
    assert drawn.mean(1).std() / spread == pytest.approx(1, abs=0.05)


def test_the_denoiser_is_the_mean_of_what_the_noise_may_hide():
    clean, sigma = exact(), 0.3
    noise = torch.randn(clean.shape, generator=seeded(1), dtype=clean.dtype)
    noisy = clean + sigma * noise
    near = (noisy - 0.4).abs() < 0.01
    found = denoise(torch.tensor([[0.4]], dtype=clean.dtype), sigma)
    # 5,000 of them, whose mean has a standard error of 0.003
    assert found.item() == pytest.approx(clean[near].mean().item(), abs=0.015)


def test_total_variation_is_chance_for_exact_samples_and_sees_a_narrow_mode():
    assert total_variation(exact()) < 0.012
    narrowed = exact()
    left = narrowed < -1
    narrowed[left] = MEAN[0] + 0.8 * (narrowed[left] - MEAN[0])
    assert 0.02 < total_variation(narrowed) < 0.05


def test_heun_reaches_the_mixture_in_many_steps():
    assert total_variation(heun(200, num=40_000)) < 0.03
