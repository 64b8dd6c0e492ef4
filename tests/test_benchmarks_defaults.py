"""The options of `python -m benchmarks.defaults`, without training."""

from functools import partial

import pytest
import torch
from torch import tensor
from torch.distributions import MultivariateNormal

from benchmarks import defaults as benchmark
from benchmarks import sbibm_methods
from benchmarks.sbibm_methods import Training
from gsdm_pyg.settings import SamplerSettings
from tests.helpers import seeded


def test_settings_are_read_as_the_benchmark_sbibm_reads_them():
    texts = ["optimizer.ema=0.99", "optimizer.name=adamw", "schedule=cosine"]
    options = benchmark.parse([f"--set={text}" for text in texts])
    optimizer = {"ema": 0.99, "name": "adamw"}
    assert options.changes == {"optimizer": optimizer, "schedule": "cosine"}
    assert options.changes == sbibm_methods.read_settings(texts)
    assert benchmark.parse([]).changes == {}


def test_samplers_are_read_and_shown_by_their_words():
    options = benchmark.parse(["--sampler=7 ddpm time", "--minutes=0.5"])
    expected = SamplerSettings(steps=7, solver="ddpm", spacing="time")
    assert options.samplers == {"7 ddpm time": expected} and options.minutes == 0.5
    assert len(benchmark.parse([]).samplers) == len(benchmark.SAMPLERS)


@pytest.mark.parametrize(
    "text, message",
    [
        ("20 dpm++_sde", "20 dpm++_sde logsnr"),
        ("few ddpm time", "few ddpm time"),
        ("20 ddpm karras", "karras"),
        ("20 heun time", "heun"),
        ("0 ddpm time", "steps"),
    ],
)
def test_wrong_samplers_are_rejected_before_any_work(text, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse([f"--sampler={text}"])
    assert message in capsys.readouterr().err


def test_training_that_ctrl_c_ended_is_no_result():
    Training(minutes=1.99, steps=5).check_finished(minutes=2, steps=10)
    Training(minutes=0.5, steps=10).check_finished(minutes=2, steps=10)
    with pytest.raises(KeyboardInterrupt):
        Training(minutes=0.5, steps=5).check_finished(minutes=2, steps=10)


def test_exact_samples_of_slcp_agree_with_weighted_draws_of_the_prior():
    x = tensor([[0.5, -1.0], [2.5, 1.5], [-2.0, 2.0], [1.5, 0.0]])
    exact = benchmark.exact_samples(partial(benchmark.slcp_draws, x, seeded(0)))
    theta = 6 * torch.rand(400_000, 5, generator=seeded(1)) - 3
    s, t, rho = theta[:, 2] ** 2, theta[:, 3] ** 2, theta[:, 4].tanh()
    covariance = torch.stack([s * s, rho * s * t, rho * s * t, t * t], 1)
    covariance = covariance.view(-1, 2, 2) + 1e-6 * torch.eye(2)
    likelihood = MultivariateNormal(theta[:, :2], covariance, validate_args=False)
    log_weight = sum(likelihood.log_prob(point) for point in x)
    weight = log_weight.double().softmax(0)
    assert 1 / weight.square().sum() > 1000  # effective number of draws

    def moments(theta, weight):
        values = torch.cat([theta, theta**2], 1).double()
        mean = weight @ values
        return mean, (weight @ (values - mean).square()).sqrt()

    equal = torch.full((len(exact),), 1 / len(exact)).double()
    (found, _), (expected, spread) = moments(exact, equal), moments(theta, weight)
    assert ((found - expected).abs() / spread).max() < 0.15  # 4 standard errors


@pytest.mark.parametrize(
    "text, message",
    [
        ("optimizer.emma=0.99", "emma"),
        ("shedule=cosine", "shedule"),
        ("schedule=circular", "circular"),
        ("schedule", "name=value (got 'schedule')"),
    ],
)
def test_wrong_settings_are_rejected_before_any_work(text, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse([f"--set={text}"])
    assert message in capsys.readouterr().err
