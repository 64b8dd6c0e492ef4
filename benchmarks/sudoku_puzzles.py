"""How fast Sudoku puzzles are drawn, on one core, and how many need no guess.

    python -m benchmarks.sudoku_puzzles [--seconds 20]

"Certain" is the share that `propagate` solves, which fills in single candidates of a
cell and single places of a digit until there are none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks.solve_baselines import propagate
from problems.sudoku_puzzles import (
    draw_counted_puzzles,
    draw_minimal_puzzles,
    draw_unique_puzzles,
)

KINDS: dict[str, Callable] = {
    "one solution, 24 to 30 clues": draw_unique_puzzles,
    "10 to 1,000 solutions": draw_counted_puzzles,
    **{
        f"minimal, {clues} clues": partial(draw_minimal_puzzles, clues=clues)
        for clues in (25, 24, 23, 22, 21, 20, 19, 18)
    },
}


def measure(draw: Callable, seconds: float) -> tuple[int, float, float]:
    """Puzzles drawn, how many a second of one core, and the share that is certain."""
    generator = torch.Generator().manual_seed(0)
    draw(1, generator=generator)  # compiles
    drawn, start, spent = [], time.process_time(), 0.0
    while spent < seconds:
        drawn.append(draw(1, generator=generator)[0][0])
        spent = time.process_time() - start
    grids = [propagate(np.where(p < 0, np.nan, p)) for p in drawn[:200]]
    certain = np.mean([not np.isnan(grid).any() for grid in grids])
    return len(drawn), len(drawn) / spent, float(certain)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sudoku_puzzles")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each kind")
    seconds = parser.parse_args().seconds
    print("| puzzles | drawn | a second | certain |\n| --- | ---: | ---: | ---: |")
    for name, draw in KINDS.items():
        num, rate, certain = measure(draw, seconds)
        print(f"| {name} | {num:,} | {rate:,.3g} | {certain:.0%} |", flush=True)


if __name__ == "__main__":
    main()
