"""Fill in a Sudoku by sampling: how often is it right, how many solutions turn up?

    python -m examples.sudoku
    python -m examples.sudoku --puzzle 1........2........3  # dots at the end may go
    python -m examples.sudoku --samples 64

A puzzle is a line of 81 digits, row by row, with dots for empty cells.
"""

import argparse

import torch

from gsdm_pyg import GSDM
from problems import Sudoku

PUZZLE = (
    "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
)


def read(puzzle: str) -> torch.Tensor:
    """The grid [9, 9] of digits 0..8, NaN where the puzzle has a dot."""
    if len(puzzle) > 81 or not set(puzzle) <= set(".123456789"):
        raise SystemExit(
            "A puzzle has at most 81 characters, each a digit from 1 to 9 or a dot "
            f"(got {puzzle!r})."
        )
    digits = [float("nan") if c == "." else int(c) - 1 for c in puzzle.ljust(81, ".")]
    return torch.tensor(digits).view(9, 9)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--puzzle", default=PUZZLE, help="default: one with 30 clues")
    parser.add_argument("--model", default="pretrained/sudoku")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--steps", type=int, default=50, help="from noise to a sample")
    parser.add_argument("--restarts", type=int, default=8, help="correct mistakes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    problem = Sudoku(3, 3)
    samples = GSDM.from_pretrained(options.model).sample(
        problem,
        given={"cells": read(options.puzzle)},
        num_samples=options.samples,
        steps=options.steps,
        restarts=options.restarts,
        generator=torch.Generator().manual_seed(options.seed),
    )
    solutions = [
        cells
        for cells in samples["cells"]
        if problem.metrics({"cells": cells}, {"cells": cells})["valid"]
    ]
    if solutions:
        for row in solutions[0] + 1:
            print(*row.tolist())
    print(
        f"solutions among {options.samples} samples: {len(solutions)}, "
        f"different ones: {problem.distinct(samples)}"
    )


if __name__ == "__main__":
    main()
