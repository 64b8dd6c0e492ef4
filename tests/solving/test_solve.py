"""Solutions are verified, cost what they may, and depend on the seed alone."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch

from gsdm_pyg import GSDM, Categorical, GraphicalModel, Problem, Size
from gsdm_pyg.settings_base import SettingsError
from gsdm_pyg.solving import SolvingInterrupted, search
from gsdm_pyg.solving.solution import distinct
from problems import (
    BCMF,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)
from tests.helpers import ROOT
from tests.problems.draws import draw_batch, seeded

SMALL = Sudoku(2, 2)
BLANK = torch.full((4, 4), math.nan)


@pytest.fixture(scope="module")
def guesser():
    """An untrained model of 4x4 Sudokus."""
    torch.manual_seed(0)
    return GSDM.from_problem(SMALL, width=8, layers=1)


@pytest.fixture(scope="module")
def sorter():
    return GSDM.from_pretrained(ROOT / "pretrained" / "sorting-n10")


@pytest.fixture(scope="module")
def factorizer():
    return GSDM.from_pretrained(ROOT / "pretrained" / "bcmf-varsize")


def is_sudoku(cells, side=2):
    """Whether each row, column and block holds each digit once; by sets."""
    n, grid = side * side, cells.tolist()
    rows = [set(row) for row in grid]
    columns = [set(column) for column in zip(*grid, strict=True)]
    blocks = [
        {grid[a + i][b + j] for i, j in itertools.product(range(side), repeat=2)}
        for a, b in itertools.product(range(0, n, side), repeat=2)
    ]
    return all(group == set(range(n)) for group in rows + columns + blocks)


def clues(*known):
    """A puzzle with some cells (row, column, digit)."""
    cells = BLANK.clone()
    for row, column, digit in known:
        cells[row, column] = digit
    return cells


def test_a_verified_grid_obeys_the_rules_and_keeps_the_clues(guesser):
    given = torch.stack([BLANK, clues((0, 0, 1)), clues((0, 0, 1), (2, 1, 3))])
    found = guesser.solve(SMALL, {"cells": given}, generator=0)
    for puzzle, answer in zip(given, found, strict=True):
        cells, known = answer.solution["cells"], ~puzzle.isnan()
        assert answer.verified and not answer.violations
        assert is_sudoku(cells)
        assert torch.equal(cells[known], puzzle[known].long())
        assert answer.distinct == 1 and answer.counts.tolist() == [1]


def test_what_clues_imply_costs_no_evaluation(guesser):
    grid = draw_batch(SMALL, 1)["cells"][0].double()
    grid[0, 0] = math.nan
    found = guesser.solve(SMALL, {"cells": grid})
    assert found.verified and found.evaluations == 0
    assert is_sudoku(found.solution["cells"])


@pytest.mark.parametrize(
    "known, message",
    [
        ([(0, 0, 1), (0, 3, 1)], "contradict each other"),
        # The cell (0, 0) sees all four digits, none of them twice.
        ([(0, 1, 0), (0, 2, 1), (1, 0, 2), (2, 0, 3)], r"no value for cells\[0, 0\]"),
    ],
)
def test_contradictions_are_rejected_before_sampling(guesser, known, message):
    with pytest.raises(ValueError, match=message):
        guesser.solve(SMALL, {"cells": clues(*known)})


def test_a_model_that_always_errs_ends_within_its_budget_and_says_so(guesser):
    found = guesser.solve(
        SMALL, method="sample", tries=50, max_evaluations=25, generator=0, steps=10
    )
    assert not found.verified and found.distinct == 0
    assert found.evaluations == 20  # a third try of ten steps would be beyond 25
    short = guesser.solve(SMALL, method="sample", max_evaluations=4, generator=0)
    assert short.evaluations == 4 and short.solution  # a try as short as need be
    assert found.violations["a digit twice"].sum() > 0
    assert not is_sudoku(found.solution["cells"])
    assert "not solved after 20 evaluations: a digit twice" in str(found)


def test_tries_are_counted(sorter):
    u = draw_batch(Sorting(10), 4)["u"]
    evaluated = []
    found = sorter.solve(
        Sorting(10),
        {"u": u},
        generator=0,
        tries=2,
        on_estimate=lambda instances, x: evaluated.append(instances.tolist()),
    )
    for i, answer in enumerate(found):
        assert answer.evaluations == sum(i in instances for instances in evaluated)
        assert answer.evaluations <= 20


def test_sorted_numbers_are_sorted_and_verified_by_python(sorter):
    u = draw_batch(Sorting(10), 8)["u"]
    found = sorter.solve(Sorting(10), {"u": u}, generator=0)
    assert all(answer.verified for answer in found)
    for numbers, answer in zip(u, found, strict=True):
        assert answer.solution["s"].tolist() == sorted(numbers.tolist())


def test_equal_seeds_give_equal_answers_whatever_the_batch(sorter, guesser, factorizer):
    matrices = BCMF(6, 8, 4)
    for model, problem, name, given in (
        (factorizer, matrices, "R", {"E": draw_batch(matrices, 5)["E"]}),
        (sorter, Sorting(10), "P", {"u": draw_batch(Sorting(10), 5)["u"]}),
        (guesser, SMALL, "cells", {"cells": BLANK.expand(5, 4, 4)}),
    ):
        once, again, small = (
            model.solve(problem, given, generator=7, max_nodes=most)
            for most in (200_000, 200_000, 1)
        )
        for answers in zip(once, again, small, strict=True):
            first, *others = answers
            for other in others:
                assert torch.equal(first.solution[name], other.solution[name])
                assert first.evaluations == other.evaluations


def test_an_instance_can_have_several_solutions(guesser):
    found = guesser.solve(SMALL, num_solutions=40, generator=0)
    grids = found.solutions["cells"]
    assert (
        found.distinct
        == len(grids)
        == len({tuple(g.flatten().tolist()) for g in grids})
    )
    assert all(is_sudoku(cells) for cells in grids)
    assert found.counts.sum() == 40
    assert found.distinct > 25  # of 288


def test_an_untrained_committing_model_draws_grids_about_uniformly(guesser):
    """Singles and even chances favor no grid of the 288 by much."""
    even = copy.deepcopy(guesser)
    for parameter in even.diffusion.denoiser.output.parameters():
        torch.nn.init.zeros_(parameter)
    found = even.solve(SMALL, num_solutions=600, generator=0)
    uniform = 288 * (1 - (1 - 1 / 288) ** 600)
    assert found.distinct == pytest.approx(uniform, rel=0.1)


def test_the_path_ends_at_the_solution(sorter):
    u = draw_batch(Sorting(10), 1)["u"][0]
    found = sorter.solve(Sorting(10), {"u": u}, generator=0, return_path=True)
    assert len(found.path["P"]) == found.evaluations  # of one try
    assert torch.equal(found.path["P"][-1], found.solution["P"])
    assert sorter.solve(Sorting(10), {"u": u}, generator=0).path is None


def test_the_path_is_that_of_the_try_that_is_shown(guesser):
    """Tries of 10 evaluations each; what they guess is wrong."""
    sampling = {"method": "sample", "steps": 10, "generator": 0, "return_path": True}
    found = guesser.solve(SMALL, tries=4, num_solutions=3, **sampling)
    assert found.evaluations == 120 and len(found.path["cells"]) == 10
    assert torch.equal(found.path["cells"][-1], found.solution["cells"])


def test_of_wrong_answers_the_one_that_misses_least_is_shown(factorizer, monkeypatch):
    seen, violations = [], BCMF.violations

    def watched(self, samples):
        found = violations(self, samples)
        off = found["E = A R"].double().flatten(1)
        off = off.where(off > self.tolerance, 0.0)
        seen.extend(zip((off > 0).sum(1).tolist(), off.sum(1).tolist(), strict=True))
        return found

    monkeypatch.setattr(BCMF, "violations", watched)
    problem, E = BCMF(8, 12, 5), torch.rand(8, 12, generator=seeded())  # rank 8
    found = factorizer.solve(problem, {"E": E}, generator=0, tries=1, num_solutions=6)
    off = found.violations["E = A R"]
    assert len(set(seen)) > 2  # answers that are wrong in several ways
    assert (int((off > 0).sum()), off.sum().item()) == min(seen)


def test_answers_differ_if_numbers_do_by_more_than_the_tolerance():
    problem = BCMF(1, 1, 1)  # tolerance 0.01

    def answer(a, r):
        return {"A": torch.tensor([[a]]), "R": torch.tensor([[r]])}

    answers = [answer(*x) for x in ((0.0049, 1), (0.0051, 1), (0.02, 1), (0.02, 0))]
    found, counts = distinct(problem, answers)
    assert counts.tolist() == [2, 1, 1]
    assert found["R"].flatten().tolist() == [1, 1, 0]


def test_answers_with_a_single_number_are_compared():
    problem = HierarchicalBCMF(2, 2, 2)
    values = draw_batch(problem, 3)
    answers = [{name: x[i] for name, x in values.items()} for i in (0, 1, 0)]
    found, counts = distinct(problem, answers)
    assert counts.tolist() == [2, 1] and found["K"].shape == (2,)


def test_interrupting_keeps_what_is_solved(guesser):
    grids = draw_batch(SMALL, 2)["cells"].double()
    grids[0, 0, 0] = math.nan  # follows from the others
    grids[1] = math.nan

    def stop(instances, x):
        raise KeyboardInterrupt

    with pytest.raises(SolvingInterrupted) as stopped:
        guesser.solve(SMALL, {"cells": grids}, on_estimate=stop)
    first, second = stopped.value.solutions
    assert first.verified and is_sudoku(first.solution["cells"])
    assert not second.verified and second.evaluations == 0


def test_solving_leaves_sampling_and_global_randomness_alone(sorter):
    given = {"u": draw_batch(Sorting(10), 1)["u"][0]}
    before = sorter.sample(Sorting(10), given, generator=3)
    state = torch.random.get_rng_state()
    sorter.solve(Sorting(10), given, generator=0)
    assert torch.equal(torch.random.get_rng_state(), state)
    after = sorter.sample(Sorting(10), given, generator=3)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_factorization_is_polished_and_exact(factorizer):
    problem = BCMF(6, 6, 2)
    E = draw_batch(problem, 3)["E"]
    found = factorizer.solve(problem, {"E": E}, generator=0)
    for target, answer in zip(E, found, strict=True):
        A, R = answer.solution["A"], answer.solution["R"]
        assert answer.verified
        assert (target - A @ R.float()).abs().max() < 0.01
        assert ((A >= 0) & (A <= 1)).all() and set(R.flatten().tolist()) <= {0, 1}


def test_a_matrix_with_missing_entries_is_factorized(factorizer):
    problem = BCMF(6, 6, 2)
    E = draw_batch(problem, 10)["E"]
    known = torch.rand(E.shape, generator=seeded(1)) < 0.7
    given = {"E": E.where(known, math.nan)}
    found = factorizer.solve(problem, given, generator=0, tries=8)
    assert sum(answer.verified for answer in found) >= 8
    for target, mask, answer in zip(E, known, found, strict=True):
        product = answer.solution["A"] @ answer.solution["R"].float()
        off = (product - target).abs()[mask].max().item()
        assert answer.verified == (off < 0.01)


def test_given_factors_are_kept_and_the_other_is_found(factorizer):
    problem = BCMF(6, 8, 4)
    values = draw_batch(problem, 4)
    for given, unknown in (("R", "A"), ("A", "R")):
        known = {"E": values["E"], given: values[given]}
        found = factorizer.solve(problem, known, generator=0, tries=1)
        for target, factor, answer in zip(*known.values(), found, strict=True):
            A, R = answer.solution["A"], answer.solution["R"].float()
            assert answer.verified and answer.evaluations == 10
            assert (target - A @ R).abs().max() < 0.01
            assert torch.equal(answer.solution[given].to(factor), factor)
            assert ((A >= 0) & (A <= 1)).all() and unknown in answer.solution


@pytest.mark.parametrize("name, wrong", [("A", 1.2), ("A", -0.1), ("R", 2), ("R", 0.5)])
def test_factors_outside_of_their_domains_are_rejected(factorizer, name, wrong):
    problem = BCMF(6, 8, 4)
    values = draw_batch(problem, 1)
    given = {n: values[n][0].double() for n in ("E", name)}
    given[name][1, 2] = wrong
    with pytest.raises(ValueError, match=rf"given\['{name}'\] takes .*got {wrong}"):
        factorizer.solve(problem, given)


def test_a_matrix_beyond_all_products_ends_unverified(factorizer):
    """Noise may carry E out of [0, k], so that it is no error."""
    E = torch.full((6, 8), 4.5)  # k = 4 terms of at most 1
    found = factorizer.solve(BCMF(6, 8, 4), {"E": E}, generator=0, tries=1)
    assert not found.verified and (found.violations["E = A R"] > 0.49).all()


def test_an_instance_alone_has_the_answer_of_its_row_in_a_batch(factorizer):
    """The first row: a seed counts instances by their place."""
    problem = BCMF(6, 8, 4)
    E = draw_batch(problem, 5)["E"]
    batch = factorizer.solve(problem, {"E": E}, generator=3)
    alone = factorizer.solve(problem, {"E": E[0]}, generator=3)
    assert alone.verified and alone.evaluations == batch[0].evaluations
    assert torch.equal(alone.solution["R"], batch[0].solution["R"])
    torch.testing.assert_close(alone.solution["A"], batch[0].solution["A"])


def test_a_matrix_is_inverted_by_its_definition():
    problem = MatrixInversion(5, target="identity")
    model = GSDM.from_pretrained(ROOT / "pretrained" / "matrix-inversion")
    values = draw_batch(problem, 6)
    given = {"A": values["A"], "E": values["E"]}
    found = model.solve(problem, given, generator=0, tries=4)
    assert sum(answer.verified for answer in found) >= 4
    for A, answer in zip(values["A"], found, strict=True):
        off = np.abs(A.numpy() @ answer.solution["R"].numpy() - np.eye(5)).max()
        assert answer.verified == (off < 0.01)


def test_a_given_intermediate_must_fit_the_answer(factorizer):
    problem = BCMF(4, 4, 2)
    E = draw_batch(problem, 8)["E"]
    C = torch.full((8, 4, 4, 2), math.nan)
    C[:, 0, 0, 0] = torch.where(torch.arange(8) < 4, 0.9, 0.0)
    found = factorizer.solve(problem, {"E": E, "C": C}, generator=0, tries=4)
    assert any(answer.verified for answer in found)
    for product, answer in zip(C[:, 0, 0, 0], found, strict=True):
        off = answer.solution["A"][0, 0] * answer.solution["R"][0, 0] - product
        if answer.verified:
            assert off.abs() < 0.01
        else:
            assert "C as given" in answer.violations or "E = A R" in answer.violations


def test_complete_answers_are_verified_or_rejected(sorter):
    values = draw_batch(Sorting(4), 2)
    given = {name: values[name] for name in ("u", "P", "s")}
    found = sorter.solve(Sorting(4), given)
    assert all(answer.verified and answer.evaluations == 0 for answer in found)
    given["P"] = given["P"].flip(1)
    with pytest.raises(ValueError, match=r"contradicts the constraints.*s = P u"):
        sorter.solve(Sorting(4), given)


def test_interrupting_keeps_rows_that_finished_within_a_try(guesser):
    """With one cell given fewer tries are over before the last one."""
    finished = []

    def stop(instances, x):
        finished.append(len(instances))
        if len(instances) < 20:  # some of the batch have left it
            raise KeyboardInterrupt

    with pytest.raises(SolvingInterrupted) as stopped:
        guesser.solve(
            SMALL, {"cells": BLANK.expand(20, 4, 4)}, generator=0, on_estimate=stop
        )
    solved = [answer for answer in stopped.value.solutions if answer.verified]
    others = [answer for answer in stopped.value.solutions if not answer.solution]
    assert solved and others
    for answer in solved:
        assert is_sudoku(answer.solution["cells"]) and answer.evaluations > 0
    assert "nothing was tried" in str(others[0])


def test_interrupting_while_polishing_keeps_the_parts_before(sorter, monkeypatch):
    """Ctrl-C comes while the third part of a try's answers is polished."""
    sizes, polish = [], Sorting.polish

    def stopping(self, samples, known):
        sizes.append(len(samples["P"]))
        if len(sizes) == 3:
            raise KeyboardInterrupt
        return polish(self, samples, known)

    monkeypatch.setattr(search, "AT_ONCE", 3)
    monkeypatch.setattr(Sorting, "polish", stopping)
    u = draw_batch(Sorting(10), 8)["u"]
    with pytest.raises(SolvingInterrupted) as stopped:
        sorter.solve(Sorting(10), {"u": u}, generator=0)
    assert sizes == [3, 3, 2]
    answers = stopped.value.solutions
    assert sum(answer.verified for answer in answers[:6]) >= 4
    assert not any(answer.solution for answer in answers[6:])


