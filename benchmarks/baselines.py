"""Other methods on the paper's problems, all on the same fresh instances.

    python -m benchmarks.baselines [--problem bcmf] [--instances 16] [--minutes 1]

prints a table of the metrics of each method and the seconds that it takes per answer.
Those without training come first. With `--minutes`, the trained ones follow, each after
that much training at the model settings of the table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from benchmarks.sbibm_methods import duration
from gsdm_pyg import GSDM, Problem
from gsdm_pyg.baselines import create, names
from gsdm_pyg.evaluation import Evaluation
from gsdm_pyg.training.memory import keep_freed_memory
from problems import BCMF, Sorting, Sudoku

PROBLEMS: dict[str, Problem] = {
    "bcmf": BCMF(m=16, n=16, k=8),
    "bcmf-small": BCMF(m=8, n=8, k=4),
    "sorting": Sorting(n=10),
    "sudoku-4": Sudoku(a=2, b=2, clues=3),
    "sudoku-9": Sudoku(clues=16),
    "sudoku-16": Sudoku(a=4, b=4, clues=51),
}
TRAINED: dict[str, dict[str, Any]] = {
    "GSDM": {},
    "non-sparse": {"edges": "complete", "intermediates": "drop"},
    "Regressor + GS": {"method": "regression"},
    "Regressor": {
        "method": "regression",
        "edges": "complete",
        "intermediates": "drop",
        "embedding": "independent",
    },
    "VAEAC": {
        "method": "vaeac",
        "embedding": "independent",
        "intermediates": "drop",
        "width": 256,
        "layers": 10,
    },
}
Row = tuple[str, Evaluation, float]  # a method, its answers, seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--problem", action="append", choices=PROBLEMS, help="default: all")
    add("--method", action="append", choices=[*names(), *TRAINED], help="default: all")
    add("--instances", type=int, default=16)
    add("--minutes", type=float, help="of training; by default nothing is trained")
    add("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    keep_freed_memory()  # as the train command does
    print("| problem | method | metrics | s per answer |")
    print("| --- | --- | --- | ---: |")
    for name in options.problem or PROBLEMS:
        problem = PROBLEMS[name]
        for method, result, seconds in rows(problem, options):
            metrics = ", ".join(f"{n} {v:.4f}" for n, v in result.metrics.items())
            each = f"{seconds / options.instances:.3f}"
            print(f"| {problem} | {method} | {metrics} | {each} |", flush=True)


def rows(problem: Problem, options: argparse.Namespace) -> Iterator[Row]:
    """The methods that can solve a problem, in turn."""
    asked = options.method or [*names(), *TRAINED]
    for name in (n for n in names() if n in asked):
        baseline = create(name)
        try:
            baseline.check(problem)
        except (TypeError, ValueError):  # which says that it cannot
            continue
        start = time.perf_counter()
        result = baseline.evaluate(problem, options.instances, seed=options.seed)
        yield name, result, time.perf_counter() - start
    if options.minutes is None:
        return
    for name in (n for n in TRAINED if n in asked):
        torch.manual_seed(options.seed)
        model = GSDM.from_problem(problem, **TRAINED[name])
        model.fit(max_time=duration(options.minutes), seed=options.seed)
        start = time.perf_counter()
        result = model.evaluate(problem, options.instances, seed=options.seed)
        yield name, result, time.perf_counter() - start


if __name__ == "__main__":
    main()
