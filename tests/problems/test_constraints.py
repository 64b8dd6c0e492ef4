"""Every problem says what a solution is: instances are solutions, others are not."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    Sudoku,
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


def unknown(values):
    return {name: torch.zeros_like(v, dtype=torch.bool) for name, v in values.items()}


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
    polished = problem.polish(values, unknown(values))
    assert not missed(problem, {**values, **polished}).any()
    for name, value in polished.items():
        assert_close(value.double(), values[name].double(), atol=2e-3, rtol=0)


@pytest.mark.parametrize("problem", [BCMF(5, 6, 2), HierarchicalBCMF(5, 6, 2)])
def test_polishing_repairs_a_noisy_factorization(problem):
    values = draw_batch(problem, 20)
    noise = 0.1 * torch.randn(values["A"].shape, generator=seeded())
    noisy = {**values, "A": (values["A"] + noise).clamp(0, 1)}
    assert missed(problem, noisy).float().mean() > 0.8  # not where R is zero
    assert not missed(problem, problem.polish(noisy, unknown(noisy))).any()


def test_given_factors_are_not_polished():
    problem = BCMF(3, 4, 2)
    values = draw_batch(problem, 2)
    values["A"] = values["A"] / 2
    known = unknown(values)
    known["R"][0, 0, 0] = True
    polished = problem.polish(values, known)
    assert_close(polished["A"][0], values["A"][0])
    assert not torch.allclose(polished["A"][1], values["A"][1])


def test_bounded_least_squares_agrees_with_scipy():
    from scipy.optimize import lsq_linear

    generator = seeded(3)
    R = (torch.rand(4, 3, 7, generator=generator) < 0.5).long()
    E = 2 * torch.rand(4, 5, 7, generator=generator)
    found = bounded_least_squares(E, torch.full((4, 5, 3), 0.5), R)
    for target, codes, A in zip(E, R, found, strict=True):
        error = (target - A @ codes.float()).square().sum(1)
        for row, cost in zip(target, error, strict=True):
            exact = lsq_linear(codes.T.numpy(), row.numpy(), (0, 1)).cost
            assert_close(cost.item(), 2 * exact, atol=1e-4, rtol=1e-4)


def test_best_codes_agree_with_all_codes():
    generator = seeded(4)
    E = torch.rand(1, 4, 5, generator=generator)
    A = torch.rand(1, 4, 3, generator=generator)
    R = best_codes(E, A, torch.zeros(1, 3, 5).long())[0]
    for j in range(5):
        errors = {
            code: (E[0, :, j] - A[0] @ torch.tensor(code).float()).square().sum().item()
            for code in itertools.product((0, 1), repeat=3)
        }
        assert tuple(R[:, j].tolist()) == min(errors, key=errors.__getitem__)


def test_alternation_never_fits_worse():
    generator = seeded(5)
    E = 2 * torch.rand(8, 5, 6, generator=generator)
    A = torch.rand(8, 5, 3, generator=generator)
    R = (torch.rand(8, 3, 6, generator=generator) < 0.3).long()
    fixed = torch.arange(8) == 0
    better = alternate(E, A, R, fixed)
    before, after = (
        (E - a @ r.float()).square().sum((1, 2)) for a, r in ((A, R), better)
    )
    assert (after <= before + 1e-5).all() and (after[1:] < before[1:]).all()
    assert torch.equal(better[0][0], A[0])


def test_replacing_terms_finds_factorizations_that_alternation_misses():
    problem, generator = BCMF(8, 12, 5), seeded(6)
    E = problem.sample_batch(20, generator)["E"]
    start = problem.sample_batch(20, generator)
    fixed = torch.arange(20) == 0
    exact = []
    for method in (alternate, lambda *x: improve(*x, exact=1e-3)):
        A, R = method(E, start["A"], start["R"], fixed)
        exact.append((E - A @ R.float()).abs().amax((1, 2)) < 1e-3)
        assert torch.equal(A[0], start["A"][0]) and torch.equal(R[0], start["R"][0])
        assert A.min() >= 0 and A.max() <= 1
    assert exact[0].sum() <= 5 and exact[1].sum() >= 15
    alone = improve(E[3:4], start["A"][3:4], start["R"][3:4], fixed[3:4], exact=1e-3)
    assert_close(alone[0][0], A[3])  # whatever is improved with it
    assert torch.equal(alone[1][0], R[3])


def test_newton_s_iteration_inverts_from_nearby_and_leaves_what_is_far():
    problem = MatrixInversion(4, target="identity")
    values = draw_batch(problem, 20)
    near = values["R"] * (1 + 1e-3 * torch.randn(20, 4, 4, generator=seeded(1)))
    near[0] = 100 * torch.ones(4, 4)
    near[1] = torch.nan
    known = unknown(values)
    known["E"][:] = True
    R = problem.polish({**values, "R": near}, known)["R"]
    error = (values["A"] @ R - torch.eye(4)).abs().amax((1, 2))
    assert (error[2:] < 1e-3).float().mean() > 0.8  # a few are nearly singular
    assert torch.equal(R[0], near[0]) and R[1].isnan().all()
    known["E"][2] = False  # the identity by chance
    assert torch.equal(problem.polish({**values, "R": near}, known)["R"][2], near[2])


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
