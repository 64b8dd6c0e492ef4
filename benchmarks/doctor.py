"""The doctor's forecast of a training step beside what is then measured.

    OMP_NUM_THREADS=1 python -m benchmarks.doctor

Time is what a step takes, the mean of eight. On one thread it is the time of the
processor, which leaves out what else the machine does. Memory is what model, batch and
two steps add to the resident set of a fresh process at its peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from statistics import mean
from typing import Any

import torch

from benchmarks.measure import print_peak
from gsdm_pyg import GraphDiffusion, Problem, ProblemBatches
from gsdm_pyg.doctor.forecast import forecast, training_step
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import DataSettings, ModelSettings
from gsdm_pyg.training.memory import keep_freed_memory
from problems import BCMF, Sorting, StateSpace, Sudoku

CASES: dict[str, tuple[Problem, int, dict[str, Any]]] = {
    "BCMF 10,16,8 x 8": (BCMF(m=10, n=16, k=8), 8, {}),
    "BCMF 10,16,8 x 32, width 32": (BCMF(m=10, n=16, k=8), 32, {"width": 32}),
    "BCMF 4,4,2 x 16, width 128": (BCMF(m=4, n=4, k=2), 16, {"width": 128}),
    "BCMF 40,40,10 x 2, 6 layers": (BCMF(m=40, n=40, k=10), 2, {"layers": 6}),
    "BCMF 200,200,2 x 1, 4 layers": (BCMF(m=200, n=200, k=2), 1, {"layers": 4}),
    "BCMF 10,10,8 x 16, self-conditioning": (
        BCMF(m=10, n=10, k=8),
        16,
        {"layers": 6, "heads": 8, "self_conditioning": True},
    ),
    "Sorting 20 x 16": (Sorting(n=20), 16, {"layers": 6, "heads": 4}),
    "Sudoku x 32, width 128": (Sudoku(), 32, {"layers": 8, "width": 128}),
    "hidden path 25 x 64": (StateSpace(steps=25), 64, {"layers": 8}),
    "complete BCMF 4,4,2 x 64": (BCMF(m=4, n=4, k=2), 64, {"edges": "complete"}),
}


def diffusion(problem: Problem, model: ModelSettings) -> GraphDiffusion:
    return GraphDiffusion(ProblemSpec.of(problem, model.graph), model)


def forecast_and_measure(name: str) -> dict[str, float]:
    """Seconds of a step, foretold and measured, and the bytes foretold."""
    problem, batch_size, settings = CASES[name]
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    model = ModelSettings(**settings)
    start = time.perf_counter()
    foretold = forecast(
        problem, model, DataSettings(batch_size=batch_size), clock=clock
    )
    took = time.perf_counter() - start
    batch = ProblemBatches(problem, batch_size=batch_size, options=model.graph).batch(0)
    step = training_step(diffusion(problem, model))
    step(batch)
    seconds = []
    for _ in range(8):
        begin = clock()
        step(batch)
        seconds.append(clock() - begin)
    return {
        "nodes": batch.num_nodes,
        "forecast": foretold.step_seconds,
        "measured": mean(seconds),
        "bytes": foretold.peak_bytes,
        "took": took,
    }


def print_peak_of(name: str) -> None:
    """The bytes that model, batch and two steps add to this process."""
    problem, batch_size, settings = CASES[name]

    def train(batch_size: int, **changes: Any) -> None:
        model = ModelSettings(**{**settings, **changes})
        batches = ProblemBatches(problem, batch_size=batch_size, options=model.graph)
        batch = batches.batch(0)
        step = training_step(diffusion(problem, model))
        step(batch)
        step(batch)

    train(1, layers=1)  # loads kernels
    print_peak(lambda: train(batch_size))


def in_fresh_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.doctor", *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return printed.stdout.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-of", help=argparse.SUPPRESS)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    keep_freed_memory()  # as the train command does
    if options.time_of:
        print(json.dumps(forecast_and_measure(options.time_of)))
        return
    if options.memory_of:
        print_peak_of(options.memory_of)
        return
    print(
        f"threads: {torch.get_num_threads()}; 12 layers, width 64, 2 heads or as said"
    )
    print(
        "| batch | nodes | forecast, ms | measured | ratio | MiB | measured | ratio |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in CASES:
        row = json.loads(in_fresh_process("--time-of", name))
        peak = int(in_fresh_process("--memory-of", name))
        print(
            f"| {name} | {row['nodes']:,} | {1e3 * row['forecast']:.0f} "
            f"| {1e3 * row['measured']:.0f} | {row['forecast'] / row['measured']:.2f} "
            f"| {row['bytes'] / 2**20:.0f} | {peak / 2**20:.0f} "
            f"| {row['bytes'] / peak:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
