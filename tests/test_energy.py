"""The energy score prefers exact samplers, which `report` therefore chooses."""

from __future__ import annotations

import math

import pytest
import torch

from gsdm_pyg import GraphicalModel, Problem, Role, problem_spec
from gsdm_pyg.energy import EnergyScore
from gsdm_pyg.evaluation import evaluate_answers
from tests.diagnostics.samplers import Coins, CoinSampler, GaussianSampler, Regression
from tests.helpers import CopyTask, seeded

NUM = 1500  # instances


def given(truths, observed):
    """What a sampler is given: the observed values, NaN elsewhere."""
    return {
        name: truths[name].double().where(mask, torch.nan)
        for name, mask in observed.items()
    }


def scored(problem, sampler):
    """Mean energy score of two samples, and the default metrics of one."""
    drawn = {}

    def answer(problem, values, known):
        known = given(values, known)
        drawn.update(sampler.sample(problem, known, 2, generator=seeded(1)))
        return {name: value[:, 0] for name, value in drawn.items()}

    result = evaluate_answers(answer, problem, NUM)
    score = EnergyScore(problem)
    scores = [
        score(
            [{n: v[i, s] for n, v in drawn.items()} for s in range(2)],
            result.truths[i],
            result.observed[i],
        )
        for i in range(NUM)
    ]
    assert min(scores) >= -1e-12
    return sum(scores) / NUM, result.metrics


@pytest.mark.parametrize("n", [1, 4])
def test_an_exact_gaussian_beats_one_that_is_too_narrow_or_too_wide(n):
    spreads = (0.0, 0.6, 1.0, 1.6)
    point, narrow, exact, wide = (
        scored(Regression(n=n), GaussianSampler(spread)) for spread in spreads
    )
    assert exact[0] < 0.97 * min(point[0], narrow[0], wide[0])
    assert point[1]["rmse_x"] < narrow[1]["rmse_x"] < exact[1]["rmse_x"]  # misleads


def test_the_most_probable_classes_lose_to_exact_samples():
    modal, exact = (scored(Coins(), CoinSampler(s)) for s in (100.0, 1.0))
    assert exact[0] < 0.97 * modal[0]
    assert modal[1]["wrong_z"] < exact[1]["wrong_z"]  # which misleads


class Copies(Problem, register=False):
    """Four copies of one hidden number."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        graph.factor(graph.add_variable("x", (4,)))
        return graph

    def sample_batch(self, num, generator=None):
        return {"x": torch.randn(num, 1, generator=generator).expand(-1, 4)}


class CopySampler:
    """Samples of the prior, or of its marginals alone."""

    def __init__(self, copies=True):
        self.copies = copies

    def sample(self, problem, given=None, num_samples=1, *, generator=None):
        shape = (len(given["x"]), num_samples, 1 if self.copies else 4)
        return {"x": torch.randn(shape, generator=generator).expand(-1, -1, 4)}


def test_entries_count_together():
    """Right marginals are not enough: entries must depend on each other as they do."""
    exact, independent = (scored(Copies(), CopySampler(c)) for c in (True, False))
    assert exact[0] < 0.95 * independent[0]


class Mixed(Problem, register=False):
    """Numbers of different scales and a bit, all hidden."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        graph.add_variable("large", ())
        graph.add_variable("small", (2,))
        graph.add_variable("y", (), role=Role.OBSERVED)
        graph.add_variable("c", (), role=Role.INTERMEDIATE)
        return graph

    def sample_batch(self, num, generator=None):
        noise = torch.randn(num, 5, generator=generator, dtype=torch.double)
        return {
            "large": 10 + 1000 * noise[:, 0],
            "small": 0.001 * noise[:, 1:3],
            "y": noise[:, 3],
            "c": noise[:, 4],
        }


def test_score_is_that_of_the_formula_on_standardized_entries(monkeypatch):
    problem, generator = Mixed(), seeded(0)
    *samples, truth = (
        {name: value[0] for name, value in problem.sample_batch(1, generator).items()}
        for _ in range(4)
    )
    observed = {name: torch.zeros(value.shape).bool() for name, value in truth.items()}
    observed["y"] |= True
    observed["small"][1] = True
    # Spreads from many draws, so that they are those of the program.
    monkeypatch.setattr(problem_spec, "_DRAWS", 200_000)
    score = EnergyScore(problem)(samples, truth, observed)

    def distance(a, b):
        large = (a["large"] - b["large"]) / 1000
        return math.hypot(large, (a["small"][0] - b["small"][0]) / 0.001)

    first, second, third = samples
    pairs = [(first, second), (first, third), (second, third)]
    expected = sum(distance(sample, truth) for sample in samples) / 3
    expected -= sum(distance(*pair) for pair in pairs) / 3 / 2
    assert score == pytest.approx(expected, rel=0.01)


def test_classes_are_compared_by_their_codes():
    problem = CopyTask(n=2)
    truth = {"x": torch.ones(2), "y": torch.ones(2), "z": torch.tensor([0, 2])}
    observed = {"x": torch.ones(2).bool(), **dict.fromkeys("yz", torch.zeros(2).bool())}
    other = {**truth, "z": torch.tensor([1, 2])}  # one wrong class of two
    score = EnergyScore(problem)
    assert score([truth, truth], truth, observed) == 0
    assert score([other, other], truth, observed) == pytest.approx(math.sqrt(2))
    assert score([truth, other], truth, observed) == pytest.approx(0)
    everything = {name: torch.ones(2).bool() for name in truth}
    assert score([other, other], truth, everything) == 0  # nothing is asked


def test_one_sample_is_not_enough():
    truth = {"z": torch.zeros(3), "y": torch.zeros(3)}
    observed = {"z": torch.zeros(3).bool(), "y": torch.ones(3).bool()}
    with pytest.raises(ValueError, match=r"at least two \(got 1\)"):
        EnergyScore(Coins())([truth], truth, observed)
