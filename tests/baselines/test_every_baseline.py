"""What holds for every method without training, and for trained ones where it applies.

Given values are kept, results are a function of the seed, shapes and types are those of
the problem, and bad input is rejected by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from examples.programs.paper import state_space
from gsdm_pyg import GSDM, Baseline, Problem, ProblemBatches
from gsdm_pyg.baselines import create, names
from gsdm_pyg.problem import graph_of
from gsdm_pyg.programs.program_problem import ProgramProblem
from problems import BCMF, HierarchicalBCMF, Sorting, StateSpace, Sudoku
from tests.helpers import assert_identical, seeded, tiny_model

nan = math.nan
SMALL = BCMF(m=2, n=3, k=2)


@dataclass(frozen=True)
class Case:
    """A method with settings that make it fast, and a problem that it solves."""

    name: str
    problem: Problem
    settings: dict[str, Any] = field(default_factory=dict)
    random: bool = True  # whether two samples of the same instance differ
    needs: str = ""  # what must be given whole

    def make(self) -> Baseline:
        return create(self.name, **self.settings)

    def __str__(self) -> str:
        return f"{self.name}-{type(self.problem).__name__}"


CHAIN = {"warmup": 20, "thin": 5, "chains": 2}
START = {"restarts": 2}
CASES = [
    Case("prior", SMALL),
    Case("prior", Sudoku(a=2, b=2, clues=5)),
    Case("marginals", HierarchicalBCMF(m=2, n=3, k=2)),
    Case("lmh", SMALL, CHAIN),
    Case("lmh", Sorting(n=3), CHAIN),
    Case("lmh", Sudoku(a=2, b=2, clues=5), CHAIN),
    Case("lmh", state_space(steps=3), CHAIN),
    pytest.param(
        Case("nuts", state_space(steps=3), {"warmup": 10, "chains": 2}),
        marks=pytest.mark.slow,
    ),
    Case("kmeans", SMALL, random=False, needs="E"),
    Case("nmf", SMALL, random=False, needs="E"),
    Case("greedy", SMALL, random=False, needs="E"),
    Case("nmf_least_squares", SMALL, START, random=False, needs="E"),
    Case("nmf_least_squares", HierarchicalBCMF(m=3, n=3, k=2), START, False, "E"),
    Case("search", Sudoku(a=2, b=2, clues=5)),
    Case("sort", Sorting(n=3), random=False, needs="u"),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
cases = [getattr(case, "values", (case,))[0] for case in CASES]


def instance(case, seed=0):
    """The truth, and what is given of it: by roles or, of Sudoku, the clues."""
    truth = case.problem.sample(seeded(seed))
    observed = case.problem.observe(seeded(seed))
    given = {
        name: torch.where(mask, truth[name].double(), nan)
        for name, mask in observed.items()
        if mask.any()
    }
    return truth, given


def draw(case, given, num_samples=3, seed=0):
    return case.make().sample(case.problem, given, num_samples, generator=seed)


def test_every_baseline_is_here():
    assert {case.name for case in cases} == set(names())


@every_case
def test_samples_have_the_shapes_and_types_of_the_problem(case):
    _, given = instance(case)
    variables = graph_of(case.problem).variables
    samples = draw(case, given)
    assert set(samples) == set(variables)
    for name, value in samples.items():
        assert value.shape == (3, *variables[name].shape)
        discrete = variables[name].domain.num_classes is not None
        assert value.dtype == (torch.long if discrete else torch.float32)
        assert value.isfinite().all()
        if discrete:
            assert not variables[name].domain.outside(value).any()


@every_case
def test_given_values_are_kept(case):
    _, given = instance(case)
    samples = draw(case, given)
    for name, value in given.items():
        known = ~value.isnan()
        kept = samples[name][:, known].double()
        assert torch.equal(kept, value[known].float().double().expand_as(kept))


@every_case
def test_samples_are_a_function_of_the_seed(case, untouched_random_state):
    _, given = instance(case)
    first, again = draw(case, given), draw(case, given)
    assert_identical(first, again)
    if case.random:
        other = draw(case, given, seed=1)
        assert any(not torch.equal(first[name], other[name]) for name in first)
        flat = torch.cat([v.reshape(3, -1).double() for v in first.values()], 1)
        assert len(flat.unique(dim=0)) > 1


@every_case
def test_several_instances_are_answered_at_once(case):
    parts = [instance(case, seed)[1] for seed in (0, 1)]
    given = {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
    samples = draw(case, given, num_samples=2)
    for name, value in given.items():
        assert samples[name].shape == (2, 2, *value.shape[1:])
        for i, known in enumerate(~value.isnan()):
            kept = samples[name][i, :, known].double()
            expected = value[i, known].float().double()
            assert torch.equal(kept, expected.expand_as(kept))


@every_case
def test_what_must_be_given_whole_is_asked_for(case):
    if not case.needs:
        assert draw(case, None, num_samples=1)
        return
    _, given = instance(case)
    value = given[case.needs].clone()
    value[0] = nan
    for partly in ({}, {case.needs: value}):
        with pytest.raises(ValueError, match=rf"all of {case.needs} \(got NaN, or no"):
            draw(case, partly)


@every_case
def test_bad_input_is_rejected_by_name(case):
    baseline, problem = case.make(), case.problem
    variable = next(iter(graph_of(problem).variables.values()))
    shape = rf"given\['{variable.name}'\] must have the shape"
    with pytest.raises(ValueError, match=shape):
        baseline.sample(problem, {variable.name: torch.zeros(7, 7, 7, 7)})
    with pytest.raises(ValueError, match=r"given takes .*\(got 'nonsense'\)"):
        baseline.sample(problem, {"nonsense": 1})
    for count in (0, -1, 1.5, True, None):
        with pytest.raises(ValueError, match="num_samples must be an integer"):
            baseline.sample(problem, num_samples=count)
        with pytest.raises(ValueError, match="num_instances must be an integer"):
            baseline.evaluate(problem, count)
    with pytest.raises(TypeError, match="generator must be"):
        baseline.sample(problem, generator=-1)
    with pytest.raises(TypeError, match="a problem of one size is due"):
        baseline.sample(type(problem))
    with pytest.raises(ValueError, match=r"Unknown setting 'nonsense'"):
        create(case.name, nonsense=1)


@every_case
def test_a_problem_that_a_method_does_not_solve_is_rejected(case):
    if case.name in ("prior", "marginals"):
        return
    unfit = StateSpace(steps=2)
    complaint = r"\(got StateSpace\(steps=2\)\)\.$"
    if case.name in ("lmh", "nuts"):
        complaint = r"define program\(self\) in StateSpace, .* \(got none\)\.$"
    for act in (case.make().check, case.make().sample, case.make().evaluate):
        with pytest.raises(ValueError, match=complaint):
            act(unfit)


@every_case
def test_answers_are_scored_on_the_instances_of_a_model(case):
    if isinstance(case.problem, ProgramProblem):
        case = Case("prior", case.problem)
    result = case.make().evaluate(case.problem, 2, seed=3)
    model = tiny_model(case.problem).evaluate(case.problem, 2, seed=3, steps=1)
    for ours, theirs in zip(result.truths, model.truths, strict=True):
        assert_identical(ours, theirs)
    for ours, theirs in zip(result.observed, model.observed, strict=True):
        assert_identical(ours, theirs)
    assert result.metrics.keys() == model.metrics.keys()
    assert str(result.metrics) == str(case.problem.summary(result.scores))


@every_case
def test_evaluation_is_a_function_of_its_seed(case, untouched_random_state):
    first, again = (case.make().evaluate(case.problem, 2, seed=2) for _ in range(2))
    assert str(first.metrics) == str(again.metrics)
    for one, two in zip(first.samples, again.samples, strict=True):
        assert_identical(one, two)


def test_settings_out_of_range_are_rejected_with_the_value():
    for name, settings in [
        ("lmh", {"warmup": -1}),
        ("lmh", {"thin": 0}),
        ("lmh", {"chains": 0}),
        ("lmh", {"noise": 0.0}),
        ("lmh", {"certainty": 1.0}),
        ("nmf_least_squares", {"restarts": 0}),
        ("nmf_least_squares", {"seconds": -1.0}),
        ("search", {"tries": 0}),
    ]:
        ((setting, value),) = settings.items()
        with pytest.raises(ValueError, match=rf"{setting}: .*\(got {value}\)"):
            create(name, **settings)


def test_an_unknown_name_suggests_a_known_one():
    with pytest.raises(ValueError, match=r"called 'kmean'; did you mean 'kmeans'\?"):
        create("kmean")
    with pytest.raises(ValueError, match=r"called 'x'; known: greedy, kmeans, lmh"):
        create("x")


def test_contradictory_clues_are_rejected():
    clues = torch.full((4, 4), nan)
    clues[0, :2] = 1
    for name in ("search", "lmh", "prior"):
        with pytest.raises(ValueError, match="contradict each other"):
            create(name).sample(Sudoku(a=2, b=2), {"cells": clues})


# trained methods


TRAINED = [
    {"method": "regression"},
    {"method": "regression", "edges": "complete", "intermediates": "drop"},
    {"method": "vaeac", "embedding": "independent"},
    {"method": "vaeac", "embedding": "independent", "intermediates": "unsupervised"},
]


@pytest.mark.parametrize("settings", TRAINED, ids=str)
def test_trained_methods_keep_what_is_given_and_follow_the_seed(
    settings, untouched_random_state
):
    model = tiny_model(SMALL, layers=4, observe="mixed", **settings)
    truth = SMALL.sample(seeded(5))
    given = {"E": truth["E"], "R": torch.tensor([[nan, 1, nan], [0, nan, 1]])}
    samples = model.sample(SMALL, given, 4, generator=0)
    assert_identical(samples, model.sample(SMALL, given, 4, generator=0))
    for name, value in given.items():
        known = ~value.isnan()
        kept = samples[name][:, known].to(value.dtype)
        assert torch.equal(kept, value[known].expand_as(kept))
    assert samples["R"].dtype == torch.long
    assert set(samples["R"].unique().tolist()) <= {0, 1}
    assert samples["A"].min() >= 0 and samples["A"].max() <= 1
    alike = samples["A"].flatten(1).unique(dim=0).size(0) == 1
    assert alike == (settings["method"] == "regression")
    fewer = model.sample(SMALL, given, 2, generator=0)
    torch.testing.assert_close(fewer["A"], samples["A"][:2])  # each by its own numbers
    one_by_one = model.sample(SMALL, given, 4, generator=0, max_nodes=1)
    torch.testing.assert_close(one_by_one["A"], samples["A"])


@pytest.mark.parametrize("settings", TRAINED, ids=str)
def test_trained_methods_are_model_folders(settings, tmp_path):
    model = tiny_model(SMALL, layers=4, **settings)
    model.save_pretrained(tmp_path / "model")
    loaded = GSDM.from_pretrained(tmp_path / "model")
    assert loaded.settings == model.settings
    assert loaded.evaluate(SMALL, 2).metrics == model.evaluate(SMALL, 2).metrics


@pytest.mark.parametrize("settings", TRAINED, ids=str)
def test_every_weight_of_a_trained_method_has_a_gradient(settings):
    model = tiny_model(SMALL, layers=4, **settings)
    batches = ProblemBatches(SMALL, options=model.settings.graph, batch_size=4)
    model.diffusion.loss(batches.batch(0), seeded(0)).backward()
    without = [n for n, p in model.named_parameters() if p.grad is None]
    assert without == []


@pytest.mark.parametrize("settings", TRAINED, ids=str)
def test_only_a_diffusion_solves(settings):
    model = tiny_model(SMALL, layers=4, **settings)
    with pytest.raises(ValueError, match=rf"got a model of .*{settings['method']}"):
        model.solve(SMALL, {"E": torch.zeros(2, 3)})


def test_a_vaeac_says_what_it_needs():
    with pytest.raises(ValueError, match=r"embedding='independent' \(got 'exchangeab"):
        GSDM.from_problem(SMALL, method="vaeac")
    model = tiny_model(SMALL, method="vaeac", embedding="independent")
    with pytest.raises(ValueError, match="one size"):
        model.sample(BCMF(m=3, n=3, k=2))
