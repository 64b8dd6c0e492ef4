"""The parts of `python -m benchmarks.solve`, with hand-made answers for a model's."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear

from benchmarks import solve as benchmark
from benchmarks import solve_methods
from benchmarks.solve_baselines import (
    alternation_attempt,
    bounded_least_squares,
    factorize,
    nmf_attempt,
    propagate,
)
from benchmarks.solve_checks import (
    EXACT,
    equation_error,
    factorization_error,
    rmse,
    solves_sudoku,
    sorts,
)
from benchmarks.solve_methods import METHODS, Answer, Run
from benchmarks.solve_statistics import (
    chi_square,
    chi_square_test,
    cost_curve,
    expected_distinct,
    solved_within,
)
from benchmarks.solve_tasks import TASKS, CountedSudoku, Instance, read_unique_puzzles
from problems import BCMF, Sudoku
from problems.sudoku_puzzles import draw_counted_puzzles, draw_unique_puzzles
from tests.problems.draws import draw_batch, seeded

SLOW = ("sudoku-minimal-18", "sudoku-minimal-19", "sudoku-minimal-20")  # to draw
QUICK = [name for name in TASKS if name not in SLOW]


def planted(m, n, k, seed=0):
    """A factorization that exists, as E, A and R."""
    drawn = draw_batch(BCMF(m=m, n=n, k=k), 1, seed)
    return tuple(drawn[name][0].double().numpy() for name in ("E", "A", "R"))


def claim(solution, **more):
    """An answer that claims to be verified."""
    answer = {"solution": solution, "verified": True, "evaluations": 7, "distinct": 0}
    return SimpleNamespace(**{**answer, "solutions": {}, **more})


# verifiers


def test_every_valid_grid_solves_its_own_clues_and_the_empty_puzzle():
    for a, b in [(2, 2), (2, 3), (3, 3)]:
        grid = draw_batch(Sudoku(a=a, b=b), 1)["cells"][0].numpy()
        empty = np.full(grid.shape, np.nan)
        assert solves_sudoku({"cells": grid.astype(float)}, {"cells": grid}, a, b)
        assert solves_sudoku({"cells": empty}, {"cells": grid}, a, b)


def test_a_changed_clue_or_a_broken_group_is_no_solution():
    grid = draw_batch(Sudoku(), 1)["cells"][0].numpy()
    empty = np.full((9, 9), np.nan)
    for cell in np.ndindex(9, 9):
        broken = grid.copy()
        broken[cell] = (grid[cell] + 1) % 9
        assert not solves_sudoku({"cells": empty}, {"cells": broken})
    clues = empty.copy()
    clues[4, 4] = (grid[4, 4] + 1) % 9
    assert not solves_sudoku({"cells": clues}, {"cells": grid})


def test_rows_and_columns_without_blocks_are_no_solution():
    latin = (np.arange(9)[:, None] + np.arange(9)) % 9
    assert not solves_sudoku({"cells": np.full((9, 9), np.nan)}, {"cells": latin})


def test_factorizations_are_scored_within_their_domains():
    E, A, R = planted(8, 8, 4)
    assert factorization_error({"E": E}, {"A": A, "R": R}) < 1e-6
    error = factorization_error({"E": E + 0.5}, {"A": A, "R": R})
    assert error == pytest.approx(0.5, abs=1e-6)
    assert factorization_error({"E": E}, {"A": A * 2, "R": R / 2}) == math.inf
    assert factorization_error({"E": E}, {"A": A + 1, "R": R}) == math.inf


def test_sorting_needs_a_permutation_and_the_right_order():
    u = np.array([0.3, -1.0, 2.0])
    right = np.eye(3)[[1, 0, 2]]
    assert sorts({"u": u}, {"P": right})
    assert not sorts({"u": u}, {"P": np.eye(3)})
    repeated = np.eye(3)[[1, 1, 2]]  # sorted, but 0.3 is lost
    assert not sorts({"u": u}, {"P": repeated})


def test_the_inverse_solves_the_equation():
    A = np.array([[2.0, 1.0], [0.0, 4.0]])
    given = {"A": A, "E": np.eye(2)}
    assert equation_error(given, {"R": np.linalg.inv(A)}) < 1e-12
    assert equation_error(given, {"R": np.zeros((2, 2))}) == pytest.approx(0.5**0.5)


def test_a_wrong_claim_is_an_error():
    task, grid = TASKS["sudoku-0"], draw_batch(Sudoku(), 1)["cells"][0].numpy()
    wrong = grid.copy()
    wrong[0, 0] = wrong[0, 1]
    instance = Instance({"cells": np.full((9, 9), np.nan)})
    assert task.record(instance, claim({"cells": grid}))["solved"]
    with pytest.raises(RuntimeError, match="claimed to be verified and is wrong"):
        task.record(instance, claim({"cells": wrong}))
    several = {"solutions": {"cells": np.stack([grid, wrong])}, "distinct": 2}
    with pytest.raises(RuntimeError, match="claimed to be verified and is wrong"):
        task.record(instance, claim({"cells": grid}, **several))
    honest = claim({"cells": wrong}, verified=False)
    assert not task.record(instance, honest)["solved"]
    assert not task.record(instance, claim({}, verified=False))["solved"]


def test_one_solution_counted_twice_is_an_error():
    grid = draw_batch(Sudoku(), 1)["cells"][0].numpy()
    instance = Instance({"cells": np.full((9, 9), np.nan)}, 20)
    twice = {"solutions": {"cells": np.stack([grid, grid])}, "distinct": 2}
    answer = claim({"cells": grid}, **twice, counts=torch.tensor([3, 4]))
    with pytest.raises(RuntimeError, match=r"distinct and 1 are \(got distinct=2\)"):
        TASKS["sudoku-distinct"].record(instance, answer)


def test_without_an_answer_the_error_is_infinite():
    E, A, R = planted(8, 8, 4)
    task, instance = TASKS["bcmf-8-8-4"], Instance({"E": E})
    assert task.record(instance, claim({"A": A, "R": R}))["rmse"] < 1e-6
    none = task.record(instance, claim({}, verified=False))
    claimed = {"solved": False, "verified": False}
    assert none == {**claimed, "evaluations": 7, "rmse": math.inf}


# statistics


@pytest.mark.parametrize("num, draws", [(1, 5), (10, 100), (500, 100)])
def test_expected_distinct_is_that_of_uniform_draws(num, draws):
    rng = np.random.default_rng(0)
    found = [len(np.unique(rng.integers(num, size=draws))) for _ in range(2000)]
    error = 4 * np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found) - expected_distinct(num, draws)) <= error + 1e-9


def test_chi_square_is_the_sum_over_all_outcomes():
    counts, num = [5, 3, 2], 4
    direct = sum((count - 2.5) ** 2 / 2.5 for count in [*counts, 0])
    assert chi_square(counts, num) == pytest.approx(direct)


def test_chi_squares_of_uniform_draws_have_standard_normal_z():
    rng = np.random.default_rng(0)
    nums, draws = [10, 50, 200, 800], [100] * 4
    found = []
    for _ in range(500):
        counts = [
            np.unique(rng.integers(d, size=n), return_counts=True)[1]
            for d, n in zip(nums, draws, strict=True)
        ]
        values = [chi_square(c, d) for c, d in zip(counts, nums, strict=True)]
        found.append(chi_square_test(values, nums, draws))
    z, p = ([test[name] for test in found] for name in ("z", "p"))
    assert abs(np.mean(z)) < 4 / 500**0.5
    assert abs(np.std(z) - 1) < 0.2
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09


def test_draws_that_prefer_some_outcomes_have_a_small_p_value():
    counts = [[20, 20] + [5] * 12] * 5  # of 14 outcomes
    values = [chi_square(c, 14) for c in counts]
    assert chi_square_test(values, [14] * 5, [100] * 5)["p"] < 1e-6


def test_the_cost_curve_counts_what_was_solved_alone():
    curve = cost_curve([True, True, False, True], [50, 10, 10, 50])
    assert curve == [[10, 0.25], [50, 0.75]]
    assert cost_curve([False], [3]) == []
    assert solved_within(curve, [0, 10, 49, 50, 99]) == [0, 0.25, 0.25, 0.75, 0.75]
    assert solved_within([], [5]) == [0]


# other methods


@pytest.mark.parametrize("seed", range(3))
def test_bounded_least_squares_is_scipy_s(seed):
    E, _, R = planted(6, 12, 4, seed)
    noisy = E + 0.3 * np.random.default_rng(seed).normal(size=E.shape)
    exact = [lsq_linear(R.T, row, (0, 1)).x for row in noisy]
    found = bounded_least_squares(noisy, R)
    assert found.min() >= 0 and found.max() <= 1
    assert rmse(noisy, found @ R) == pytest.approx(
        rmse(noisy, np.stack(exact) @ R), abs=1e-6
    )


@pytest.mark.parametrize("attempt", [nmf_attempt, alternation_attempt])
@pytest.mark.parametrize("m, n, k", [(8, 8, 3), (20, 20, 4)])
def test_restarts_recover_a_planted_factorization(attempt, m, n, k):
    E, _, _ = planted(m, n, k)
    A, R, attempts = factorize(attempt, E, k, seconds=20, seed=0)
    assert attempts >= 1
    assert factorization_error({"E": E}, {"A": A, "R": R}) < EXACT


def test_factorizing_ends_in_time_after_one_attempt_at_least():
    E = np.random.default_rng(0).random((10, 16))  # no such factorization exists
    assert factorize(alternation_attempt, E, 2, seconds=0, seed=0)[2] == 1


def test_propagation_fills_in_what_is_certain():
    puzzles, solutions = draw_unique_puzzles(20, (30, 40), generator=seeded(0))
    full = 0
    for puzzle, solution in zip(puzzles, solutions, strict=True):
        found = propagate(np.where(puzzle < 0, np.nan, puzzle))
        known = ~np.isnan(found)
        assert (found[known] == solution[known]).all()
        full += known.all()
    assert full > 10
    (puzzle,), (several,) = draw_counted_puzzles(1, generator=seeded(0))
    found = propagate(np.where(puzzle < 0, np.nan, puzzle))
    shared = (several == several[0]).all(0)
    assert np.isnan(found[~shared]).all()


def test_polishing_draws_from_the_prior_factorizes_without_a_model():
    task = TASKS["bcmf-8-8-4"]
    instances = task.draw(3, seeded(2))
    answers = METHODS["polish"](task, Run("", {}, 0, 20.0))(instances)
    for instance, answer in zip(instances, answers, strict=True):
        assert task.record(instance, answer)["rmse"] < EXACT
        assert answer.evaluations >= 1 and not answer.verified
    hurried = METHODS["polish"](task, Run("", {}, 0, 0.0))(instances)
    assert [answer.evaluations for answer in hurried] == [1, 1, 1]


# tasks


@pytest.mark.parametrize("name", QUICK)
def test_instances_depend_on_the_generator_alone_and_fit_the_problem(name):
    task = TASKS[name]
    first, again, other = (task.draw(1, seeded(s))[0].given for s in (0, 0, 1))
    graph = task.problem.graphical_model()
    for variable, array in first.items():
        assert array.shape == graph.variables[variable].shape
        np.testing.assert_array_equal(array, again[variable])
    assert name == "sudoku-0" or any(
        not np.array_equal(first[v], other[v], equal_nan=True) for v in first
    )


def test_draws_of_several_solutions_are_compared_with_uniform_ones():
    """Of puzzles whose solutions are drawn uniformly here."""
    task, rng = CountedSudoku(5), np.random.default_rng(0)
    puzzles, solutions = draw_counted_puzzles(5, generator=seeded(0))
    records = []
    for puzzle, found in zip(puzzles, solutions, strict=True):
        drawn, counts = np.unique(
            rng.integers(len(found), size=100), return_counts=True
        )
        given = {"cells": np.where(puzzle < 0, np.nan, puzzle)}
        answer = claim(
            {"cells": found[drawn[0]]},
            solutions={"cells": found[drawn]},
            counts=torch.from_numpy(counts),
            distinct=len(drawn),
        )
        records.append(task.record(Instance(given, len(found)), answer))
    assert all(record["solved"] for record in records)
    details = task.details(records)
    assert details["distinct over uniform"] == pytest.approx(1, abs=0.15)
    assert abs(details["z"]) < 4


def test_a_uniform_network_holds_all_classes_equally_likely(monkeypatch):
    seen = []
    monkeypatch.setattr(
        solve_methods.GSDM,
        "solve",
        lambda self, *_, **options: seen.append((self, options)),
        raising=False,
    )
    task = TASKS["sudoku-0"]
    run = Run(task.folder, {"tries": 2}, 5, 0.0)
    for method in ("model", "uniform"):
        METHODS[method](task, run)(task.draw(2, seeded(0)))
    assert [o for _, o in seen] == [
        {"tries": 2, "num_solutions": 1, "generator": 5}
    ] * 2
    outputs = [model.diffusion.denoiser.output for model, _ in seen]
    h = torch.randn(3, outputs[0].in_features)
    assert outputs[0](h).std() > 0 and (outputs[1](h) == 0).all()


# runs


@pytest.fixture
def runs(monkeypatch):
    """Which parts are measured; the model's answers are those of alternation."""
    measured = []

    def method(task, run):
        def solve(instances):
            if len(measured) == 2:
                measured.append("interrupted")
                raise KeyboardInterrupt
            measured.append(len(instances))
            return [Answer(each.solution, 10) for each in alternation(instances)]

        alternation = METHODS["alternation"](task, Run("", {}, 0, 0.5))
        return solve

    monkeypatch.setitem(METHODS, "model", method)
    monkeypatch.setattr(benchmark, "PART", 2)
    return measured


