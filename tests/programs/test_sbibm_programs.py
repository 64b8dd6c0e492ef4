"""The tasks of sbibm as programs draw what the benchmark's own simulators draw.

Comparisons with the package need `pip install --no-deps sbibm` and pandas. Its solver
of differential equations needs Julia: there, SciPy's takes its place.
"""

import csv
import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch.distributions import Distribution

from gsdm_pyg import graph_of

NUM = 20_000
PROBABILITIES = torch.tensor([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])


def problem(name: str):
    module = importlib.import_module(f"examples.programs.{name.removesuffix('_raw')}")
    return getattr(module, name)()


def draws(name: str, num: int = NUM) -> tuple[torch.Tensor, torch.Tensor]:
    """Parameters [num, P] and data [num, D]."""
    drawn = problem(name).sample_batch(num, torch.Generator().manual_seed(0))
    theta, data = drawn.values()
    return theta, data.flatten(1).float()


@pytest.fixture
def sbibm(monkeypatch):
    """The package; its tasks switch off the validation of all distributions."""
    monkeypatch.setattr(Distribution, "_validate_args", Distribution._validate_args)
    return pytest.importorskip("sbibm")


def names(name: str) -> tuple[set[str], set[frozenset[str]]]:
    """Edges such as "theta[0] x[1]", and pairs under one factor."""
    graph = graph_of(problem(name))
    node = [
        f"{v.name}{index.tolist()}"
        for v in graph.variables.values()
        for index in torch.ones(v.shape).nonzero()
    ]
    edges = {f"{node[a]} {node[b]}" for a, b in graph.edges().T.tolist()}
    pairs = {frozenset((node[a], node[b])) for a, b in graph.factor_pairs().T.tolist()}
    return edges, pairs


@pytest.mark.parametrize(
    "name",
    [
        "two_moons",
        "slcp",
        "gaussian_mixture",
        "gaussian_linear",
        "bernoulli_glm",
        "bernoulli_glm_raw",
    ],
)
def test_draws_have_the_moments_and_quantiles_of_the_package(name, sbibm):
    task = sbibm.get_task(name)
    torch.manual_seed(0)
    num = 5000 if name.startswith("bernoulli") else NUM
    prior = task.get_prior()(num_samples=num)
    simulated = task.get_simulator()(prior)
    for ours, theirs in zip(draws(name), (prior, simulated), strict=True):
        assert ours.shape[1] == theirs.shape[1]
        error = 4 * math.sqrt(0.25 * (1 / NUM + 1 / num))
        for probability in PROBABILITIES:
            # Ties of discrete data count half.
            border = theirs.quantile(probability, 0)
            shares = [
                ((x < border).float().mean(0) + (x <= border).float().mean(0)) / 2
                for x in (ours, theirs)
            ]
            torch.testing.assert_close(*shares, atol=error, rtol=0)
    ours, theirs = _correlations(*draws(name)), _correlations(prior, simulated)
    torch.testing.assert_close(ours, theirs, atol=6 / math.sqrt(num), rtol=0)


