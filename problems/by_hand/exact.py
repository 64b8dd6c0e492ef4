"""Exact algorithms: a search for Sudoku, and sorting."""

import torch
from pydantic import PositiveInt
from torch.nn.functional import one_hot

from gsdm_pyg import Baseline
from problems.sorting import Sorting
from problems.sudoku import Sudoku
from problems.sudoku_search import LARGEST, solve


class Search(Baseline):
    """A solution of a Sudoku, by depth-first search in random order.

    Every solution can come out, not all of them equally often. Where every search gives
    up, the cells that are still open get digits at random.
    """

    name = "search"

    tries: PositiveInt = 100_000
    """Digits to try before a search gives up; about 30 ms."""
    restarts: PositiveInt = 100
    """Searches before the method gives up: most take few tries, or very many."""

    def check(self, problem):
        if not isinstance(problem, Sudoku) or problem.n > LARGEST:
            raise ValueError(
                f"The search solves Sudokus of sides up to {LARGEST} (got {problem})."
            )

    def draw(self, problem, values, known, num_samples, generator):
        clues = torch.where(known["cells"], values["cells"], -1)
        size = (len(clues), num_samples)
        seeds = torch.randint(2**62, size, generator=generator)
        grids = torch.stack(
            [
                self._solve(problem, puzzle, seed)
                for puzzle, row in zip(clues, seeds.tolist(), strict=True)
                for seed in row
            ]
        )
        digits = torch.randint(problem.n, grids.shape, generator=generator)
        return {"cells": grids.where(grids >= 0, digits).unflatten(0, size)}

    def _solve(self, problem, puzzle, seed):
        clues, a, b = puzzle.numpy(), problem.a, problem.b
        for start in range(self.restarts):
            grid = solve(clues, a, b, self.tries, seed + start)
            if (grid >= 0).all():
                break
        return torch.from_numpy(grid)


class Sort(Baseline):
    """The permutation that sorts u, by `torch.sort`."""

    name = "sort"

    def check(self, problem):
        if not isinstance(problem, Sorting):
            raise ValueError(f"This sorts u of Sorting (got {problem}).")

    def draw(self, problem, values, known, num_samples, generator):
        if not known["u"].all():
            raise ValueError("Sorting takes all of u (got NaN, or no u).")
        s, order = values["u"].sort()
        P = one_hot(order, problem.n)
        drawn = {"P": P, "C": P * values["u"][:, None], "s": s}
        shape = (-1, num_samples)
        return {n: v[:, None].expand(*shape, *v.shape[1:]) for n, v in drawn.items()}
