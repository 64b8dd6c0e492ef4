"""How fast complete Sudoku grids are drawn, on one core, and how uniformly.

python -m benchmarks.sudoku_grids

Grids that are equal up to a renaming of the digits count as one. If all are equally
likely, chi-square is within about two standard deviations of the number of grids minus
one. There are too many 9x9 grids to count; tests/problems/test_sudoku.py tests those.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from problems import Sudoku

NUM_GRIDS = {(2, 2): 288 // 24, (2, 3): 28_200_960 // 720}  # up to renaming


def draw(problem: Sudoku, num: int) -> Tensor:
    """Grids [num, N, N], always the same ones."""
    return problem.sample_batch(num, torch.Generator().manual_seed(0))["cells"]


def grids_per_second(problem: Sudoku, num: int) -> float:
    draw(problem, 1)  # compiles
    start = time.process_time()
    draw(problem, num)
    return num / (time.process_time() - start)


def chi_square(problem: Sudoku, num: int) -> float:
    """Chi-square of how often each grid is drawn, against equal probabilities."""
    drawn = draw(problem, num).flatten(1)  # [num, N^2]
    name = drawn[:, : problem.a * problem.b].argsort(1)  # the first row becomes 0..N-1
    renamed = name.gather(1, drawn)
    counts = renamed.unique(dim=0, return_counts=True)[1].double()
    total = NUM_GRIDS[problem.a, problem.b]
    return float(counts.square().sum() * total / num - num)


def main() -> None:
    print("| side | grids | a second |\n| --- | --- | --- |")
    for a, b, num in [(2, 2, 5000), (2, 3, 5000), (3, 3, 5000), (4, 4, 500)]:
        for kind in ("all", "shifted"):
            speed = grids_per_second(Sudoku(a=a, b=b, grids=kind), num)
            print(f"| {a * b} | {kind} | {speed:,.0f} |")
    print("\n| side | grids | draws | chi-square | expected |")
    print("| --- | --- | --- | --- | --- |")
    for a, b, num in [(2, 2, 100_000), (2, 3, 400_000)]:
        total, value = NUM_GRIDS[a, b], chi_square(Sudoku(a=a, b=b), num)
        deviation = (2 * (total - 1)) ** 0.5
        expected = f"{total - 1:,} ± {deviation:,.0f}"
        print(f"| {a * b} | {total:,} | {num:,} | {value:,.0f} | {expected} |")


if __name__ == "__main__":
    main()
