"""Sudoku puzzles drawn at random: with one solution, minimal, or with a known count.

A puzzle is an array [N, N] of digits 0..N-1, -1 where a cell is empty. Each comes from
a complete grid of its own, see `draw_grid`, whose clues are removed in random order.
That makes every puzzle of a kind possible but not all of them equally likely.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numba import njit

from problems.sudoku_grids import draw_grid
from problems.sudoku_search import NO_LIMIT, below, groups_of, permutation, search

MOST_GRIDS = 10_000  # to start from, for one puzzle
MOST_SOLUTIONS = 1000  # of a puzzle that lost two clues; with more, others are tried
WALK = 400  # steps without a clue less after which a walk starts afresh


def draw_unique_puzzles(
    num: int,
    clues: tuple[int, int] = (24, 30),
    a: int = 3,
    b: int = 3,
    generator: torch.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Puzzles [num, N, N] with one solution, and the solutions [num, N, N].

    Args:
        num: How many.
        clues: The fewest and the most clues; each number in between is equally likely.
        a: Rows of a block.
        b: Columns of a block.
        generator: Source of randomness.
    """
    fewest, most = clues
    counts = torch.randint(fewest, most + 1, (num,), generator=generator).tolist()
    draws = [partial(_draw_unique, a, b, count) for count in counts]
    puzzles, solutions = _draw(draws, a, b, generator, f"{fewest} to {most} clues")
    return puzzles, np.concatenate(solutions)


