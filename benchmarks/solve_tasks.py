"""The tasks of `python -m benchmarks.solve`: instances, methods, and what to count."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np
import torch

from benchmarks.solve_checks import (
    EXACT,
    equation_error,
    factorization_error,
    solves_sudoku,
    sorts,
)
from benchmarks.solve_statistics import chi_square, chi_square_test, expected_distinct
from gsdm_pyg import Problem
from problems import BCMF, MatrixInversion, Sorting, Sudoku
from problems.sudoku_puzzles import (
    draw_counted_puzzles,
    draw_minimal_puzzles,
    draw_unique_puzzles,
)
from problems.sudoku_search import NO_LIMIT, count_solutions

OF_SUDOKU = ("uniform", "propagation")

Row = dict[str, Any]
Given = dict[str, np.ndarray]
Puzzles = Callable[[int, torch.Generator], np.ndarray]


@dataclass(frozen=True)
class Instance:
    """What is given, NaN elsewhere, and how many solutions there are if known."""

    given: Given
    num_solutions: int | None = None


class Task(ABC):
    """A problem, the model that solves it, and how its answers are checked.

    Args:
        num: How many instances are reported.
        controls: Methods to compare the model with, see `METHODS` of solve_methods.
    """

    folder: str  # of the trained model
    problem: Problem
    draws = 1  # how many solutions to draw of each instance

    def __init__(self, num: int, *controls: str) -> None:
        self.num = num
        self.methods = ("model", *controls)

    @abstractmethod
    def draw(self, num: int, generator: torch.Generator) -> list[Instance]:
        """Fresh instances."""

    def part(self, first: int, num: int, generator: torch.Generator) -> list[Instance]:
        """The instances from number `first` on."""
        return self.draw(num, generator)

    @abstractmethod
    def solves(self, given: Given, solution: Given) -> bool:
        """Whether a solution is right, by code apart from that of the problem."""

    def record(self, instance: Instance, answer: Any) -> Row:
        """What is kept of an answer; it must not claim what is not so."""
        claimed = [answer.solution] if answer.verified else []
        claimed += [
            {name: array[i] for name, array in answer.solutions.items()}
            for i in range(answer.distinct)
        ]
        for solution in claimed:
            if not self.solves(instance.given, solution):
                raise RuntimeError(
                    "An answer is claimed to be verified and is wrong (got "
                    f"{solution} given {instance.given})."
                )
        answered = bool(answer.solution)  # not so if the budget allows no try
        return {
            "solved": answered and self.solves(instance.given, answer.solution),
            "evaluations": int(answer.evaluations),
        }

    def details(self, records: Sequence[Row]) -> Row:
        """More than the share solved and the cost."""
        return {}


class SudokuTask(Task):
    """Sudoku with clues from `puzzles`, a function of their number and a generator."""

    folder = "pretrained/sudoku"
    problem = Sudoku()

    def __init__(self, num: int, puzzles: Puzzles, *controls: str) -> None:
        super().__init__(num, *controls)
        self.puzzles = puzzles

    def draw(self, num, generator):
        return _puzzles(self.puzzles(num, generator))

    def solves(self, given, solution):
        return solves_sudoku(given, solution)


class GivenSudoku(SudokuTask):
    """Sudoku with one solution: the puzzles [num, 9, 9] of a user, -1 where empty."""

    def __init__(self, puzzles: np.ndarray) -> None:
        super().__init__(len(puzzles), lambda num, _: puzzles[:num], *OF_SUDOKU)
        self._given = puzzles

    def part(self, first, num, generator):
        return _puzzles(self._given[first : first + num])


def read_unique_puzzles(text: str) -> np.ndarray:
    """The puzzles [num, 9, 9] of a text, -1 where empty; each has one solution."""
    cells = Sudoku().read(text)["cells"]
    puzzles = np.where(np.isnan(cells), -1, cells).astype(np.int64)
    for number, puzzle in enumerate(puzzles, 1):
        found = count_solutions(puzzle, 3, 3, NO_LIMIT)
        if found != 1:
            count = "several solutions" if found else "none"
            raise ValueError(
                f"Puzzle {number} must have one solution, so that an answer is right "
                f"or wrong (got {count})."
            )
    return puzzles


def random_clues(clues: int) -> Puzzles:
    """Clues at random cells of a random grid."""

    def draw(num: int, generator: torch.Generator) -> np.ndarray:
        problem = Sudoku(clues=clues)
        cells = problem.sample_batch(num, generator)["cells"]
        known = problem.observe_batch(num, generator)["cells"]
        return torch.where(known, cells, -1).numpy()

    return draw


def unique(num: int, generator: torch.Generator) -> np.ndarray:
    """One solution, 24 to 30 clues."""
    return draw_unique_puzzles(num, (24, 30), generator=generator)[0]


def minimal(clues: int) -> Puzzles:
    """One solution, no redundant clue."""

    def draw(num: int, generator: torch.Generator) -> np.ndarray:
        return draw_minimal_puzzles(num, clues, generator=generator)[0]

    return draw


class CountedSudoku(Task):
    """Sudoku with 10 to 1,000 solutions, of which 100 are drawn."""

    folder = "pretrained/sudoku"
    problem = Sudoku()
    draws = 100

    def draw(self, num, generator):
        puzzles, solutions = draw_counted_puzzles(num, (10, 1000), generator=generator)
        return _puzzles(puzzles, [len(found) for found in solutions])

    def solves(self, given, solution):
        return solves_sudoku(given, solution)

    def record(self, instance, answer):
        row = super().record(instance, answer)
        different = {bytes(np.asarray(c)) for c in answer.solutions.get("cells", ())}
        if len(different) != answer.distinct:
            raise RuntimeError(
                f"Solutions are claimed to be distinct and {len(different)} are (got "
                f"distinct={answer.distinct})."
            )
        counts, num = np.asarray(answer.counts).tolist(), instance.num_solutions
        row |= {"solutions": num, "draws": sum(counts), "distinct": len(counts)}
        row["solved"] = row["draws"] >= self.draws
        if counts:
            row["chi_square"] = chi_square(counts, num)
        return row

    def details(self, records):
        """Distinct solutions over those of uniform draws; the chi-squares' sum."""
        drawn = [r for r in records if r["draws"] > 1]
        if not drawn:
            return {}
        nums, draws = ([r[name] for r in drawn] for name in ("solutions", "draws"))
        uniform = map(expected_distinct, nums, draws)
        ratios = [r["distinct"] / u for r, u in zip(drawn, uniform, strict=True)]
        values = [r["chi_square"] for r in drawn]
        return {
            "distinct over uniform": fmean(ratios),
            "least": min(ratios),
            "within 15%": fmean(abs(ratio - 1) <= 0.15 for ratio in ratios),
            **chi_square_test(values, nums, draws),
        }


