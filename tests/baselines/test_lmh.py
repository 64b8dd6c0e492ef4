"""Metropolis-Hastings on programs: chains reach posteriors that are known exactly."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.distributions import (
    Bernoulli,
    Categorical,
    MultivariateNormal,
    Normal,
    Uniform,
)

from examples.programs.paper import state_space
from gsdm_pyg import factor, let, observe, program, sample
from gsdm_pyg.baselines import LMH
from gsdm_pyg.programs import ProgramError
from problems import BCMF, HierarchicalBCMF, Sorting, StateSpace, Sudoku

nan = math.nan
MANY = 2000  # chains of one state each


def draw(problem, given, warmup=200, num_samples=MANY, **settings):
    """The states of many chains after the warm-up."""
    lmh = LMH(warmup=warmup, chains=MANY, **settings)
    return lmh.sample(problem, given, num_samples, generator=0)


@program
def measured(n):
    """A mean with a standard-normal prior, measured n times."""
    x = sample("x", Normal(0.0, 1.0))
    observe("y", Normal(x, 0.5), (n,))


@program
def classes():
    """Three classes that depend on each other, a condition, and what follows."""
    a = sample("a", Bernoulli(0.3))
    b = sample("b", Bernoulli(0.2 + 0.5 * a))
    c = sample("c", Categorical(torch.tensor([0.2, 0.3, 0.5])))
    factor(a + b + c < 3)
    observe("any", (a + b) > 0)


def exact_classes():
    """The posterior of `classes` given that any is 1."""
    weights = {}
    for a, b, c in itertools.product((0, 1), (0, 1), (0, 1, 2)):
        p_b = 0.2 + 0.5 * a
        weight = (0.3 if a else 0.7) * (p_b if b else 1 - p_b) * (0.2, 0.3, 0.5)[c]
        if a + b > 0 and a + b + c < 3:
            weights[a, b, c] = weight
    return {state: weight / sum(weights.values()) for state, weight in weights.items()}


def test_chains_reach_a_conjugate_posterior():
    y = torch.tensor([1.0, 0.5, 1.2])
    precision = 1 + 3 / 0.5**2
    x = draw(measured(n=3), {"y": y})["x"]
    mean, std = y.sum().item() / 0.5**2 / precision, precision**-0.5
    assert x.mean().item() == pytest.approx(mean, abs=4 * std / MANY**0.5)
    assert x.std().item() == pytest.approx(std, rel=0.08)


def test_chains_reach_a_discrete_posterior_under_hard_conditions():
    drawn = draw(classes(), {"any": 1})
    found = torch.stack([drawn[name] for name in "abc"], 1).tolist()
    for state, share in exact_classes().items():
        assert found.count(list(state)) / MANY == pytest.approx(share, abs=0.04)
    assert sum(found.count(list(state)) for state in exact_classes()) > 0.99 * MANY


def test_a_soft_condition_holds_as_often_as_its_certainty_says():
    @program
    def coin():
        factor(sample("x", Bernoulli(0.5)) > 0)

    drawn = draw(coin(), {}, certainty=0.8)["x"].double()
    assert drawn.mean().item() == pytest.approx(0.8, abs=0.04)


def test_a_determined_value_is_given_up_to_the_noise():
    @program
    def total():
        x = sample("x", Normal(0.0, 1.0), 2)
        observe("s", x.sum())

    # s = x0 + x1 + 0.5 e: x0 + x1 has variance 2 a priori.
    found = draw(total(), {"s": 1.0}, noise=0.5)
    assert (found["s"] == 1).all()
    sums = found["x"].sum(1)
    assert sums.mean().item() == pytest.approx(2 / 2.25, abs=0.05)
    assert sums.std().item() == pytest.approx((2 * 0.25 / 2.25) ** 0.5, rel=0.08)


def test_entries_of_a_loop_are_single_sites_and_parts_can_be_given():
    twin, y = StateSpace(steps=4), torch.tensor([1.0, nan, -0.5, 0.3])
    x = torch.tensor([nan, nan, nan, 0.8])
    found = draw(state_space(steps=4), {"x": x, "y": y}, warmup=600)
    known = {"x": ~x.isnan(), "y": ~y.isnan()}
    mean, std = twin.exact_posterior({"x": x, "y": y}, known)
    assert (found["x"][:, 3] == x[3]).all() and (found["y"][:, 0] == 1).all()
    error = (found["x"].mean(0) - mean)[:3] / std[:3]
    assert error.abs().max() < 0.12
    assert (found["x"].std(0)[:3] / std[:3] - 1).abs().max() < 0.1


def test_chains_leave_a_density_that_is_nan_and_never_go_back():
    @program
    def root():
        x = sample("x", Normal(1.0, 1.0))
        observe("y", Normal(x.sqrt(), 1.0))  # NaN for negative x

    x = torch.linspace(0, 6, 6001, dtype=torch.double)
    weight = (-((x - 1) ** 2) / 2 - (0.5 - x.sqrt()) ** 2 / 2).exp()
    exact = ((x * weight).sum() / weight.sum()).item()
    found = draw(root(), {"y": 0.5})["x"]  # 16% of the chains begin at a negative x
    assert found.min() >= 0
    assert found.mean().item() == pytest.approx(exact, abs=0.06)


def test_chains_cross_states_of_density_0():
    @program
    def least():
        x = sample("x", Normal(0.0, 1.0), 2)
        observe("y", Uniform(0.0, x.exp().min()))

    # Where both x are negative, no move of one of them reaches a positive density.
    assert (draw(least(), {"y": 1.0}, warmup=100)["x"] >= 0).all()


def test_nothing_given_is_the_prior():
    found = draw(BCMF(m=2, n=3, k=2), {}, warmup=50)
    assert found["R"].double().mean().item() == pytest.approx(0.3, abs=0.03)
    assert found["A"].mean().item() == pytest.approx(0.5, abs=0.03)
    product = found["A"] @ found["R"].float()
    torch.testing.assert_close(found["E"], product)


def test_several_samples_of_a_chain_are_its_states_in_turn():
    given = {"y": torch.tensor([1.0, 0.5, 1.2])}
    lmh = LMH(warmup=50, chains=20, thin=30)
    x = lmh.sample(measured(n=3), given, 600, generator=1)["x"]
    assert x.unique().numel() > 300
    assert x.mean().item() == pytest.approx(0.8308, abs=0.06)
    assert x.std().item() == pytest.approx(0.2774, rel=0.15)


def test_chains_that_run_in_turn_reach_the_same_posterior(monkeypatch):
    monkeypatch.setattr("gsdm_pyg.baselines.chains.can_vectorize", lambda *_: False)
    lmh = LMH(warmup=40, chains=100)
    found = lmh.sample(classes(), {"any": 1}, 100, generator=0)
    a = sum(share for state, share in exact_classes().items() if state[0])
    assert found["a"].double().mean().item() == pytest.approx(a, abs=0.2)
    assert (found["a"] + found["b"] > 0).double().mean() > 0.95


def test_many_instances_are_sampled_at_once_each_by_itself():
    y = torch.tensor([[2.0, 2.0], [-2.0, nan]])
    x = LMH(warmup=200).sample(measured(n=2), {"y": y}, 40, generator=0)["x"]
    assert x.shape == (2, 40)
    assert x[0].mean() > 1 and x[1].mean() < -1


def test_chains_of_which_everything_is_given_stay():
    given = {"x": 0.5, "y": torch.tensor([1.0])}
    found = draw(measured(n=1), given, num_samples=3)
    assert (found["x"] == 0.5).all() and (found["y"] == 1).all()


def test_draws_without_a_name_are_rejected():
    @program(positions={})
    def unnamed():
        x = Uniform(0, 1).sample((2,))
        let("y", 2 * x, role="latent")

    with pytest.raises(ProgramError, match=r"name all of its draws by sample\(\)"):
        LMH().sample(unnamed())


def test_conditions_on_draws_without_a_name_are_rejected():
    @program(positions={})
    def unnamed():
        x = sample("x", Bernoulli(0.5), 20)
        factor(x == Bernoulli(0.5).sample((20,)))

    with pytest.raises(ProgramError, match=r"name all of its draws by sample\(\)"):
        LMH().sample(unnamed())


def test_a_program_must_have_the_variables_of_the_graph():
    class Other(StateSpace, register=False):
        def program(self):
            sample("x", Normal(0.0, 1.0), self.steps + 1)

    class Another(StateSpace, register=False):
        def program(self):
            sample("z", Normal(0.0, 1.0), self.steps)

    with pytest.raises(ProgramError, match=r"'x' in the .*\(3,\) \(got \(4,\)\)"):
        LMH().sample(Other(steps=3))

    class Fewer(StateSpace, register=False):
        def program(self):
            sample("x", Normal(0.0, 1.0), self.steps)

    with pytest.raises(ProgramError, match=r"of the graph, x, y \(got 'z'\)"):
        LMH().sample(Another(steps=3))
    with pytest.raises(ProgramError, match=r"add 'y' \(got x\)"):
        LMH().sample(Fewer(steps=3))


def test_results_without_a_name_cannot_be_given():
    @program(intermediates="all")
    def total():
        x = sample("x", Normal(0.0, 1.0), 2)
        observe("y", Normal((2 * x).sum(), 1.0))

    graph = total().graphical_model()
    (unnamed,) = (n for n, v in graph.variables.items() if v.shape == (2,) and n != "x")
    lmh = LMH(warmup=3)
    assert unnamed not in lmh.sample(total(), {"y": 1.0})
    with pytest.raises(ValueError, match=r"does not name .*by let\(\)"):
        lmh.sample(total(), {unnamed: torch.ones(2)})


def test_a_vector_is_given_whole_or_not_at_all():
    @program
    def pair():
        x = sample("x", MultivariateNormal(torch.zeros(2), torch.eye(2)))
        observe("y", Normal(x.sum(), 1.0))

    lmh = LMH(warmup=5)
    with pytest.raises(ValueError, match=r"x of pair\(\) is drawn as a vector"):
        lmh.sample(pair(), {"x": torch.tensor([1.0, nan])})
    found = lmh.sample(pair(), {"x": torch.tensor([1.0, 2.0])})
    assert found["x"].tolist() == [[1, 2]]


def test_a_problem_without_a_program_is_rejected():
    for problem in (StateSpace(steps=3), HierarchicalBCMF(m=2, n=2, k=2)):
        with pytest.raises(ValueError, match=r"define program\(self\) in .*\(got none"):
            LMH().sample(problem)
        with pytest.raises(TypeError, match=r"has no program.*\(got none\)"):
            problem.program()


@pytest.mark.parametrize(
    "problem", [BCMF(m=2, n=3, k=2), Sorting(n=3), Sudoku(a=2, b=2, clues=10)], ids=str
)
def test_instances_of_the_problem_satisfy_its_program(problem):
    """The truth has a higher density than draws in which conditions are violated."""
    truth = problem.sample(torch.Generator().manual_seed(0))
    lmh = LMH(warmup=300, chains=50)
    given = {n: v for n, v in truth.items() if n in ("E", "A", "u", "P")}
    if "cells" in truth:
        given = {"cells": truth["cells"].double()}
        given["cells"][0, :2] = nan
    found = lmh.sample(problem, given, 50, generator=0)
    for name in ("R", "s", "cells"):
        if name in truth:
            right = (found[name] - truth[name]).abs().flatten(1).amax(1) < 1e-5
            assert right.double().mean() > 0.9, name