def _correlations(theta: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    return torch.corrcoef(torch.cat([theta, data], 1).T)


def test_theta_of_the_gaussian_tasks_sees_its_own_coordinate_only():
    edges, pairs = names("gaussian_linear")
    assert edges == {f"theta[{i}] x[{i}]" for i in range(10)}
    assert pairs == set()
    edges, pairs = names("gaussian_mixture")
    assert edges == {"theta[0] x[0]", "theta[1] x[1]"}
    assert pairs == {frozenset(("x[0]", "x[1]"))}  # of one component


def test_both_moons_come_from_both_parameters_and_one_noise():
    edges, pairs = names("two_moons")
    assert edges == {f"theta[{i}] x[{j}]" for i in (0, 1) for j in (0, 1)}
    assert pairs == {frozenset(("x[0]", "x[1]"))}


def test_slcp_links_the_coordinates_of_each_point():
    edges, pairs = names("slcp")
    parents = {
        0: (0, 2),
        1: (1, 3, 4),
    }  # mean and scale; the second has the correlation
    assert edges == {
        f"theta[{p}] x[{i}, {j}]"
        for i in range(4)
        for j, found in parents.items()
        for p in found
    }
    assert pairs == {frozenset((f"x[{i}, 0]", f"x[{i}, 1]")) for i in range(4)}


def test_a_spike_depends_on_the_filter_as_far_as_there_was_a_stimulus():
    edges, pairs = names("bernoulli_glm_raw")
    assert edges == {
        f"theta[{j}] y[{t}]" for t in range(100) for j in range(10) if j <= t + 1
    }
    smooth = {
        frozenset((f"theta[{i}]", f"theta[{j}]"))
        for i in range(1, 10)
        for j in range(1, i)
    }
    assert pairs == smooth
    edges, pairs = names("bernoulli_glm")
    assert edges == {f"theta[{j}] x[{k}]" for j in range(10) for k in range(10)}
    assert pairs == smooth | {
        frozenset((f"x[{i}]", f"x[{j}]")) for i in range(10) for j in range(i)
    }


def test_all_but_the_first_state_depend_on_all_rates():
    edges, pairs = names("sir")
    assert edges == {f"theta[{i}] x[{k}]" for i in (0, 1) for k in range(1, 10)}
    assert pairs == set()
    edges, pairs = names("lotka_volterra")
    assert edges == {
        f"theta[{i}] x[{j}, {k}]"
        for i in range(4)
        for j in (0, 1)
        for k in range(1, 10)
    }
    assert pairs == set()


def sir_paths(theta: torch.Tensor) -> torch.Tensor:
    """Shares of infected people [num, 10], by SciPy."""

    def slope(t, u, beta, gamma):
        return [-beta * u[0] * u[1], beta * u[0] * u[1] - gamma * u[1]]

    times = 17 * np.arange(10)
    return _solved(slope, [1 - 1e-6, 1e-6], times, theta)[:, 1]


def lotka_volterra_paths(theta: torch.Tensor) -> torch.Tensor:
    """Prey and predators [num, 2, 10], by SciPy."""

    def slope(t, u, alpha, beta, gamma, delta):
        return [u[0] * (alpha - beta * u[1]), u[1] * (delta * u[0] - gamma)]

    return _solved(slope, [30.0, 1.0], 2.1 * np.arange(10), theta)


def _solved(slope, start, times, theta) -> torch.Tensor:
    paths = [
        solve_ivp(
            slope,
            (0, times[-1]),
            start,
            t_eval=times,
            args=rates,
            method="LSODA",
            rtol=1e-8,
            atol=1e-12,
        ).y
        for rates in theta.tolist()
    ]
    return torch.tensor(np.array(paths))


def read(sbibm, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The ten parameters and observations that the package brings along."""
    folder = Path(sbibm.__file__).parent / "tasks" / name / "files"
    arrays = []
    for file in ("true_parameters.csv", "observation.csv"):
        rows = []
        for number in range(1, 11):
            lines = (folder / f"num_observation_{number}" / file).read_text()
            rows.append([float(x) for x in list(csv.reader(lines.splitlines()))[1]])
        arrays.append(torch.tensor(rows))
    return arrays[0], arrays[1]


def sir_errors(theta, data) -> torch.Tensor:
    """Observations less their mean, in standard deviations, where these are normal."""
    share = sir_paths(theta)
    variance = 1000 * share * (1 - share)
    return ((data - 1000 * share) / variance.sqrt())[variance > 5]


def lotka_volterra_errors(theta, data) -> torch.Tensor:
    paths = lotka_volterra_paths(theta)
    errors = (data.view(paths.shape).log() - paths.log()) / 0.1
    return errors[(paths > 1e-6) & (paths < 1e4)]  # SciPy is less exact near zero


@pytest.mark.parametrize(
    "name, prior",
    [
        ("sir", [(math.log(0.4), 0.5), (math.log(0.125), 0.2)]),
        ("lotka_volterra", [(-0.125, 0.5), (-3.0, 0.5)] * 2),
    ],
)
def test_rates_have_the_prior_of_the_task(name, prior):
    theta, _ = draws(name, 5000)
    loc, scale = torch.tensor(prior).T
    torch.testing.assert_close(theta.log().mean(0), loc, atol=0.03, rtol=0)
    torch.testing.assert_close(theta.log().std(0), scale, atol=0.03, rtol=0)


@pytest.mark.parametrize(
    "name, errors", [("sir", sir_errors), ("lotka_volterra", lotka_volterra_errors)]
)
def test_data_scatter_about_the_solution_of_the_equations(name, errors):
    found = errors(*draws(name, 200))
    assert len(found) > 500
    assert found.abs().max() < 5
    assert found.mean().abs() < 4 / math.sqrt(len(found))
    assert found.std().item() == pytest.approx(1, abs=4 / math.sqrt(2 * len(found)))


@pytest.mark.parametrize(
    "name, errors", [("sir", sir_errors), ("lotka_volterra", lotka_volterra_errors)]
)
def test_observations_of_the_package_fit_the_same_equations(name, errors, sbibm):
    assert errors(*read(sbibm, name)).abs().max() < 5


@pytest.mark.parametrize(
    "name",
    [
        "two_moons",
        "slcp",
        "gaussian_mixture",
        "gaussian_linear",
        "bernoulli_glm",
        "sir",
        "lotka_volterra",
    ],
)
def test_programs_are_vectorized(name, caplog):
    problem(name).sample_batch(2)
    assert "instance by instance" not in caplog.text
