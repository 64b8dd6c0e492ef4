"""How fast complete Sudoku grids are drawn, on one core.

python -m benchmarks.sudoku_grids
"""

from __future__ import annotations

import time

import torch

from problems import Sudoku


def grids_per_second(problem: Sudoku, count: int) -> float:
    generator = torch.Generator().manual_seed(0)
    problem.sample(generator)  # compiles
    start = time.process_time()
    for _ in range(count):
        problem.sample(generator)
    return count / (time.process_time() - start)


def main() -> None:
    print("| side | grids | a second |\n| --- | --- | --- |")
    for a, b, count in [(2, 2, 5000), (2, 3, 5000), (3, 3, 5000), (4, 4, 500)]:
        for grids in ("all", "shifted"):
            speed = grids_per_second(Sudoku(a=a, b=b, grids=grids), count)
            print(f"| {a * b} | {grids} | {speed:,.0f} |")


if __name__ == "__main__":
    main()
