"""Eight schools: the samples of NUTS, and the measure that compares with them."""

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("pyro")
import pyro

from examples.programs.eight_schools import SIGMA, Y, by_nuts, error


def by_integration(points=4000, largest=60.0):
    """Mean and standard deviation of mu, tau and theta, by the midpoint rule for tau.

    Given tau, mu is Gaussian given all y, and so is theta given mu.
    """
    y, noise = Y.double(), SIGMA.double().square()
    tau = (torch.arange(points, dtype=torch.double)[:, None] + 0.5) * largest / points
    v = tau**2 + noise  # [points, 8]
    precision = 1 / 10**2 + (1 / v).sum(1, keepdim=True)
    mu = (y / v).sum(1, keepdim=True) / precision
    evidence = precision * mu**2 - precision.log() - (v.log() + y**2 / v).sum(1, True)
    weights = ((evidence - (tau / 10) ** 2) / 2)[:, 0].softmax(0)
    s = noise / v  # 1 leaves theta at mu, 0 at y
    means = torch.cat([mu, tau, s * mu + (1 - s) * y], 1)
    theta_variance = tau**2 * s + s**2 / precision
    variances = torch.cat([1 / precision, torch.zeros_like(tau), theta_variance], 1)
    mean = weights @ means
    return mean, (weights @ (variances + means**2) - mean**2).sqrt()


def samples_like(mean, std, num=4000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(num, 10, dtype=torch.double, generator=generator)
    values = mean + std * noise
    return {"mu": values[:, 0], "tau": values[:, 1], "theta": values[:, 2:]}


@pytest.mark.parametrize("shift, scale", [(0.0, 1.0), (0.5, 1.0), (0.0, 0.7)])
def test_errors_of_mean_and_spread_are_in_standard_deviations(shift, scale):
    mean, std = by_integration()
    reference = samples_like(mean, std)
    found = error(samples_like(mean + shift * std, scale * std, seed=1), reference)
    assert found["mean"] == pytest.approx(shift, abs=0.05)
    assert found["spread"] == pytest.approx(1 - scale, abs=0.05)


@pytest.mark.slow
def test_nuts_agrees_with_integration():
    state = torch.random.get_rng_state()
    pyro.set_rng_seed(0)
    found = by_nuts(1000)
    torch.random.set_rng_state(state)
    mean, std = by_integration()
    columns = torch.cat(
        [found["mu"][:, None], found["tau"][:, None], found["theta"]], 1
    )
    assert_close(
        (columns.mean(0) - mean) / std, torch.zeros(10).double(), atol=0.15, rtol=0
    )
    assert_close(columns.std(0) / std, torch.ones(10).double(), atol=0.15, rtol=0)