def test_an_interrupted_run_goes_on_where_it_stopped(runs, tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ["--task=bcmf-8-8-4", "--instances=5", f"--out={out}"]
    with pytest.raises(KeyboardInterrupt):
        benchmark.main(arguments)
    assert runs == [2, 2, "interrupted"]
    benchmark.main(arguments)
    assert runs[3:] == [1]
    benchmark.main(arguments)
    assert len(runs) == 4
    found = json.loads(out.read_bytes())
    assert len(found["parts"]) == 12  # three parts by four methods
    methods = [row["method"] for row in found["results"]]
    assert methods == ["model", "nmf", "alternation", "polish"]
    model = found["results"][0]
    assert model["instances"] == 5 and model["solved"] == 1
    assert model["curve"] == [[10, 1.0]]
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith("| bcmf-8-8-4 | polish | 5 | ")
    # Another seed has other instances, so it is measured anew.
    benchmark.main([*arguments, "--seed=1000", "--model-only"])
    assert runs[4:] == [2, 2, 1]


def as_lines(puzzles):
    """Puzzles [num, 9, 9] as lines of 81 characters."""
    rows = ["".join(".123456789"[d + 1] for d in p.flatten()) for p in puzzles]
    return "\n".join(rows) + "\n"


def test_puzzles_of_a_file_are_measured_part_by_part(tmp_path, monkeypatch, capsys):
    puzzles, _ = draw_unique_puzzles(5, (24, 30), generator=seeded(0))
    file, out, asked = tmp_path / "own.txt", tmp_path / "out.json", []
    file.write_text(as_lines(puzzles))
    np.testing.assert_array_equal(read_unique_puzzles(file.read_text()), puzzles)

    def method(task, run):
        def solve(instances):
            asked.extend(each.given["cells"] for each in instances)
            return METHODS["propagation"](task, run)(instances)

        return solve

    monkeypatch.setattr(benchmark, "PART", 2)
    monkeypatch.setitem(METHODS, "model", method)
    arguments = [f"--puzzles={file}", "--model-only", f"--out={out}"]
    benchmark.main(arguments)
    np.testing.assert_array_equal(np.nan_to_num(asked, nan=-1), puzzles)
    (row,) = json.loads(out.read_bytes())["results"]
    assert row["instances"] == 5 and row["task"].startswith("own-")
    printed = capsys.readouterr().out
    assert "| solved | within 0, 1, 2, 5, 10, 20, 50 |" in printed
    benchmark.main(arguments)
    assert len(asked) == 5  # taken from the file of results
    file.write_text(as_lines(puzzles[1:]))
    benchmark.main([*arguments, "--instances=3"])
    assert len(asked) == 8  # other puzzles are another task


def test_puzzles_without_one_solution_are_rejected(tmp_path, capsys):
    file = tmp_path / "own.txt"
    (unique,), _ = draw_unique_puzzles(1, (24, 30), generator=seeded(0))
    (several,), _ = draw_counted_puzzles(1, generator=seeded(0))
    twice = unique.copy()
    row, column = np.argwhere(unique >= 0)[0]
    twice[row] = -1
    twice[row, column] = twice[row, (column + 1) % 9] = unique[row, column]
    texts = {
        as_lines([unique, several]): "Puzzle 2 must have one solution, so that an "
        "answer is right or wrong (got several solutions)",
        as_lines([unique, twice]): f"The clues of puzzle 2 contradict each other: row "
        f"{row + 1}",
        as_lines([unique])[:-2] + "\n": "got 80 in line 1",
    }
    for text, message in texts.items():
        file.write_text(text)
        with pytest.raises(SystemExit):
            benchmark.parse([f"--puzzles={file}"])
        assert message in " ".join(capsys.readouterr().err.split())
    file.write_text(as_lines([unique]))
    for more, message in (
        ("--task=sudoku-0", "give it or --task (got both)"),
        ("--instances=2", "at most the number of puzzles, 1 (got 2)"),
    ):
        with pytest.raises(SystemExit):
            benchmark.parse([f"--puzzles={file}", more])
        assert message in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SystemExit):
        benchmark.parse([f"--puzzles={tmp_path / 'none.txt'}"])
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tries=0"], "at least 1 (got 0)"),
        (["--instances=many"], "at least 1 (got many)"),
        (["--set=stepps=3"], "stepps"),
        (["--model=folder"], "--model is for one task"),
        (["--task=chess"], "invalid choice: 'chess'"),
    ],
)
def test_wrong_options_are_rejected_before_any_work(arguments, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse(arguments)
    assert message in capsys.readouterr().err


def test_budget_and_sampler_reach_solve():
    arguments = ["--tries=3", "--max-evaluations=60", "--search=sample"]
    options = benchmark.parse(["--task=sorting-20", *arguments, "--set=steps=5"])
    search = {"method": "sample", "tries": 3, "max_evaluations": 60}
    assert options.solve == {**search, "steps": 5}
    used = benchmark.of_task(TASKS["sorting-20"], options)
    assert used["instances"] == 200 and used["model"] == "pretrained/sorting-n20"
