"""Every problem says what a solution is: instances are solutions, others are not."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from torch.testing import assert_close

from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    Sudoku,
    least_squares,
)
from problems.least_squares import (
    alternate,
    best_codes,
    bounded_least_squares,
    improve,
)
from problems.sudoku_rules import remaining_digits
from problems.sudoku_text import read_puzzles, write_grid
from tests.problems.draws import draw_batch, seeded

PROBLEMS = [
    BCMF(3, 4, 2),
    BCMF(3, 4, 2, given="nothing"),
    HierarchicalBCMF(3, 4, 3),
    MatrixInversion(3),
    MatrixInversion(3, target="identity"),
    BooleanCircuit(1),
    BooleanCircuit(3),
    Sorting(5),
    Sudoku(2, 3),
]
CHANGES = {
    "A": lambda A: A + 1,
    "R": lambda R: 1 - R if not R.is_floating_point() else R + 1,
    "P": lambda P: 1 - P,
    "y": lambda y: 1 - y,
    "cells": lambda cells: cells.roll(1, -1).where(
        torch.zeros_like(cells).bool().index_fill(1, torch.tensor(0), True), cells
    ),
}


def missed(problem, samples):
    """Which of the samples miss a constraint, [S]."""
    num = len(next(iter(samples.values())))
    wrong = torch.zeros(num, dtype=torch.bool)
    for amount in problem.violations(samples).values():
        assert len(amount) == num
        wrong |= (amount > problem.tolerance).reshape(num, -1).any(1)
    return wrong


def known_are(values, *names):
    """All of these variables is known, and nothing of the others."""
    return {
        name: torch.full_like(v, name in names, dtype=torch.bool)
        for name, v in values.items()
    }


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_instances_satisfy_their_constraints(problem):
    values = draw_batch(problem, 20)
    assert not missed(problem, values).any()


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_changed_instances_do_not(problem):
    values = draw_batch(problem, 20)
    for name in CHANGES.keys() & values.keys():
        changed = {**values, name: CHANGES[name](values[name])}
        # Rows of R may all be zero, and then A does not matter.
        assert missed(problem, changed).float().mean() > 0.8, name


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_polishing_leaves_solutions_as_they_are(problem):
    values = draw_batch(problem, 20)
    polished = problem.polish(values, known_are(values, "E"))
    assert not missed(problem, {**values, **polished}).any()
    for name, value in polished.items():
        assert_close(value.double(), values[name].double(), atol=2e-3, rtol=0)


@pytest.mark.parametrize("problem", [BCMF(5, 6, 2), HierarchicalBCMF(5, 6, 2)])
def test_polishing_repairs_a_noisy_factorization(problem):
    values = draw_batch(problem, 20)
    noise = 0.1 * torch.randn(values["A"].shape, generator=seeded())
    noisy = {**values, "A": (values["A"] + noise).clamp(0, 1)}
    assert missed(problem, noisy).float().mean() > 0.8  # not where R is zero
    polished = problem.polish(noisy, known_are(noisy, "E"))
    assert not missed(problem, polished).any()
    assert_close(polished["E"], values["E"])


@pytest.mark.parametrize("problem", [BCMF(6, 6, 2), HierarchicalBCMF(6, 6, 2)])
def test_polishing_fits_known_entries_alone(problem):
    values = draw_batch(problem, 20)
    known = known_are(values)
    known["E"] = torch.rand(20, 6, 6, generator=seeded(1)) < 0.7
    noise = torch.randn(values["E"].shape, generator=seeded(2))
    noisy = {
        **values,
        "A": (values["A"] + 0.05 * noise[..., :2]).clamp(0, 1),
        "E": torch.where(known["E"], values["E"], 10 * noise),
    }
    polished = problem.polish(noisy, known)
    assert not missed(problem, polished).any()
    assert_close(polished["E"][known["E"]], values["E"][known["E"]])


def test_what_is_not_known_needs_no_polishing():
    problem = BCMF(4, 5, 2, given="nothing")
    values = draw_batch(problem, 5)
    noisy = {**values, "E": values["E"] + 1}
    polished = problem.polish(noisy, known_are(values))
    for name, value in polished.items():
        assert_close(value, values[name])


def test_factors_of_which_a_part_is_given_are_not_polished():
    problem = BCMF(3, 4, 2)
    values = draw_batch(problem, 4)
    values["A"] = values["A"] / 2
    known = known_are(values, "E")
    known["R"][0, 0, 0] = True
    known["A"][1, 0, 0] = True
    known["R"][2] = True
    known["A"][2, 0, 0] = True
    polished = problem.polish(values, known)
    assert_close(polished["A"][:3], values["A"][:3])
    assert torch.equal(polished["R"][:3], values["R"][:3])
    assert not torch.allclose(polished["A"][3], values["A"][3])


def test_one_factor_follows_from_the_other_where_that_is_given():
    problem, n = BCMF(8, 8, 3), 6
    values, noise = draw_batch(problem, n), draw_batch(problem, n, 1)
    has_A = torch.arange(n) < 3
    known = known_are(values, "E")
    known["A"][has_A] = known["R"][~has_A] = True
    start = {
        name: torch.where(known[name], values[name], noise[name])
        for name in ("A", "R", "E")
    }
    assert missed(problem, start).all()
    polished = problem.polish(start, known)
    assert not missed(problem, polished).any()
    assert torch.equal(polished["A"][has_A], values["A"][has_A])
    assert torch.equal(polished["R"][~has_A], values["R"][~has_A])
    # As SciPy and all codes have it, also where no factorization is exact.
    start["E"] = start["E"] + 0.3 * torch.rand(n, 8, 8, generator=seeded(2))
    polished = problem.polish(start, known)
    for E, A, R, given_A in zip(
        start["E"], polished["A"], polished["R"], has_A, strict=True
    ):
        cost = (E - A @ R.float()).square().sum().item()
        codes = torch.tensor(list(itertools.product((0, 1), repeat=3))).float()
        if given_A:
            errors = (E[:, None] - (A @ codes.T)[..., None]).square().sum(0)
            best = errors.amin(0).sum().item()
        else:
            found = [lsq_linear(R.T.numpy(), row.numpy(), (0, 1)) for row in E]
            best = 2 * sum(row.cost for row in found)
        assert_close(cost, best, atol=1e-4, rtol=1e-4)


def test_bounded_least_squares_agrees_with_scipy():
    generator = seeded(3)
    R = (torch.rand(4, 3, 7, generator=generator) < 0.5).long()
    E = 2 * torch.rand(4, 5, 7, generator=generator)
    known = torch.rand(4, 5, 7, generator=generator) < 0.8
    found = bounded_least_squares(E, torch.full((4, 5, 3), 0.5), R, known)
    for target, codes, A, mask in zip(E, R, found, known, strict=True):
        errors = (target - A @ codes.float()).square() * mask
        for row, seen, cost in zip(target, mask, errors.sum(1), strict=True):
            used = codes[:, seen].T.double().numpy()
            exact = lsq_linear(used, row[seen].numpy(), (0, 1)).cost
            assert_close(cost.item(), 2 * exact, atol=1e-4, rtol=1e-4)


def test_best_codes_agree_with_all_codes():
    generator = seeded(4)
    E = torch.rand(1, 4, 5, generator=generator)
    A = torch.rand(1, 4, 3, generator=generator)
    known = torch.rand(1, 4, 5, generator=generator) < 0.8
    known[..., 4] = False
    R = best_codes(E, A, torch.ones(1, 3, 5).long(), known)[0]
    assert R[:, 4].all()  # as it was
    for j in range(4):
        seen = known[0, :, j]
        errors = {
            code: (E[0, :, j] - A[0] @ torch.tensor(code).float())[seen].square().sum()
            for code in itertools.product((0, 1), repeat=3)
        }
        assert tuple(R[:, j].tolist()) == min(errors, key=errors.__getitem__)


@pytest.mark.parametrize("k", [3, 12])  # all codes are compared; too many for that
def test_alternation_never_fits_worse(k):
    generator = seeded(5)
    E = 2 * torch.rand(8, 5, 6, generator=generator)
    A = torch.rand(8, 5, k, generator=generator)
    R = (torch.rand(8, k, 6, generator=generator) < 0.3).long()
    known = torch.rand(8, 5, 6, generator=generator) < 0.8
    fixed = torch.arange(8) == 0
    better = alternate(E, A, R, known, fixed)
    before, after = (
        ((E - a @ r.float()) * known).square().sum((1, 2)) for a, r in ((A, R), better)
    )
    assert (better[1] != R)[1:].any((1, 2)).all()
    assert (after <= before + 1e-5).all() and (after[1:] < before[1:]).all()
    assert torch.equal(better[0][0], A[0])


def test_replacing_terms_finds_factorizations_that_alternation_misses():
    problem, generator = BCMF(8, 12, 5), seeded(6)
    E = problem.sample_batch(20, generator)["E"]
    start = problem.sample_batch(20, generator)
    known, fixed = torch.ones_like(E).bool(), torch.arange(20) == 0
    exact = []
    for method in (alternate, lambda *x: improve(*x, exact=1e-3)):
        A, R = method(E, start["A"], start["R"], known, fixed)
        exact.append((E - A @ R.float()).abs().amax((1, 2)) < 1e-3)
        assert torch.equal(A[0], start["A"][0]) and torch.equal(R[0], start["R"][0])
        assert A.min() >= 0 and A.max() <= 1
    assert exact[0].sum() <= 5 and exact[1].sum() >= 15
    arrays = (E, start["A"], start["R"], known, fixed)
    alone = improve(*(x[3:4] for x in arrays), exact=1e-3)
    assert_close(alone[0][0], A[3])  # whatever is improved with it
    assert torch.equal(alone[1][0], R[3])


def test_each_try_has_random_columns_of_its_own_that_depend_on_its_r(monkeypatch):
    problem, keys = BCMF(4, 6, 3), []
    keyed_generator = least_squares.keyed_generator

    def spy(purpose, key):
        keys.append(key)
        return keyed_generator(purpose, key)

    monkeypatch.setattr(least_squares, "keyed_generator", spy)
    values = draw_batch(problem, 4)
    E, A, R, known = *(values[name] for name in "EAR"), torch.ones(4, 4, 6).bool()
    fixed = torch.zeros(4).bool()
    improve(E, A, R, known, fixed, exact=1e-3)
    assert len(set(keys)) == 4
    improve(2 * E[2:3], A[:1], R[2:3], known[:1], fixed[:1], exact=1e-3)
    assert keys[4] == keys[2]


def test_newton_s_iteration_inverts_from_nearby_and_makes_nothing_worse():
    problem = MatrixInversion(4, target="identity")
    values = draw_batch(problem, 20)
    near = values["R"] * (1 + 1e-3 * torch.randn(20, 4, 4, generator=seeded(1)))
    near[0] = 100 * torch.ones(4, 4)
    near[1] = torch.nan
    known = known_are(values, "A", "E")
    R = problem.polish({**values, "R": near}, known)["R"]
    error = (values["A"] @ R - torch.eye(4)).abs().amax((1, 2))
    assert (error[2:] < 1e-3).float().mean() > 0.8  # a few are nearly singular
    assert torch.equal(R[0], near[0]) and R[1].isnan().all()
    known["E"][2] = False  # the identity by chance
    known["R"][3, 0, 0] = True
    other = values["E"].index_fill(0, torch.tensor(4), 0.5)  # not the identity
    R = problem.polish({**values, "R": near, "E": other}, known)["R"]
    assert torch.equal(R[2:5], near[2:5]) and not torch.equal(R[5:], near[5:])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 80))
def test_singles_never_exclude_the_solution(seed, clues):
    problem = Sudoku(3, 3)
    values = problem.sample_batch(1, seeded(seed))
    known = Sudoku(3, 3, clues=clues).observe_batch(1, seeded(seed))
    left = problem.possible(values, known)["cells"]
    assert left.gather(-1, values["cells"][..., None]).all()
    again = {"cells": known["cells"] | (left.sum(-1) == 1)}
    assert torch.equal(problem.possible(values, again)["cells"], left)  # all are found


def test_a_contradiction_leaves_some_cell_no_digit():
    cells = np.full((1, 16), -1)
    cells[0, [1, 2, 4, 8]] = [0, 1, 2, 3]  # cell 0 sees all four digits
    assert (remaining_digits(cells, 2, 2) == 0).any()


def test_texts_of_puzzles_are_read_back():
    grids = draw_batch(Sudoku(3, 3), 3)["cells"].numpy()
    text = "\n\n".join(write_grid(grid) for grid in grids)
    np.testing.assert_array_equal(read_puzzles(text, 9), grids)
    framed = "+---+\n" + "\n".join(
        "|" + " ".join("123456789."[c] for c in row) + "|" for row in grids[0]
    )
    np.testing.assert_array_equal(read_puzzles(framed, 9)[0], grids[0])
    line = "".join("." if c == 0 else str(c + 1) for c in grids[0].flatten())
    assert np.isnan(read_puzzles(line, 9)).sum() == 9
