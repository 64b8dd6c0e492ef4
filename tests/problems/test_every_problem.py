"""What holds for every problem: its samples, its graph's values, metrics, picture."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_origin

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch.testing import assert_close

import problems
from gsdm_pyg import Problem, Role
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)


@dataclass(frozen=True)
class Case:
    """A problem beside what is known about it, written independently of its sampler.

    Args:
        problem: The problem at one size.
        definitions: What an entry equals, by the problem, the values and its index.
        truth: Mean of each metric when the answers are true.
        guess: The least distance from that of answers put together from many draws.
        holds: What else is true of a sample.
        tolerance: Of the means in `truth` that are known up to chance only.
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


def only_the_first_terms_are_there(problem, v):
    """The first K rows of R have a 1; beyond them R and A are zero."""
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


def sums_to_the_identity(problem, v):
    return torch.allclose(v["C"].sum(-1), torch.eye(problem.n), atol=1e-3)


CASES = [
    Case(BCMF(m=3, n=4, k=2), PRODUCT, {"rmse": 0}, {"rmse": 0.3}),
    Case(BCMF(m=3, n=4, k=2, given="nothing"), PRODUCT, {"rmse": 0}, {"rmse": 0.3}),
    Case(
        HierarchicalBCMF(m=6, n=7, k=3),
        {**PRODUCT, "D": lambda problem, v, r: r + 1 <= v["K"]},
        {"rmse": 0, "rank_accuracy": 1},
        {"rmse": 0.3, "rank_accuracy": 0.5},
        only_the_first_terms_are_there,
    ),
    Case(MatrixInversion(n=3), PRODUCT, {"rmse": 0}, {"rmse": 1.5}),
    Case(
        MatrixInversion(n=3, target="identity"),
        INVERSE,
        {"rmse": 0},
        {"rmse": 0.5},
        sums_to_the_identity,
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
        for n, seed in [(1, 0), (2, 1), (4, 2)]
    ),
    *(
        Case(
            Sorting(n=n, ordering=ordering),
            {
                "C": lambda problem, v, i, j: v["P"][i, j] * v["u"][j],
                "s": lambda problem, v, i: sum(v["C"][i]),
            },
            {"rmse": 0, "exact": 1},
            {"rmse": 0.3, "exact": 0.8},
            is_sorted_by_a_permutation,
        )
        for n, ordering in [(4, "chain"), (5, "full"), (6, "none")]
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


def draws(problem, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [problem.sample(generator) for _ in range(count)]


def means(judged):
    """The mean of each metric over the instances in which it is defined."""
    return {
        name: torch.tensor([float(j[name]) for j in judged]).nanmean().item()
        for name in judged[0]
    }


def test_every_problem_of_the_package_is_here():
    assert {type(case.problem).__name__ for case in CASES} >= set(problems.__all__)


@every_problem
def test_samples_fill_every_variable_with_values_of_its_domain(case):
    variables = case.problem.graphical_model().variables
    for values in draws(case.problem, 20):
        assert list(values) == list(variables)
        for name, variable in variables.items():
            assert values[name].shape == variable.shape
            assert not variable.domain.outside(values[name]).any()
            discrete = variable.domain.num_classes is not None
            assert values[name].dtype == (torch.long if discrete else torch.float32)


@every_problem
def test_every_entry_equals_its_definition(case):
    variables = case.problem.graphical_model().variables
    intermediates = {n for n, v in variables.items() if v.role is Role.INTERMEDIATE}
    assert intermediates <= set(case.definitions)
    for values in draws(case.problem, 5):
        for name in set(case.definitions) & set(variables):
            for index in np.ndindex(variables[name].shape):
                expected = case.definitions[name](case.problem, values, *index)
                assert values[name][index].item() == pytest.approx(float(expected))


@every_problem
def test_samples_satisfy_what_the_problem_promises(case):
    assert all(case.holds(case.problem, values) for values in draws(case.problem, 50))


@every_problem
def test_values_survive_encoding_and_decoding(case):
    graph = case.problem.graphical_model()
    for values in draws(case.problem, 5):
        decoded = graph.decode(graph.encode(values))
        assert list(decoded) == list(values)
        for name in values:
            assert_close(decoded[name], values[name], rtol=0, atol=0)


@every_problem
def test_something_is_left_to_infer(case):
    variables = case.problem.graphical_model().variables
    for seed in range(20):
        observed = case.problem.observe(torch.Generator().manual_seed(seed))
        assert list(observed) == list(variables)
        for name, mask in observed.items():
            assert mask.dtype == torch.bool and mask.shape == variables[name].shape
        assert not all(mask.all() for mask in observed.values())


@every_problem
def test_samples_depend_on_the_generator_alone(case, untouched_random_state):
    first, again = (draws(case.problem, 8, seed=3) for _ in range(2))
    for one, two in zip(first, again, strict=True):
        assert all(torch.equal(one[name], two[name]) for name in one)
    other = draws(case.problem, 8, seed=4)
    assert any(
        not torch.equal(one[name], two[name])
        for one, two in zip(first, other, strict=True)
        for name in one
    )


@every_problem
def test_true_answers_score_what_they_should(case):
    judged = [case.problem.metrics(truth, truth) for truth in draws(case.problem, 300)]
    found = means(judged)
    assert set(found) == set(case.truth)
    for name, value in case.truth.items():
        tolerance = case.tolerance.get(name, 1e-3)
        assert found[name] == pytest.approx(value, abs=tolerance, nan_ok=True), name


@every_problem
def test_answers_put_together_from_many_draws_score_clearly_worse(case):
    problem, judged = case.problem, []
    for seed in range(300):
        truth, *others = draws(problem, 10, seed)
        guess = {name: v[name] for name, v in zip(truth, others, strict=False)}
        judged.append(problem.metrics(guess, truth))
    found = means(judged)
    for name, distance in case.guess.items():
        assert abs(found[name] - case.truth[name]) > distance, name


@every_problem
def test_metrics_are_plain_numbers(case):
    truth = draws(case.problem, 1)[0]
    assert all(type(v) is float for v in case.problem.metrics(truth, truth).values())


@every_problem
def test_the_picture_is_a_figure_that_can_be_saved(case, tmp_path):
    sample, truth = draws(case.problem, 2)
    figure = case.problem.plot(sample, truth)
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "picture.png", dpi=20)
    assert (tmp_path / "picture.png").stat().st_size > 500


@every_problem
@pytest.mark.parametrize("size", [0, -1, 1.5, "3", None, True])
def test_what_is_not_a_size_is_refused_by_name(case, size):
    sizes = [f.name for f in fields(case.problem) if f.type is int]
    assert sizes
    for name in sizes:
        with pytest.raises(ValueError, match=rf"\.{name} is a size.*\(got "):
            replace(case.problem, **{name: size})


@every_problem
def test_an_unknown_mode_is_refused_with_the_known_ones(case):
    for mode in (f for f in fields(case.problem) if get_origin(f.type) is Literal):
        for value in ("nonsense", 1, None):
            with pytest.raises(ValueError, match=rf"{mode.name} is one of .*\(got "):
                replace(case.problem, **{mode.name: value})