def draw_minimal_puzzles(
    num: int,
    clues: int = 22,
    a: int = 3,
    b: int = 3,
    generator: torch.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Puzzles [num, N, N] that have one solution only because of every single clue.

    Removing clues from a complete 9x9 grid usually leaves 23 to 26. From there a walk
    goes on to minimal puzzles with fewer, see `_walk`. Returns the solutions as well.

    Args:
        num: How many.
        clues: How many clues each has.
        a: Rows of a block.
        b: Columns of a block.
        generator: Source of randomness.
    """
    draws = [partial(_draw_minimal, a, b, clues)] * num
    puzzles, solutions = _draw(draws, a, b, generator, f"{clues} clues, none redundant")
    return puzzles, np.concatenate(solutions)


def draw_counted_puzzles(
    num: int,
    solutions: tuple[int, int] = (10, 1000),
    a: int = 3,
    b: int = 3,
    generator: torch.Generator | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Puzzles [num, N, N] with several solutions, and all of those [D, N, N].

    Args:
        num: How many.
        solutions: The least and the greatest D. For each puzzle a bound between them
            is drawn, uniformly in log D; clues are removed unless D would exceed it.
        a: Rows of a block.
        b: Columns of a block.
        generator: Source of randomness.
    """
    least, most = solutions
    share = torch.rand(num, generator=generator, dtype=torch.double)
    bounds = (least * (most / least) ** share).round().long().tolist()
    draws = [partial(_draw_counted, a, b, least, bound) for bound in bounds]
    return _draw(draws, a, b, generator, f"{least} to {most} solutions")


def _draw(
    draws: list[Callable[..., tuple[bool, np.ndarray, np.ndarray]]],
    a: int,
    b: int,
    generator: torch.Generator | None,
    wanted: str,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """One puzzle by each of `draws`, which may fail: puzzles and their solutions."""
    n = a * b
    puzzles, solutions = np.empty((len(draws), n, n), np.int64), []
    seeds = torch.randint(2**63 - 1, (len(draws),), generator=generator).tolist()
    for puzzle, draw, seed in zip(puzzles, draws, seeds, strict=True):
        state = np.array([seed], np.uint64)
        for _ in range(MOST_GRIDS):
            done, cells, found = draw(state)
            if done:
                break
        else:
            raise ValueError(
                f"{MOST_GRIDS:,} random grids gave no puzzle with {wanted}: choose "
                f"numbers that {n}x{n} puzzles usually have (got {wanted})."
            )
        puzzle[:] = cells.reshape(n, n)
        solutions.append(found.reshape(-1, n, n))
    return puzzles, solutions


@njit(cache=True)
def _draw_unique(a, b, clues, state):
    """Whether a grid has led to a puzzle with `clues` clues, it, and its solution."""
    grid, groups = _random_grid(a, b, state), groups_of(a, b)
    cells = grid.copy()
    return _remove_clues(cells, groups, clues, state) == clues, cells, grid


@njit(cache=True)
def _draw_minimal(a, b, clues, state):
    """Whether a walk has come to a puzzle with `clues` clues, it, and its solution."""
    cells, groups = _random_grid(a, b, state), groups_of(a, b)
    num = _remove_clues(cells, groups, 0, state)
    num = _walk(cells, groups, num, clues, state)
    found = np.empty((1, len(cells)), np.int64)
    search(cells, groups, found, NO_LIMIT, state)
    return num == clues, cells, found[0]


@njit(cache=True)
def _draw_counted(a, b, least, bound, state):
    """Whether there are `least` solutions or more, the puzzle, and those [D, N^2]."""
    cells, groups = _random_grid(a, b, state), groups_of(a, b)
    found = np.empty((bound + 1, len(cells)), np.int64)
    for cell in permutation(len(cells), state):
        digit, cells[cell] = cells[cell], -1
        if search(cells, groups, found, NO_LIMIT, state) > bound:
            cells[cell] = digit
    count = search(cells, groups, found, NO_LIMIT, state)
    return count >= least, cells, found[:count].copy()


@njit(cache=True)
def _random_grid(a, b, state):
    """A complete grid [N^2]."""
    return draw_grid(a, b, True, below(NO_LIMIT, state)).reshape(-1)


@njit(cache=True)
def _remove_clues(cells, groups, fewest, state):
    """Remove random clues while the solution stays unique; return how many are left.

    Stops at `fewest`. If it does not get there, the puzzle is minimal.
    """
    found, num = np.empty((2, len(cells)), np.int64), (cells >= 0).sum()
    for cell in permutation(len(cells), state):
        if num == fewest:
            break
        digit, cells[cell] = cells[cell], -1
        if digit < 0:  # has been empty before
            continue
        if search(cells, groups, found, NO_LIMIT, state) == 1:
            num -= 1
        else:
            cells[cell] = digit
    return num


@njit(cache=True)
def _walk(cells, groups, num, clues, state):
    """Walk from a minimal puzzle to one with `clues` clues; return how many it has.

    A step removes two random clues, lists all solutions, and adds the clue that the
    fewest of them have, until one is left. Then it removes what is redundant. It is
    taken if the puzzle has no more clues than before. Ends after `WALK` steps that
    save none.
    """
    found = np.empty((MOST_SOLUTIONS, len(cells)), np.int64)
    steps = 0
    while num > clues and steps < WALK:
        steps += 1
        puzzle = cells.copy()
        for _ in range(2):
            places = np.flatnonzero(puzzle >= 0)
            puzzle[places[below(len(places), state)]] = -1
        count = search(puzzle, groups, found, NO_LIMIT, state)
        if count == MOST_SOLUTIONS:
            continue
        _single_out(puzzle, found[:count], state)
        changed = _remove_clues(puzzle, groups, 0, state)
        if changed < num:
            steps = 0
        if changed <= num:
            cells[:], num = puzzle, changed
    return num


@njit(cache=True)
def _single_out(puzzle, solutions, state):
    """Add clues to a puzzle until one of its solutions [D, N^2] is left."""
    num_cells = len(puzzle)
    n = int(np.sqrt(num_cells))
    left = np.ones(len(solutions), np.bool_)
    while left.sum() > 1:
        share = np.zeros((num_cells, n), np.int64)  # how many solutions have a digit
        for k in np.flatnonzero(left):
            for cell in range(num_cells):
                share[cell, solutions[k, cell]] += 1
        fewest, ties, best = left.sum(), 0, 0
        for place in range(num_cells * n):
            count = share[place // n, place % n]
            if 0 < count <= fewest:
                ties = ties + 1 if count == fewest else 1
                fewest = count
                if below(ties, state) == 0:  # each of the ties is equally likely
                    best = place
        puzzle[best // n] = best % n
        left &= solutions[:, best // n] == best % n
