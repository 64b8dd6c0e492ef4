"""Sudoku with blocks of any shape (section 4 of the paper)."""

import math
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, distributions

from gsdm_pyg import (
    Categorical,
    GraphicalModel,
    Observe,
    Panel,
    Problem,
    Size,
    check_choice,
    factor,
    sample,
)
from problems.sudoku_grids import draw_grids
from problems.sudoku_rules import MOST_DIGITS, remaining_digits
from problems.sudoku_search import count_solutions
from problems.sudoku_text import SYMBOLS, read_puzzles, write_grid

Grids = Literal["all", "shifted"]

MOST_TRIES = 100_000  # digits to try in a search for a second solution; about 30 ms


class Sudoku(Problem):
    """Fill a grid so that each row, column and block holds each digit once.

    The N = a b digits are 0..N-1, shown as 1..N.

    Args:
        a: Rows of a block.
        b: Columns of a block.
        clues: How many cells are given; uniform on 0..N^2 - 1 if None.
        grids: "all" draws from all complete grids, nearly uniformly; "shifted" from
            the few that the paper trains on, whose rows are shifts of one another
            except for the order of columns. See `draw_grid`.
    """

    a: Size = 3
    b: Size = 3
    clues: int | None = None
    grids: Grids = "all"

    partial = ("exact",)
    best_values: ClassVar = {"valid": 1.0, "violations": 0.0, "exact": 1.0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n < 2:
            raise ValueError(
                "A Sudoku needs blocks of two cells or more: choose a and b with "
                f"a * b >= 2 (got a={self.a}, b={self.b})."
            )
        clues = 0 if self.clues is None else self.clues
        is_count = isinstance(clues, int) and not isinstance(clues, bool)
        if not (is_count and 0 <= clues < self.n**2):
            raise ValueError(
                f"Sudoku.clues is a whole number from 0 to {self.n**2 - 1} here, or "
                f"None to draw one per instance (got {clues!r})."
            )
        check_choice("Sudoku.grids", self.grids, Grids)

    @property
    def n(self) -> int:
        """N, the side of the grid and the number of digits."""
        return self.a * self.b

    def graphical_model(self) -> GraphicalModel:
        a, b, n, graph = self.a, self.b, self.n, GraphicalModel()
        line = torch.arange(n)
        alike = (line[:, None], line // b)  # cells of one row within one block
        cells = graph.add_variable("cells", (n, n), Categorical(n), positions=alike)
        graph.factor(cells)  # one of each digit per row ...
        graph.factor(cells.T)  # ... per column ...
        blocks = cells.view(b, a, a, b).transpose(1, 2)  # [band, stack, row, column]
        graph.factor(blocks.reshape(n, n))  # ... and per block
        return graph

    def sample_batch(self, num, generator=None):
        seeds = torch.randint(2**63 - 1, (num,), generator=generator)
        grids = draw_grids(self.a, self.b, self.grids == "all", seeds.numpy())
        return {"cells": torch.from_numpy(grids)}

    def program(self):
        """Uniform digits, and a condition for each pair of cells that must differ."""
        digits = distributions.Categorical(torch.ones(self.n))
        cells = sample("cells", digits, (self.n, self.n))
        factor(~self._equal(cells))

    def observe_batch(self, num, generator=None, mode: Observe = "roles"):
        """As many clues as `clues` says, at random cells; in both modes."""
        check_choice("observe", mode, Observe)
        num_cells, clues = self.n**2, self.clues
        if clues is None:
            clues = torch.randint(num_cells, (num, 1), generator=generator)
        rank = torch.empty(num, num_cells, dtype=torch.long)
        for row in rank:  # as fast as sorting random numbers, and exactly uniform
            torch.randperm(num_cells, generator=generator, out=row)
        return {"cells": (rank < clues).view(num, self.n, self.n)}

    def check_given(self, values, known) -> None:
        """Refuse clues that repeat a digit within a row, a column or a block."""
        if "cells" not in values:
            return
        given = torch.where(known["cells"], values["cells"], -1).reshape(-1, self.n**2)
        clash = self._first_clash(given)
        if clash is None:
            return
        puzzle, cells, digit = clash
        of = "" if len(given) == 1 else f" of puzzle {puzzle}"
        hint = ""
        if digit == 0:
            hint = (
                f" Digits are 0..{self.n - 1} here, NaN where a cell is blank: 0 does "
                "not mean blank."
            )
        raise ValueError(
            f"The clues{of} contradict each other: the cells {cells[0]} and {cells[1]} "
            f"share {self._shared(*cells)} and must differ (got {digit} in both).{hint}"
        )

    def violations(self, samples):
        """How many cells of its row, column and block have a cell's digit."""
        cells = samples["cells"].flatten(1)
        first, second = _peers(self.a, self.b)
        equal = (cells[:, first] == cells[:, second]).long()  # [S, P]
        clashes = torch.zeros_like(cells)
        clashes.index_add_(1, first, equal).index_add_(1, second, equal)
        return {"a digit twice": clashes.view(-1, self.n, self.n)}

    def possible(self, values, known):
        """The digits that are left by singles, see `remaining_digits`."""
        if self.n > MOST_DIGITS:
            return None
        cells = torch.where(known["cells"], values.get("cells", 0), -1).long()
        left = remaining_digits(cells.flatten(1).numpy(), self.a, self.b)  # [S, N^2]
        digits = torch.from_numpy(left)[..., None] >> torch.arange(self.n) & 1
        return {"cells": digits.bool().view(*cells.shape, self.n)}

    def read(self, text):
        """Puzzles as `problems.sudoku_text` reads them.

        Clues that contradict each other are rejected here, in the symbols of the text.
        """
        cells = torch.from_numpy(read_puzzles(text, self.n))
        known = ~cells.isnan()
        given = torch.where(known, cells, -1).flatten(1)
        clash = self._first_clash(given)
        if clash is not None:
            puzzle, pair, digit = clash
            places = " and ".join(f"row {i + 1}, column {j + 1}" for i, j in pair)
            reason = f"{places} share {self._shared(*pair)} and must differ"
            got = f"{SYMBOLS[digit]} in both"
        else:
            left = self.possible({"cells": cells}, {"cells": known})["cells"]
            wrong = ~left.any(-1).flatten(1).all(1)
            if not wrong.any():
                return {"cells": cells.numpy()}
            puzzle = int(wrong.nonzero()[0])
            reason = "what follows from them leaves no digit for some cell"
            got = f"{int(known[puzzle].sum())} clues without a solution"
        of = "" if len(given) == 1 else f" of puzzle {puzzle + 1}"
        raise ValueError(f"The clues{of} contradict each other: {reason} (got {got}).")

    def write(self, sample):
        """The grid as N lines of N digits."""
        cells = sample["cells"]
        return write_grid(cells.numpy()) if self.n <= len(SYMBOLS) else None

    def _first_clash(
        self, given: Tensor
    ) -> tuple[int, list[tuple[int, int]], int] | None:
        """The first puzzle of [S, N^2] that repeats a digit, two cells that do, and it.

        Cells without a digit are -1.
        """
        first, second = _peers(self.a, self.b)
        clash = (given[:, first] == given[:, second]) & (given[:, first] >= 0)
        if not clash.any():
            return None
        puzzle, pair = clash.nonzero()[0].tolist()
        cells = [divmod(int(end[pair]), self.n) for end in (first, second)]
        return puzzle, cells, int(given[puzzle, first[pair]])

    def _shared(self, cell: tuple[int, int], other: tuple[int, int]) -> str:
        """What two cells have in common: a row, a column or a block."""
        if cell[0] == other[0]:
            return "a row"
        return "a column" if cell[1] == other[1] else "a block"

    def metrics(self, sample, truth, observed=None):
        """Whether the grid is a solution, and how far it is from one.

        `valid` is 1 if each row, column and block holds each digit once and the clues
        are unchanged. `violations` is the share of equal digits among all pairs of
        cells that must differ. `exact` is 1 if the grid is the truth and 0 if not. It
        is NaN if there are other solutions, if the search for one gave up, and without
        `observed`.

        Args:
            sample: The grid to score.
            truth: The grid that the clues come from.
            observed: Where the clues are; nowhere by default.
        """
        cells, true = sample["cells"], truth["cells"]
        violations = self._equal(cells).float().mean().item()
        valid, exact = violations == 0, math.nan
        if observed is not None:
            clues = torch.where(observed["cells"], true, -1)
            valid &= bool((cells == true)[observed["cells"]].all())
            if count_solutions(clues.numpy(), self.a, self.b, MOST_TRIES) == 1:
                exact = float(torch.equal(cells, true))
        return {"valid": float(valid), "violations": violations, "exact": exact}

    def distinct(self, samples) -> int:
        """How many different valid grids there are among `cells` [S, N, N]."""
        valid = [not self._equal(cells).any() for cells in samples["cells"]]
        return len(samples["cells"][torch.tensor(valid)].unique(dim=0))

    def panels(self):
        digits = tuple(str(digit + 1) for digit in range(self.n))
        block, marks = (self.a, self.b), {"a digit twice": "cells"}
        return [Panel("grid", ("cells",), labels=digits, block=block, marks=marks)]

    def plot(self, sample, truth, observed=None) -> Figure:
        """The grid beside the truth: clues bold, digits that break a rule red."""
        n, cell = self.n, min(0.4, 8 / self.n)
        figure = Figure(figsize=(cell * (2 * n + 1), cell * n + 0.5), layout="tight")
        clues = observed["cells"] if observed else torch.zeros(n, n, dtype=torch.bool)
        left, right = figure.subplots(1, 2)
        left.set_title("sample")
        right.set_title("truth")
        for ax, cells in ((left, sample["cells"]), (right, truth["cells"])):
            wrong = self._conflicting(cells) | clues & (cells != truth["cells"])
            ax.set(xticks=[], yticks=[])
            ax.imshow(_colors(clues, wrong))
            for i, j in np.ndindex(n, n):
                color = "black" if clues[i, j] else "tab:blue"
                ax.text(
                    j,
                    i,
                    str(int(cells[i, j]) + 1),
                    color="red" if wrong[i, j] else color,
                    weight="bold" if clues[i, j] else "normal",
                    size=36 * cell,
                    ha="center",
                    va="center_baseline",
                )
            for k in range(n + 1):
                ax.axhline(k - 0.5, color="black", lw=0.3 if k % self.a else 1.5)
                ax.axvline(k - 0.5, color="black", lw=0.3 if k % self.b else 1.5)
        return figure

    def _equal(self, cells: Tensor) -> Tensor:
        """Which of the pairs of cells that must differ [P] are equal."""
        first, second = _peers(self.a, self.b)
        return cells.reshape(-1)[first] == cells.reshape(-1)[second]

    def _conflicting(self, cells: Tensor) -> Tensor:
        """Which cells [N, N] have the digit of a cell that they must differ from."""
        conflicting = torch.zeros(cells.numel(), dtype=torch.bool)
        conflicting[_peers(self.a, self.b)[:, self._equal(cells)]] = True
        return conflicting.view_as(cells)


@lru_cache(maxsize=64)
def _peers(a: int, b: int) -> Tensor:
    """Pairs [2, P] of cells that share a row, a column or a block, each pair once."""
    n = a * b
    row, column = torch.arange(n * n) // n, torch.arange(n * n) % n
    block = row // a * a + column // b
    pairs = torch.triu_indices(n * n, n * n, 1)
    shared = [group[pairs[0]] == group[pairs[1]] for group in (row, column, block)]
    return pairs[:, torch.stack(shared).any(0)]


def _colors(clues: Tensor, wrong: Tensor) -> Tensor:
    """The background [N, N, 3] of cells: clues gray, wrong ones rose."""
    colors = torch.ones(*clues.shape, 3)
    colors[clues] = 0.93
    colors[wrong] = torch.tensor([1.0, 0.85, 0.85])
    return colors