class Bar:
    """What a progress bar is told."""

    def __init__(self):
        self.told, self.n = [], 0

    def __call__(self, total, name):
        self.told.append((total, name))
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def update(self, num):
        self.told.append(num)
        self.n += num


def test_a_progress_bar_counts_what_is_solved(sorter, guesser, monkeypatch):
    monkeypatch.setattr(search, "AT_ONCE", 3)
    monkeypatch.setattr(search, "progress_bar", bar := Bar())
    u = draw_batch(Sorting(10), 8)["u"]
    found = sorter.solve(Sorting(10), {"u": u}, generator=0, tries=2)
    (total, name), given, *parts = bar.told
    assert (total, name, given) == (8, "solving", 0)
    assert len(parts) >= 3 and min(parts) >= 0  # of three, three and two answers
    assert sum(parts) == sum(answer.verified for answer in found) > 0
    grid = draw_batch(SMALL, 1)["cells"][0]
    monkeypatch.setattr(search, "progress_bar", bar := Bar())
    guesser.solve(SMALL, {"cells": grid})  # nothing is unknown
    assert bar.told == [(1, "solving"), 1]


def test_problems_without_constraints_are_told_what_to_define():
    problem = StateSpace(steps=3)
    model = GSDM.from_problem(problem, width=8, layers=1)
    with pytest.raises(TypeError, match=r"does not say what a solution is: define"):
        model.solve(problem, {"y": torch.zeros(3)})


