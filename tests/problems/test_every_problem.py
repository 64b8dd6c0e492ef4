"""What holds for every problem: instances, observed entries, metrics and picture."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_origin

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from torch.testing import assert_close

import problems
from gsdm_pyg import Problem, Role, graph_of
from gsdm_pyg.panels import check_panels
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)
from tests.problems.draws import draw_batch, draw_list, seeded


@dataclass(frozen=True)
class Case:
    """A problem and what is known about it, written independently of its sampler.

    Args:
        problem: The problem at one size.
        definitions: What an entry equals: a function of problem, values and index.
        truth: Mean of each metric over true answers.
        guess: How far from that the mean over random answers is at least.
        holds: What else is true of an instance.
        tolerance: For means in `truth` that are subject to chance.
    """

    problem: Problem
    definitions: dict[str, Callable[..., Any]]
    truth: dict[str, float]
    guess: dict[str, float]
    holds: Callable[[Problem, dict], bool] = lambda problem, values: True
    tolerance: dict[str, float] = field(default_factory=dict)


PRODUCT = {
    "C": lambda problem, v, i, j, r: v["A"][i, r] * v["R"][r, j],
    "E": lambda problem, v, i, j: sum(v["C"][i, j]),
}
INVERSE = {
    "C": PRODUCT["C"],
    "E": lambda problem, v, i, j: float(i == j),
}


def gate(problem, v, number):
    """The value of gate `number`, counted layer by layer."""
    below = [*v["x"], *v.get("h", ())][2 * number : 2 * number + 2]
    is_and = [kind for layer in problem.gates for kind in layer][number]
    return all(below) if is_and else any(below)


def only_the_first_terms_are_nonzero(problem, v):
    """The first K rows of R have a 1; after them R and A are zero."""
    K = int(v["K"])
    return (
        1 <= K <= problem.k
        and all(1 in v["R"][r].tolist() for r in range(K))
        and not v["R"][K:].any()
        and not v["A"][:, K:].any()
        and bool((v["A"][:, :K] > 0).all())
    )


def is_sorted_by_a_permutation(problem, v):
    rows, columns = v["P"].tolist(), v["P"].T.tolist()
    s = v["s"].tolist()
    return s == sorted(s) and all(line.count(1) == 1 for line in rows + columns)


def holds_every_digit_once(problem, v):
    a, b, n = problem.a, problem.b, problem.n
    cells = v["cells"].tolist()
    blocks = [
        [cells[i + r][j + c] for r in range(a) for c in range(b)]
        for i in range(0, n, a)
        for j in range(0, n, b)
    ]
    columns = [list(column) for column in zip(*cells, strict=True)]
    return all(sorted(group) == list(range(n)) for group in cells + columns + blocks)


def r_is_the_inverse_of_a(problem, v):
    inverse = v["A"].double().inverse()
    return torch.allclose(v["R"].double(), inverse, rtol=1e-3, atol=1e-3)


CASES = [
    Case(BCMF(m=3, n=4, k=2), PRODUCT, {"rmse": 0}, {"rmse": 0.3}),
    Case(BCMF(m=3, n=4, k=2, given="nothing"), PRODUCT, {"rmse": 0}, {"rmse": 0.3}),
    Case(
        HierarchicalBCMF(m=6, n=7, k=3),
        {**PRODUCT, "D": lambda problem, v, r: r + 1 <= v["K"]},
        {"rmse": 0, "rank_accuracy": 1},
        {"rmse": 0.3, "rank_accuracy": 0.5},
        only_the_first_terms_are_nonzero,
    ),
    Case(MatrixInversion(n=3), PRODUCT, {"rmse": 0}, {"rmse": 1.5}),
    Case(
        MatrixInversion(n=3, target="identity"),
        INVERSE,
        {"rmse": 0},
        {"rmse": 0.5},
        r_is_the_inverse_of_a,
    ),
    *(
        Case(
            BooleanCircuit(n=n, gate_seed=seed),
            {
                "h": gate,
                "y": lambda problem, v: gate(problem, v, 2**problem.n - 2),
            },
            {"accuracy": 1, "accuracy_at_0": 1, "accuracy_at_1": 1},
            {"accuracy": 0.2, "accuracy_at_0": 0.1, "accuracy_at_1": 0.1},
        )
        for n, seed in [(1, 0), (4, 2)]
    ),
    Case(
        Sorting(n=5),
        {
            "C": lambda problem, v, i, j: v["P"][i, j] * v["u"][j],
            "s": lambda problem, v, i: sum(v["C"][i]),
        },
        {"rmse": 0, "exact": 1},
        {"rmse": 0.3, "exact": 0.8},
        is_sorted_by_a_permutation,
    ),
    *(
        Case(
            Sudoku(a=a, b=b, grids=grids),
            {},
            {"valid": 1, "violations": 0, "exact": math.nan},
            {},  # another draw is a solution too
            holds_every_digit_once,
        )
        for a, b, grids in [(2, 2, "all"), (2, 3, "shifted")]
    ),
    Case(
        StateSpace(steps=6),
        {},
        {"z": 0, "z_squared": 1},
        {"z_squared": 2},
        tolerance={"z": 0.1, "z_squared": 0.15},
    ),
]

every_problem = pytest.mark.parametrize("case", CASES, ids=lambda c: repr(c.problem))


def sizes_of(problem):
    return list(problem.size_kinds)


def means(scores):
    """The mean of each metric over the instances in which it is defined."""
    return {
        name: torch.tensor([float(score[name]) for score in scores]).nanmean().item()
        for name in scores[0]
    }


def assert_correct(case, problem, values):
    """Every entry equals its definition, and what else is promised holds."""
    variables = problem.graphical_model().variables
    for name in set(case.definitions) & set(variables):
        for index in np.ndindex(variables[name].shape):
            expected = case.definitions[name](problem, values, *index)
            assert values[name][index].item() == pytest.approx(float(expected))
    assert case.holds(problem, values)


def test_every_problem_of_the_package_is_here():
    assert {type(case.problem).__name__ for case in CASES} >= set(problems.__all__)


# instances


@every_problem
def test_a_batch_fills_every_variable_with_values_of_its_domain(case):
    variables = case.problem.graphical_model().variables
    for num in (0, 1, 20):
        batch = draw_batch(case.problem, num)
        assert list(batch) == list(variables)
        for name, variable in variables.items():
            assert batch[name].shape == (num, *variable.shape)
            assert not variable.domain.outside(batch[name]).any()
            discrete = variable.domain.num_classes is not None
            assert batch[name].dtype == (torch.long if discrete else torch.float32)
    with pytest.raises(RuntimeError, match="negative dimension"):
        draw_batch(case.problem, -1)


@every_problem
def test_every_instance_of_a_batch_is_correct(case):
    variables = case.problem.graphical_model().variables
    intermediates = {n for n, v in variables.items() if v.role is Role.INTERMEDIATE}
    assert intermediates <= set(case.definitions)
    for values in draw_list(case.problem, 20):
        assert_correct(case, case.problem, values)


@every_problem
@settings(max_examples=20)
@given(data=st.data())
def test_instances_are_correct_at_any_size(case, data):
    sizes = {n: data.draw(st.integers(1, 4), n) for n in sizes_of(case.problem)}
    assume(not (isinstance(case.problem, Sudoku) and sizes == {"a": 1, "b": 1}))
    problem = replace(case.problem, **sizes)
    for values in draw_list(problem, 2):
        assert_correct(case, problem, values)


@every_problem
def test_a_sample_is_a_batch_of_one(case):
    one, other = seeded(5), seeded(5)
    for _ in range(3):  # so that both use the same amount of randomness
        values, batch = case.problem.sample(one), case.problem.sample_batch(1, other)
        assert list(values) == list(batch)
        for name in values:
            assert_close(values[name], batch[name][0], rtol=0, atol=0)


@every_problem
def test_the_instances_of_a_batch_differ(case):
    variables = case.problem.graphical_model().variables.values()
    continuous = any(variable.domain.num_classes is None for variable in variables)
    batch = draw_batch(case.problem, 20)
    distinct = torch.cat([v.reshape(20, -1).float() for v in batch.values()], dim=1)
    assert len(distinct.unique(dim=0)) >= (20 if continuous else 2)


@every_problem
def test_a_batch_depends_on_the_generator_alone(case, untouched_random_state):
    first, again, other = (draw_batch(case.problem, 8, seed) for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@every_problem
def test_values_survive_encoding_and_decoding(case):
    graph = case.problem.graphical_model()
    for values in draw_list(case.problem, 5):
        decoded = graph.decode(graph.encode(values))
        assert list(decoded) == list(values)
        for name in values:
            assert_close(decoded[name], values[name], rtol=0, atol=0)


# observed entries


@every_problem
def test_something_is_left_to_infer(case):
    variables = case.problem.graphical_model().variables
    observed = case.problem.observe_batch(20, seeded())
    assert list(observed) == list(variables)
    for name, mask in observed.items():
        assert mask.dtype == torch.bool and mask.shape == (20, *variables[name].shape)
    hidden = [(~mask.reshape(20, -1)).any(1) for mask in observed.values()]
    assert torch.stack(hidden).any(0).all()


@every_problem
def test_observe_is_a_batch_of_one(case):
    one, other = seeded(5), seeded(5)
    for mode in ("roles", "mixed", "mixed", "roles"):
        observed = case.problem.observe(one, mode)
        batch = case.problem.observe_batch(1, other, mode)
        assert list(observed) == list(batch)
        assert all(torch.equal(observed[name], batch[name][0]) for name in batch)


# metrics and picture


@every_problem
def test_true_answers_score_what_they_should(case):
    problem = case.problem
    scores = [problem.metrics(truth, truth) for truth in draw_list(problem, 300)]
    assert all(type(value) is float for value in scores[0].values())
    found = means(scores)
    assert set(found) == set(case.truth)
    for name, value in case.truth.items():
        tolerance = case.tolerance.get(name, 1e-3)
        assert found[name] == pytest.approx(value, abs=tolerance, nan_ok=True), name


@every_problem
def test_answers_combined_from_other_draws_score_clearly_worse(case):
    problem, scores = case.problem, []
    truths = draw_list(problem, 300)
    others = [draw_list(problem, 300, seed + 1) for seed in range(len(truths[0]))]
    for truth, *instances in zip(truths, *others, strict=True):
        guess = {name: v[name] for name, v in zip(truth, instances, strict=True)}
        scores.append(problem.metrics(guess, truth))
    found = means(scores)
    for name, distance in case.guess.items():
        assert abs(found[name] - case.truth[name]) > distance, name


@every_problem
def test_the_picture_is_a_figure_that_can_be_saved(case, tmp_path):
    sample, truth = draw_list(case.problem, 2)
    figure = case.problem.plot(sample, truth)
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "picture.png", dpi=20)
    assert (tmp_path / "picture.png").stat().st_size > 500


# arguments


@every_problem
def test_what_is_not_a_size_is_rejected_by_name(case):
    assert sizes_of(case.problem)
    for name in sizes_of(case.problem):
        for size in (0, -1, 1.5, "3", None, True):
            with pytest.raises(ValueError, match=rf"\.{name} is a size.*\(got "):
                replace(case.problem, **{name: size})


@every_problem
def test_an_unknown_mode_is_rejected_with_the_known_ones(case):
    for mode in (f for f in fields(case.problem) if get_origin(f.type) is Literal):
        for value in ("nonsense", 1, None):
            with pytest.raises(ValueError, match=rf"{mode.name} is one of .*\(got "):
                replace(case.problem, **{mode.name: value})


# panels


@every_problem
def test_panels_show_each_latent_variable_once(case):
    graph = graph_of(case.problem)
    panels = check_panels(case.problem.panels(), graph)
    shown = [name for panel in panels for name in panel.variables]
    latent = {v.name for v in graph.variables.values() if v.role is Role.LATENT}
    assert latent <= set(shown)
    assert len(shown) == len(set(shown))


@every_problem
def test_marks_of_panels_are_constraints_of_the_problem(case):
    marks = {rule for panel in case.problem.panels() for rule in panel.marks}
    if marks:
        found = case.problem.violations(draw_batch(case.problem, 2))
        assert marks <= set(found)
