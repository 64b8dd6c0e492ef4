"""How fast complete Sudoku grids are drawn, on one core, and how uniformly.

python -m benchmarks.sudoku_grids

Grids that differ in the names of their digits alone count as one. If each were equally
likely, chi-square would lie within about two standard deviations of the number of grids
less one. 9x9 has too many to count; its test is in tests/problems/test_sudoku.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from problems import Sudoku

COMPLETE = {(2, 2): 288 // 24, (2, 3): 28_200_960 // 720}  # grids, but for renaming


def grids(problem: Sudoku, count: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield problem.sample(generator)["cells"]


def grids_per_second(problem: Sudoku, count: int) -> float:
    next(grids(problem, 1))  # compiles
    start = time.process_time()
    for _ in grids(problem, count):
        pass
    return count / (time.process_time() - start)


def chi_square(problem: Sudoku, count: int) -> float:
    """Of how often each grid is drawn, against equal chances."""
    drawn = torch.stack(list(grids(problem, count))).flatten(1)  # [count, N^2]
    name = drawn[:, : problem.a * problem.b].argsort(1)  # the first row becomes 0..N-1
    renamed = name.gather(1, drawn)
    counts = renamed.unique(dim=0, return_counts=True)[1].double()
    total = COMPLETE[problem.a, problem.b]
    return float(counts.square().sum() * total / count - count)


def main() -> None:
    print("| side | grids | a second |\n| --- | --- | --- |")
    for a, b, count in [(2, 2, 5000), (2, 3, 5000), (3, 3, 5000), (4, 4, 500)]:
        for kind in ("all", "shifted"):
            speed = grids_per_second(Sudoku(a=a, b=b, grids=kind), count)
            print(f"| {a * b} | {kind} | {speed:,.0f} |")
    print("\n| side | grids | draws | chi-square | expected |")
    print("| --- | --- | --- | --- | --- |")
    for a, b, count in [(2, 2, 100_000), (2, 3, 400_000)]:
        total, value = COMPLETE[a, b], chi_square(Sudoku(a=a, b=b), count)
        deviation = (2 * (total - 1)) ** 0.5
        expected = f"{total - 1:,} ± {deviation:,.0f}"
        print(f"| {a * b} | {total:,} | {count:,} | {value:,.0f} | {expected} |")


if __name__ == "__main__":
    main()
