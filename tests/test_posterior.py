"""Sampling by name: the progress of its evaluations."""

from __future__ import annotations

import io
import math

import pytest
import torch
from torch.distributions import Dirichlet, Normal

from gsdm_pyg import (
    GraphDiffusion,
    GraphicalModel,
    SamplerSettings,
    Simplex,
    observe,
    posterior,
    program,
    sample,
)
from gsdm_pyg.evaluation import EvaluationInterrupted
from gsdm_pyg.posterior import SamplingInterrupted
from gsdm_pyg.problem import graph_of
from problems import BCMF
from tests.helpers import seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def bars(monkeypatch) -> list:
    """Every progress bar that is made."""
    made = []

    class Bar(posterior.tqdm):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            self.count = 0
            made.append(self)

        def update(self, n=1):
            self.count += n
            return super().update(n)

    monkeypatch.setattr(posterior, "tqdm", Bar)
    return made


@pytest.mark.parametrize("restarts", [0, 3])
@pytest.mark.parametrize("steps", [2, 5])
def test_bar_counts_the_evaluations_of_all_batches(bars, monkeypatch, steps, restarts):
    monkeypatch.setattr("sys.stderr", Terminal())
    model = tiny_model()
    nodes = model.check_problem(PROBLEM).num_nodes
    calls = []
    model.diffusion.denoiser.register_forward_hook(lambda *_: calls.append(1))
    sampler = {"steps": steps, "restarts": restarts}
    model.sample(PROBLEM, num_samples=3, max_nodes=2 * nodes, **sampler)
    (bar,) = bars
    expected = 2 * SamplerSettings(**sampler).evaluations  # batches of 2 and 1
    assert bar.count == bar.total == len(calls) == expected


def test_bar_appears_in_a_terminal_only_after_some_seconds_and_leaves_nothing(
    bars, monkeypatch
):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    tiny_model().evaluate(PROBLEM, 1, steps=2)
    assert terminal.getvalue() == ""
    (bar,) = bars
    assert bar.delay == 3
    assert not bar.leave


