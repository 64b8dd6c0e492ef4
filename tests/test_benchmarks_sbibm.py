"""The parts of `python -m benchmarks.sbibm`, without training."""

import json
import math

import pytest
import torch
from torch import nn
from torch.distributions import Distribution, Normal

from benchmarks import sbibm as benchmark
from benchmarks.sbibm_methods import duration, measured, npe_prior, train_gsdm
from benchmarks.sbibm_tasks import TASKS, c2st, load_task
from gsdm_pyg import GSDM

RESULT = {"minutes": 1.0, "steps": 2, "seconds": 3.0, "evaluations": 4}


@pytest.fixture
def validates(monkeypatch):
    """Some tasks of sbibm switch off the validation of all distributions."""
    monkeypatch.setattr(Distribution, "_validate_args", Distribution._validate_args)


@pytest.fixture
def gaussian_linear(validates):
    pytest.importorskip("sbibm.metrics.c2st")
    return load_task("gaussian_linear", 2)


@pytest.mark.parametrize("name", TASKS)
def test_observations_have_the_shape_that_the_program_draws(name, validates):
    pytest.importorskip("sbibm.metrics.c2st")
    task = load_task(name, 1)
    drawn = task.simulations(3, seed=0)
    assert task.observations.shape[1:] == drawn["x"].shape[1:]
    assert task.references.shape == (1, 10_000, *drawn["theta"].shape[1:])


def test_references_are_the_posterior_of_the_program(gaussian_linear):
    """theta | x ~ N(x / 2, 0.05 I), as prior and noise both have variance 0.1."""
    task = gaussian_linear
    mean, std = task.references.mean(1), task.references.std(1)
    error = 5 * math.sqrt(0.05 / 10_000)
    torch.testing.assert_close(mean, task.observations / 2, atol=error, rtol=0)
    exact = torch.full_like(std, math.sqrt(0.05))
    torch.testing.assert_close(std, exact, atol=error, rtol=0)


def test_simulations_depend_on_the_seed_alone(gaussian_linear):
    first, second, other = (gaussian_linear.simulations(4, seed=s) for s in (1, 1, 2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert not torch.equal(first["theta"], other["theta"])


def test_loading_a_task_leaves_validation_switched_on(gaussian_linear):
    with pytest.raises(ValueError):
        Normal(0.0, -1.0)


def test_a_task_has_ten_observations():
    with pytest.raises(ValueError, match=r"1 to 10 \(got 11\)"):
        load_task("slcp", 11)


def test_c2st_is_the_accuracy_of_the_best_classifier():
    """Between N(0, 1) and N(d, 1) that is Phi(d / 2)."""
    pytest.importorskip("sbibm.metrics.c2st")
    generator = torch.Generator().manual_seed(0)
    references, samples = torch.randn(2, 2, 1000, 1, generator=generator)
    shift = torch.tensor([0.0, 2.0])
    exact = Normal(0.0, 1.0).cdf(shift / 2)
    found = torch.tensor(c2st(references, samples + shift[:, None, None]))
    torch.testing.assert_close(found, exact, atol=0.04, rtol=0)


@pytest.mark.parametrize("name", ["two_moons", "bernoulli_glm"])
def test_npe_has_the_prior_of_the_package(name, validates):
    pytest.importorskip("sbi")
    sbibm = pytest.importorskip("sbibm")
    prior = npe_prior(load_task(name, 1).prior)
    exact = sbibm.get_task(name).get_prior_dist()
    theta = exact.sample((5,))
    torch.testing.assert_close(prior.log_prob(theta), exact.log_prob(theta))


def test_steps_are_counted_inside_of_the_block_alone():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
    with measured() as training:
        for _ in range(3):
            optimizer.step()
    optimizer.step()
    assert training.steps == 3


def test_training_that_ends_early_is_no_result(gaussian_linear, monkeypatch):
    """As `fit` returns after Ctrl-C."""
    monkeypatch.setattr(GSDM, "fit", lambda self, **settings: self)
    simulations = gaussian_linear.simulations(16, seed=0)
    with pytest.raises(KeyboardInterrupt):
        train_gsdm(gaussian_linear, simulations, 1, {"width": 8, "layers": 2}, seed=0)


def test_durations_are_written_as_the_trainer_reads_them():
    assert duration(15) == "00:00:15:00"
    assert duration(25 * 60 + 0.5) == "01:01:00:30"


def test_settings_reach_model_training_and_sampler():
    texts = ["width=32", "optimizer.name=adamw", "optimizer.lr=0.01", "restarts=2"]
    arguments = [f"--set={text}" for text in texts]
    options = benchmark.parse([*arguments, "--steps", "5"])
    optimizer = {"name": "adamw", "lr": 0.01}
    assert options.settings == {"width": 32, "optimizer": optimizer}
    assert options.sampler == {"steps": 5, "restarts": 2}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--load=models", "--set=width=32"], "--load trains nothing"),
        (["--set=max_time=00:00:01:00"], "--minutes sets max_time"),
        (["--set=widht=32"], "widht"),
        (["--solver=euler"], "euler"),
        (["--set=width"], "name=value (got 'width')"),
        (["--npe-only", "--save=models"], "--npe-only trains and samples none"),
    ],
)
def test_wrong_options_are_rejected_before_any_work(arguments, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse(arguments)
    assert message in capsys.readouterr().err


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    runs: list[tuple[str, str]] = []

    def measure(task, method, options):
        if (task, method) == ("slcp", "NPE") and len(runs) < 4:
            raise KeyboardInterrupt
        runs.append((task, method))
        return {"c2st": [0.5, 0.6], **RESULT}

    monkeypatch.setattr(benchmark, "load_task", lambda name, num: name)
    monkeypatch.setattr(benchmark, "measure", measure)
    arguments = ["--task=two_moons", "--task=slcp", f"--out={tmp_path / 'out.json'}"]
    with pytest.raises(KeyboardInterrupt):
        benchmark.main(arguments)
    first = [("two_moons", "GSDM"), ("two_moons", "NPE"), ("slcp", "GSDM")]
    assert runs == first
    runs.append(("", ""))  # lets NPE pass
    benchmark.main(arguments)
    assert runs[4:] == [("slcp", "NPE")]
    assert len(json.loads((tmp_path / "out.json").read_bytes())) == 4
    # Our model depends on its settings, NPE does not.
    benchmark.main([*arguments, "--set=width=32"])
    assert runs[5:] == [("two_moons", "GSDM"), ("slcp", "GSDM")]
    # The mean of 0.5 and 0.6; the standard error is half of their difference.
    last = "| slcp | NPE | 0.550 ± 0.050 | 1.0 | 2 | 3.0 | 4 |"
    assert capsys.readouterr().out.rstrip().endswith(last)