class Equation(Task):
    """Equations to be solved up to an RMSE of 0.01."""

    given: tuple[str, ...]

    @staticmethod
    @abstractmethod
    def error(given: Given, solution: Given) -> float:
        """The RMSE, infinite where a value is outside of its domain."""

    def draw(self, num, generator):
        return _instances(self.problem.sample_batch(num, generator), *self.given)

    def solves(self, given, solution):
        return self.error(given, solution) < EXACT

    def record(self, instance, answer):
        row, error = super().record(instance, answer), np.inf
        if answer.solution:
            error = self.error(instance.given, answer.solution)
        return {**row, "rmse": error, "verified": answer.verified}

    def details(self, records):
        """The median RMSE, and which share a method that verifies has verified."""
        verified = fmean(record["verified"] for record in records)
        found = {"median RMSE": median(record["rmse"] for record in records)}
        return {**found, "verified": verified} if verified else found


class Factorization(Equation):
    """BCMF: E = A R."""

    folder = "pretrained/bcmf-varsize"
    given = ("E",)
    error = staticmethod(factorization_error)

    def __init__(self, num: int, problem: BCMF, *controls: str) -> None:
        super().__init__(num, *controls)
        self.problem = problem


class Inversion(Equation):
    """The inverse of a random matrix."""

    folder = "pretrained/matrix-inversion"
    problem = MatrixInversion(n=5, target="identity")
    given = ("A", "E")
    error = staticmethod(equation_error)


class SortingTask(Task):
    """Sorting numbers exactly."""

    def __init__(self, num: int, problem: Sorting, folder: str) -> None:
        super().__init__(num)
        self.problem = problem
        self.folder = folder

    def draw(self, num, generator):
        return _instances(self.problem.sample_batch(num, generator), "u")

    def solves(self, given, solution):
        return sorts(given, solution)


def _puzzles(
    puzzles: np.ndarray, counts: Sequence[int | None] | None = None
) -> list[Instance]:
    """Instances of puzzles [num, N, N] with -1 where a cell is empty."""
    clues = np.where(puzzles < 0, np.nan, puzzles)
    counts = counts or [None] * len(clues)
    pairs = zip(clues, counts, strict=True)
    return [Instance({"cells": cells}, count) for cells, count in pairs]


def _instances(drawn: dict[str, torch.Tensor], *names: str) -> list[Instance]:
    """Instances whose variables `names` are given."""
    arrays = zip(*(drawn[name].numpy() for name in names), strict=True)
    return [Instance(dict(zip(names, values, strict=True))) for values in arrays]


OF_BCMF = ("nmf", "alternation", "polish")

TASKS: dict[str, Task] = {
    "sudoku-0": SudokuTask(1000, random_clues(0), *OF_SUDOKU),
    "sudoku-16": SudokuTask(1000, random_clues(16), *OF_SUDOKU),
    "sudoku-unique": SudokuTask(500, unique, *OF_SUDOKU),
    "sudoku-minimal-22": SudokuTask(100, minimal(22), *OF_SUDOKU),
    "sudoku-minimal-21": SudokuTask(100, minimal(21), *OF_SUDOKU),
    "sudoku-minimal-20": SudokuTask(100, minimal(20), *OF_SUDOKU),
    "sudoku-minimal-19": SudokuTask(100, minimal(19), *OF_SUDOKU),
    "sudoku-minimal-18": SudokuTask(10, minimal(18), *OF_SUDOKU),
    "sudoku-distinct": CountedSudoku(100, "uniform"),
    "bcmf-8-8-4": Factorization(200, BCMF(m=8, n=8, k=4), *OF_BCMF),
    "bcmf-20-20-4": Factorization(200, BCMF(m=20, n=20, k=4), *OF_BCMF),
    "bcmf-10-16-8": Factorization(200, BCMF(m=10, n=16, k=8), *OF_BCMF),
    "sorting-20": SortingTask(200, Sorting(n=20), "pretrained/sorting-n20"),
    "sorting-30": SortingTask(
        200, Sorting(n=30, position="share"), "pretrained/sorting-varsize"
    ),
    "matrix-inversion": Inversion(200, "polish"),
}
