"""Puzzles: the solutions that they have, counted by an independent search."""

import numpy as np
import pytest
import torch

from problems import sudoku_puzzles
from problems.sudoku_puzzles import (
    draw_counted_puzzles,
    draw_minimal_puzzles,
    draw_unique_puzzles,
)
from problems.sudoku_search import list_solutions
from tests.problems.draws import seeded


def solutions(puzzle, a, b, limit):
    """Solutions of a puzzle, as tuples: cells are filled in one by one."""
    n, cells, found = a * b, puzzle.reshape(-1).tolist(), set()
    groups = []  # of each cell: the digits of its row, column and block
    rows, columns, blocks = ([set() for _ in range(n)] for _ in range(3))
    for i, j in np.ndindex(n, n):
        groups.append((rows[i], columns[j], blocks[i // a * a + j // b]))
    for cell, digit in enumerate(cells):
        if digit >= 0:
            for group in groups[cell]:
                assert digit not in group
                group.add(digit)

    def fill(empty):
        if not empty:
            found.add(tuple(cells))
            return
        cell = max(empty, key=lambda cell: len(set.union(*groups[cell])))
        for digit in set(range(n)).difference(*groups[cell]):
            cells[cell] = digit
            for group in groups[cell]:
                group.add(digit)
            fill([other for other in empty if other != cell])
            for group in groups[cell]:
                group.remove(digit)
            if len(found) >= limit:
                return

    fill([cell for cell, digit in enumerate(cells) if digit < 0])
    return found


def as_set(grids):
    return {tuple(grid.reshape(-1).tolist()) for grid in grids}


def assert_minimal(puzzle, solution, a, b):
    assert solutions(puzzle, a, b, limit=2) == as_set([solution])
    for place in np.argwhere(puzzle >= 0):
        fewer = puzzle.copy()
        fewer[tuple(place)] = -1
        assert len(solutions(fewer, a, b, limit=2)) == 2


def test_unique_puzzles_have_one_solution_and_the_clues_asked_for():
    puzzles, found = draw_unique_puzzles(20, (24, 30), generator=seeded(0))
    counts = (puzzles >= 0).sum((1, 2))
    assert set(counts.tolist()) <= set(range(24, 31)) and len(set(counts)) > 3
    for puzzle, solution in zip(puzzles, found, strict=True):
        assert solutions(puzzle, 3, 3, limit=2) == as_set([solution])


@pytest.mark.parametrize("clues", [22, 23])
def test_minimal_9x9_puzzles_need_every_clue(clues):
    (puzzle,), (solution,) = draw_minimal_puzzles(1, clues, generator=seeded(0))
    assert (puzzle >= 0).sum() == clues
    assert_minimal(puzzle, solution, 3, 3)


@pytest.mark.parametrize("clues", [4, 5, 6])  # 4x4 puzzles need four clues or more
def test_minimal_4x4_puzzles_need_every_clue(clues):
    puzzles, found = draw_minimal_puzzles(10, clues, 2, 2, seeded(clues))
    for puzzle, solution in zip(puzzles, found, strict=True):
        assert (puzzle >= 0).sum() == clues
        assert_minimal(puzzle, solution, 2, 2)


@pytest.mark.parametrize("a, b, bounds", [(2, 2, (2, 50)), (3, 3, (10, 100))])
def test_counted_puzzles_come_with_all_their_solutions(a, b, bounds):
    puzzles, found = draw_counted_puzzles(5, bounds, a, b, seeded(0))
    for puzzle, listed in zip(puzzles, found, strict=True):
        assert bounds[0] <= len(listed) <= bounds[1]
        assert len(as_set(listed)) == len(listed)
        assert as_set(listed) == solutions(puzzle, a, b, limit=1000)


def test_counts_of_solutions_spread_over_the_range():
    _, found = draw_counted_puzzles(60, (10, 1000), generator=seeded(0))
    middle = np.median([len(listed) for listed in found])
    assert 50 < middle < 200  # 100 if uniform in the logarithm


@pytest.mark.parametrize("clues", range(5))
def test_listed_solutions_are_those_among_all_4x4_grids(clues):
    every = list_solutions(np.full((4, 4), -1), 2, 2, limit=1000)
    assert len(as_set(every)) == len(every) == 288
    grid, order = every[0], np.random.default_rng(clues).permutation(16)
    puzzle = np.where((order < clues).reshape(4, 4), grid, -1)
    fits = ((every == puzzle) | (puzzle < 0)).all((1, 2))
    assert as_set(list_solutions(puzzle, 2, 2, limit=1000)) == as_set(every[fits])
    assert len(list_solutions(puzzle, 2, 2, limit=1)) == 1


def test_contradictory_clues_have_no_solution():
    puzzle = np.full((4, 4), -1)
    puzzle[0, :2] = 0
    assert list_solutions(puzzle, 2, 2, limit=5).shape == (0, 4, 4)


@pytest.mark.parametrize(
    "draw", [draw_unique_puzzles, draw_minimal_puzzles, draw_counted_puzzles]
)
def test_puzzles_depend_on_the_generator_alone(draw):
    first, again, other = (draw(4, generator=seeded(s))[0] for s in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any((1, 2)).all()


def test_a_generator_moves_on():
    generator = torch.Generator().manual_seed(0)
    first, second = (draw_unique_puzzles(2, generator=generator)[0] for _ in range(2))
    assert (first != second).any((1, 2)).all()


def test_numbers_that_no_puzzle_has_are_refused(monkeypatch):
    monkeypatch.setattr(sudoku_puzzles, "MOST_GRIDS", 5)
    with pytest.raises(ValueError, match=r"5 random grids .* 3 clues"):
        draw_minimal_puzzles(1, 3, 2, 2, seeded(0))
    with pytest.raises(ValueError, match="3 to 3 clues"):
        draw_unique_puzzles(1, (3, 3), 2, 2, seeded(0))
