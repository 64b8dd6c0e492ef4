"""Sampling with exact denoisers, whose posteriors are known in closed form."""

from functools import partial
from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg.choices import Solver, Spacing
from gsdm_pyg.diffusion.diffusion import reverse
from gsdm_pyg.diffusion.schedule import alpha_bars, betas
from gsdm_pyg.settings import SamplerSettings
from tests.helpers import seeded

SOLVERS, SPACINGS = get_args(Solver), get_args(Spacing)
STOCHASTIC = ("ddpm", "dpm++_sde")
BETA = betas("cosine")
ALPHA_BAR = alpha_bars(BETA)
MEAN, SPREAD = 2.0, 0.5


def denoise_gaussian(xt, t, mean=MEAN, spread=SPREAD):
    """E[x0 | xt] for x0 ~ N(mean, spread^2)."""
    assert 0 <= t < len(BETA)
    alpha_bar = ALPHA_BAR[t].item()
    gain = spread**2 * alpha_bar**0.5 / (alpha_bar * spread**2 + 1 - alpha_bar)
    return mean + gain * (xt - alpha_bar**0.5 * mean)


def latent(num_nodes, num_columns=1):
    return torch.zeros(num_nodes, num_columns), torch.zeros(num_nodes, 1).bool()


def draw(
    denoise, x, fixed, steps, solver, restarts=0, beta=BETA, seed=0, spacing="time"
):
    sampler = SamplerSettings(
        steps=steps, solver=solver, restarts=restarts, spacing=spacing
    )
    generator = seeded(seed)

    def noise():
        return torch.randn(x.shape, generator=generator)

    return reverse(denoise, x, fixed, beta, sampler, noise)


# 150 and 201 do not divide the thousand steps of the schedule
@pytest.mark.parametrize("steps", [200, 150, 201])
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_exact_denoiser_of_a_gaussian_recovers_it(
    solver, steps, untouched_random_state
):
    drawn = draw(denoise_gaussian, *latent(20_000), steps, solver).squeeze(-1)
    # Starting from N(0, 1) instead of the true end of the forward process shifts an
    # ODE's mean by up to sqrt(alpha_bar_T) * MEAN * SPREAD = 0.01; the standard error
    # is 0.004. First-order solvers lose a few percent of the spread.
    assert abs(drawn.mean() - MEAN) < 0.02
    tolerance = 0.035 if solver in ("ddpm", "ddim") else 0.015
    assert abs(drawn.std() / SPREAD - 1) < tolerance
    standardized = (drawn - drawn.mean()) / drawn.std()
    assert abs(standardized.pow(4).mean() - 3) < 0.15  # and it is a Gaussian


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_restarts_keep_the_distribution_of_an_exact_denoiser(solver, spacing):
    settings = {"restarts": 3, "spacing": spacing}
    drawn = draw(denoise_gaussian, *latent(20_000), 200, solver, **settings)
    assert abs(drawn.mean() - MEAN) < 0.02
    tolerance = 0.04 if solver == "ddpm" else 0.02
    assert abs(drawn.std() / SPREAD - 1) < tolerance


def test_few_steps_narrow_a_posterior_by_ancestral_sampling_but_not_by_the_ode():
    def ratio(solver):
        denoise = partial(denoise_gaussian, mean=0.7, spread=0.3)
        return draw(denoise, *latent(20_000), 50, solver).std() / 0.3

    assert ratio("ddpm") < 0.94
    assert abs(ratio("dpm++") - 1) < 0.015


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_exact_denoiser_given_observations_recovers_the_posterior(solver):
    # rows come in pairs: an observed y = x + noise, and x ~ N(0, 1) to be inferred
    noise = 0.5
    half = 10_000
    y = torch.linspace(-2, 2, half)
    x = torch.cat([y, torch.zeros(half)])[:, None]
    fixed = (torch.arange(2 * half) < half)[:, None]
    spread = (noise**2 / (1 + noise**2)) ** 0.5

    def denoise(xt, t):
        mean = xt[:half] / (1 + noise**2)  # read off the observed rows
        return torch.cat([xt[:half], denoise_gaussian(xt[half:], t, mean, spread)])

    drawn = draw(denoise, x, fixed, 200, solver)
    error = drawn[half:, 0] - y / (1 + noise**2)
    assert abs(error.mean()) < 0.02
    assert abs(error.std() / spread - 1) < 0.04
    assert abs((error * y).mean()) < 0.03  # the slope is right


@pytest.mark.parametrize("solver", SOLVERS)
def test_fixed_rows_come_back_bit_for_bit(solver):
    x = torch.randn(50, 3) * 1e3
    fixed = torch.rand(50) < 0.4
    before = x.clone()
    seen = []

    def denoise(xt, t):
        seen.append(torch.equal(xt[fixed], x[fixed]))
        return torch.full_like(xt, 0.1)  # wrong about the fixed rows, on purpose

    drawn = draw(denoise, x, fixed[:, None], 7, solver, restarts=2)
    assert torch.equal(drawn[fixed], before[fixed])
    assert torch.equal(x, before)
    assert len(seen) == 7 + 2 * 3 and all(seen)
    assert not torch.equal(drawn[~fixed], before[~fixed])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_generator_decides_the_sample(solver, untouched_random_state):
    first, again, other = (
        draw(denoise_gaussian, *latent(30, 2), 9, solver, restarts=2, seed=seed)
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("solver", SOLVERS)
def test_only_stochastic_solvers_draw_noise_on_the_way(solver):
    draws = []

    def noise():
        draws.append(torch.randn(5, 1))
        return draws[-1]

    sampler = SamplerSettings(steps=4, solver=solver)
    reverse(denoise_gaussian, *latent(5), BETA, sampler, noise)
    assert len(draws) == (5 if solver in STOCHASTIC else 1)


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_steps_counts_evaluations_from_the_last_noise_level_down(solver, spacing):
    beta = betas("cosine", 100)
    times = []

    def denoise(xt, t):
        times.append(t)
        return 0.5 * xt

    for steps in (1, 2, 7, 29, 31, 58, 97, 99, 100):
        times.clear()
        drawn = draw(denoise, *latent(2), steps, solver, beta=beta, spacing=spacing)
        assert len(times) == steps
        assert times[0] == 99 and times[-1] >= 0
        assert times == sorted(set(times), reverse=True)
        assert drawn.isfinite().all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("steps", [2, 7, 20])
def test_a_restart_repeats_the_last_two_fifths_of_the_steps(solver, steps):
    times, levels = [], []

    def denoise(xt, t):
        times.append(t)
        levels.append(xt.std().item())
        return torch.zeros_like(xt)  # what is left is the noise alone

    draw(denoise, *latent(20_000), steps, solver, restarts=2)
    down, again = times[:steps], {2: 1, 7: 3, 20: 8}[steps]
    assert times == down + down[-again:] + down[-again:]
    for start in (steps, steps + again):
        noise = (1 - ALPHA_BAR[times[start]]) ** 0.5
        assert levels[start] == pytest.approx(noise.item(), rel=0.03)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_last_step_returns_what_the_denoiser_says(solver):
    answer = torch.tensor([[1.5, -2.0], [0.25, 8.0]])
    drawn = draw(lambda *_: answer, *latent(2, 2), 25, solver)
    assert_close(drawn, answer, rtol=1e-5, atol=1e-5)


def test_more_steps_than_the_schedule_are_refused():
    with pytest.raises(ValueError, match=r"between 1 and the T = 1000.*got 1001\)"):
        draw(denoise_gaussian, *latent(2), 1001, "ddpm")