def test_nothing_is_drawn_where_there_is_no_terminal(bars, monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    tiny_model().sample(PROBLEM, steps=2)
    assert [bar.disable for bar in bars] == [True]


def interrupt_at(monkeypatch, call):
    """Ctrl-C in the given call of `GraphDiffusion.sample`."""
    sample, calls = GraphDiffusion.sample, []

    def interrupted(*arguments, **named):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return sample(*arguments, **named)

    monkeypatch.setattr(GraphDiffusion, "sample", interrupted)


def test_ctrl_c_leaves_the_samples_of_finished_batches(monkeypatch):
    problem = BCMF(m=2, n=3, k=2)
    model = tiny_model(problem)
    nodes = graph_of(problem).num_nodes
    given, at = {"E": torch.ones(2, 3)}, {"steps": 1, "generator": 0}
    whole = model.sample(problem, given, 6, max_nodes=2 * nodes, **at)
    interrupt_at(monkeypatch, 3)
    with pytest.raises(SamplingInterrupted) as caught:
        model.sample(problem, given, 6, max_nodes=2 * nodes, **at)
    assert torch.equal(caught.value.samples["A"], whole["A"][:4])


def test_ctrl_c_leaves_whole_instances_of_several(monkeypatch):
    problem = BCMF(m=2, n=3, k=2)
    model, nodes = tiny_model(problem), graph_of(problem).num_nodes
    interrupt_at(monkeypatch, 3)
    with pytest.raises(SamplingInterrupted) as caught:
        given = {"E": torch.ones(3, 2, 3)}
        model.sample(problem, given, 3, max_nodes=2 * nodes, steps=1)
    assert caught.value.samples["A"].shape == (1, 3, 2, 2)


def test_ctrl_c_leaves_the_scores_of_finished_instances(monkeypatch):
    problem = BCMF(m=2, n=3, k=2)
    model, nodes = tiny_model(problem), graph_of(problem).num_nodes
    interrupt_at(monkeypatch, 2)
    with pytest.raises(EvaluationInterrupted) as caught:
        model.evaluate(problem, 5, max_nodes=3 * nodes, steps=1)
    assert len(caught.value.result.samples) == 3
    assert caught.value.result.metrics["rmse"] > 0


def test_ctrl_c_before_the_first_batch_is_finished_leaves_nothing(monkeypatch):
    problem = BCMF(m=2, n=3, k=2)
    interrupt_at(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt) as caught:
        tiny_model(problem).sample(problem, steps=1)
    assert type(caught.value) is KeyboardInterrupt


@pytest.mark.parametrize(
    "sampler",
    [
        {"solver": "dpm++"},
        {"solver": "ddpm", "spacing": "time"},
        {"solver": "dpm++_sde"},
        {"solver": "dpm++", "restarts": 2},
        {"solver": "dpm++_sde", "restarts": 2},
    ],
    ids=lambda sampler: " ".join(map(str, sampler.values())),
)
def test_a_sample_depends_neither_on_the_batches_nor_on_how_many_are_drawn(sampler):
    model, problem = tiny_model(BCMF(2, 3, 2)), BCMF(2, 3, 2)
    given = {"E": torch.rand(3, 2, 3, generator=seeded(0))}
    settings = {"generator": 5, "steps": 6, **sampler}
    many = model.sample(problem, given, 8, **settings)
    few = model.sample(problem, given, 3, max_nodes=40, **settings)
    for name, values in few.items():
        torch.testing.assert_close(values, many[name][:, :3], rtol=0, atol=1e-5)
    one = model.sample(problem, {"E": given["E"][0]}, 3, **settings)
    torch.testing.assert_close(one["A"], many["A"][0, :3], rtol=0, atol=1e-5)
    assert not torch.equal(many["A"][0, 0], many["A"][0, 1])
    assert not torch.equal(many["A"][0, 0], many["A"][1, 0])


@program
def shares(n):
    """Shares of three kinds, n times, seen through noise."""
    p = sample("p", Dirichlet(torch.tensor([1.0, 2.0, 4.0])), n)
    observe("y", Normal(p, 0.1))


@pytest.mark.parametrize("scales", ["support", "linear"])
def test_sampled_shares_sum_to_1_and_given_ones_stay(scales):
    problem = shares(n=2)
    assert graph_of(problem).variables["p"].domain == Simplex()
    model, nan = tiny_model(problem, scales=scales), math.nan
    p = torch.tensor([[nan, nan, nan], [nan, 0.125, nan]])
    given = {"p": p, "y": torch.full((2, 3), 0.3)}
    drawn = model.sample(problem, given, 20, steps=3, generator=0, max_nodes=30)
    torch.testing.assert_close(drawn["p"].sum(-1), torch.ones(20, 2))
    assert (drawn["p"][:, 1, 1] == 0.125).all()
    assert (drawn["p"] >= 0).all()
    assert drawn["p"].std(0)[0].min() > 0
    assert not any(missed.any() for missed in problem.violations(drawn).values())
    whole = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
    drawn = model.sample(problem, {"p": whole}, 2, steps=3, generator=0)
    assert torch.equal(drawn["p"], whole.expand(2, -1, -1))


def test_given_shares_of_another_sum_are_rejected():
    problem = shares(n=2)
    p = torch.tensor([[math.nan, 0.7, 0.4], [0.1, 0.2, 0.7]])
    with pytest.raises(ValueError, match=r"given\['p'\] takes shares .* sum .* is 1"):
        tiny_model(problem).sample(problem, {"p": p})


def test_shares_need_an_axis():
    with pytest.raises(ValueError, match=r"give it a shape such as \(3,\)"):
        GraphicalModel().add_variable("p", (), Simplex())


def test_estimates_are_shown_after_each_evaluation_with_their_rows():
    model, shown = tiny_model(), []
    graph = model.check_problem(PROBLEM)
    given = {"E": torch.full((2, 3), 0.5)}

    def show(rows: torch.Tensor, x: torch.Tensor) -> None:
        shown.append((rows.tolist(), graph.unpack(x)))

    two = 2 * graph.num_nodes
    samples = model.sample(
        PROBLEM, given, 3, generator=0, max_nodes=two, on_estimate=show, steps=4
    )
    assert [rows for rows, _ in shown] == [[0, 1]] * 4 + [[2]] * 4
    columns = graph.columns()
    for rows, estimate in shown:
        R = estimate["R"][..., columns["R"]]  # probabilities of two classes
        torch.testing.assert_close(R.sum(-1), torch.ones(len(rows), 2, 3))
        E = estimate["E"][..., 0]
        torch.testing.assert_close(E, given["E"].expand(len(rows), 2, 3))
    last = graph.variables["A"].domain.decode(shown[-1][1]["A"][..., columns["A"]])
    torch.testing.assert_close(last, samples["A"][2:])


def test_following_the_estimates_changes_no_sample_and_can_end_sampling():
    model = tiny_model()
    alone = model.sample(PROBLEM, num_samples=2, generator=0, steps=3)
    followed = model.sample(
        PROBLEM, num_samples=2, generator=0, steps=3, on_estimate=lambda rows, x: None
    )
    assert all(torch.equal(alone[name], followed[name]) for name in alone)
    shown: list = []

    def stop_at_the_second(rows: torch.Tensor, x: torch.Tensor) -> None:
        shown.append(x)
        if len(shown) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        model.sample(PROBLEM, steps=5, on_estimate=stop_at_the_second)
    assert len(shown) == 2
