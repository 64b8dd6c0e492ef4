"""The state-space model: its prior, its exact posterior, its metrics and picture."""

import math

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg.evaluation import prior_metrics
from problems import StateSpace
from tests.problems.draws import draw_batch, draw_list
from tests.problems.graph_oracle import attention_links, symmetric_with_loops


def kalman_smoother(y):
    """Mean and standard deviation of each state, forwards and backwards in time."""
    filtered, predicted = [], []
    mean, variance = 0.0, 1.0
    for observation in y:
        predicted.append((mean, variance))
        if not math.isnan(observation):
            gain = variance / (variance + 0.25)
            mean, variance = mean + gain * (observation - mean), (1 - gain) * variance
        filtered.append((mean, variance))
        mean, variance = 0.9 * mean, 0.81 * variance + 0.19
    smoothed = [filtered[-1]]
    for t in range(len(y) - 2, -1, -1):
        (mean, variance), (ahead, ahead_variance) = filtered[t], predicted[t + 1]
        gain = 0.9 * variance / ahead_variance
        later, later_variance = smoothed[0]
        mean += gain * (later - ahead)
        variance += gain**2 * (later_variance - ahead_variance)
        smoothed.insert(0, (mean, variance))
    means, variances = zip(*smoothed, strict=True)
    return torch.tensor(means), torch.tensor(variances).sqrt()


def posterior_samples(problem, truth, count, shift=0.0, scale=1.0):
    mean, std = problem.exact_posterior(truth)
    noise = torch.randn(count, problem.steps)
    return {"x": mean + shift * std + scale * std * noise}


# prior and graph


def test_the_state_is_stationary_and_forgets_a_tenth_per_step():
    x = draw_batch(StateSpace(steps=12), 20_000)["x"]
    covariance = x.T.cov()
    for s in range(12):
        for t in range(12):
            assert abs(covariance[s, t] - 0.9 ** abs(s - t)) < 0.05


def test_observations_scatter_about_the_state():
    values = draw_batch(StateSpace(steps=20), 500)
    noise = values["y"] - values["x"]
    assert abs(noise.mean()) < 4 * 0.5 / noise.numel() ** 0.5
    assert abs(noise.std() - 0.5) < 0.02
    assert abs((noise * values["x"]).mean()) < 0.03


@pytest.mark.parametrize("steps", [1, 5])
def test_the_graph_is_a_chain_with_one_observation_per_state(steps):
    shapes = {"x": (steps,), "y": (steps,)}
    links = {(("x", t), ("y", t)) for t in range(steps)}
    links |= {(("x", t), ("x", t + 1)) for t in range(steps - 1)}
    graph = StateSpace(steps=steps).graphical_model()
    assert attention_links(graph) == symmetric_with_loops(shapes, links)


# exact posterior


@pytest.mark.parametrize("steps", [1, 2, 40])
def test_the_exact_posterior_equals_the_kalman_smoother(steps):
    problem = StateSpace(steps=steps)
    for values in draw_list(problem, 3):
        expected = kalman_smoother(values["y"].double().tolist())
        assert_close(problem.exact_posterior(values), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("unknown", [[0], [1, 2, 3], [5], range(6)])
def test_observations_may_be_missing(unknown):
    problem = StateSpace(steps=6)
    y = draw_batch(problem, 1)["y"][0]
    y[list(unknown)] = math.nan
    found = problem.exact_posterior({"y": y})
    expected = kalman_smoother(y.double().tolist())
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


# metrics


def test_z_is_the_distance_from_the_posterior_mean_in_standard_deviations():
    problem = StateSpace(steps=5)
    (truth,) = draw_list(problem, 1)
    mean, std = problem.exact_posterior(truth)
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, 1.0])
    found = problem.metrics({"x": mean + 2 * signs * std}, truth)
    assert found["z"] == pytest.approx(1.2, abs=1e-5)
    assert found["z_squared"] == pytest.approx(4, abs=1e-4)


@pytest.mark.parametrize("steps", [1, 10])
def test_independent_answers_score_the_spread_of_prior_and_posterior_mean(steps):
    found = prior_metrics(StateSpace(steps=steps), 2000)
    # The answer has variance 1; the posterior mean has 1 minus that of the posterior.
    variance = kalman_smoother([0.0] * steps)[1].square()
    assert found["z"] == pytest.approx(0, abs=0.2)
    expected = ((2 - variance) / variance).mean().item()
    assert found["z_squared"] == pytest.approx(expected, rel=0.1)


def test_exact_samples_have_errors_of_chance_alone():
    problem = StateSpace(steps=20)
    (truth,) = draw_list(problem, 1)
    found = problem.posterior_error(posterior_samples(problem, truth, 10_000), truth)
    assert found["mean"] == pytest.approx(0.01, abs=0.01)
    assert found["spread"] == pytest.approx(0.007, abs=0.007)


@pytest.mark.parametrize("shift, scale", [(0.3, 1.0), (0.0, 0.8), (-0.2, 1.3)])
def test_errors_of_mean_and_spread_are_distinguished(shift, scale):
    problem = StateSpace(steps=20)
    (truth,) = draw_list(problem, 1)
    samples = posterior_samples(problem, truth, 20_000, shift, scale)
    found = problem.posterior_error(samples, truth)
    assert found["mean"] == pytest.approx(abs(shift), abs=0.02)
    assert found["spread"] == pytest.approx(abs(scale - 1), abs=0.02)


def test_prior_samples_are_far_from_the_posterior():
    problem = StateSpace(steps=20)
    (truth,) = draw_list(problem, 1)
    found = problem.posterior_error(draw_batch(problem, 1000, seed=1), truth)
    assert found["mean"] > 1 and found["spread"] > 1


# picture


def test_the_picture_shows_path_observations_and_one_sample():
    problem = StateSpace(steps=8)
    sample, truth = draw_list(problem, 2)
    ax = problem.plot(sample, truth).axes[0]
    shown = {line.get_label(): torch.tensor(line.get_ydata()) for line in ax.lines}
    assert list(shown) == ["true path", "observations", "sampled"]
    assert_close(shown["true path"], truth["x"])
    assert_close(shown["observations"], truth["y"])
    assert_close(shown["sampled"], sample["x"])


def test_the_picture_of_many_samples_shows_their_band():
    problem = StateSpace(steps=8)
    (truth,) = draw_list(problem, 1)
    samples = posterior_samples(problem, truth, 500)
    ax = problem.plot(samples, truth).axes[0]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "sampled, ±2 std" in labels and labels.count("sampled") == 1
    upper = torch.tensor(ax.lines[-1].get_ydata())
    assert_close(upper, samples["x"].mean(0) + 2 * samples["x"].std(0))