class Odd(Problem):
    """A number without rules whose violations have a wrong shape."""

    n: Size

    def graphical_model(self):
        graph = GraphicalModel()
        graph.add_variable("x", (self.n,), Categorical(2))
        return graph

    def sample(self, generator=None):
        return {"x": torch.zeros(self.n).long()}

    def violations(self, samples):
        return {"nothing": torch.tensor(0.0)}


class Misspelt(Odd):
    def possible(self, values, known):
        return {"X": torch.ones(*values["x"].shape, 2)}


@pytest.mark.parametrize(
    "problem, settings, error, message",
    [
        (SMALL, {"tries": 0}, SettingsError, "tries: .*greater than 0"),
        (SMALL, {"trys": 3}, SettingsError, "did you mean 'tries'"),
        (SMALL, {"method": "guess"}, SettingsError, "'auto', 'sample' or 'commit'"),
        (SMALL, {"num_solutions": 0}, ValueError, "num_solutions must be an integer"),
        (Odd(n=2), {}, ValueError, r"must return 'nothing' in the shape \(S, ...\)"),
        (Odd(n=2), {"method": "commit"}, ValueError, "it implies nothing"),
        (Misspelt(n=2), {}, ValueError, r"about discrete variables: x \(got 'X'\)"),
        (SMALL, {"restarts": 3}, ValueError, "set tries instead"),
    ],
)
def test_wrong_arguments_are_rejected(guesser, problem, settings, error, message):
    model = guesser
    if isinstance(problem, Odd):
        model = GSDM.from_problem(problem, width=8, layers=1)
    with pytest.raises(error, match=message):
        model.solve(problem, generator=seeded(), **settings)
