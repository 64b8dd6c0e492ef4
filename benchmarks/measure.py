"""What benchmarks share: times taken in turns, their floor, and peak memory."""

import argparse
import ctypes
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch


def median_times(runs: list[Callable[[], object]], repeats: int) -> list[float]:
    """Seconds of each, all taking turns."""
    times: list[list[float]] = [[] for _ in runs]
    for round_ in range(repeats + 2):
        for run, record in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if round_ >= 2:  # the first two warm up
                record.append(time.perf_counter() - start)
    return [statistics.median(record) for record in times]


def products(
    shapes: list[tuple[int, int, int]], input_grad: bool = True
) -> Callable[[], None]:
    """A function that does the matrix products of linear layers, and nothing else.

    Args:
        shapes: (rows, inputs, outputs) of every layer.
        input_grad: Whether the inputs need a gradient: three products, otherwise two.
    """
    work = [
        (torch.randn(rows, i), torch.randn(o, i), torch.randn(rows, o))
        for rows, i, o in shapes
    ]

    def run() -> None:
        for x, weight, grad in work:
            x @ weight.t()
            if input_grad:
                grad @ weight
            grad.t() @ x

    return run


def status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(field)


def print_peak(run: Callable[[], object]) -> None:
    """Bytes that a call adds to the resident set of this process at its peak.

    The call compiles nothing, or it fails.
    """
    ctypes.CDLL(None).malloc_trim(0)  # nothing freed earlier shall be used again
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = status("VmRSS")
    with torch.compiler.set_stance("fail_on_recompile"):
        run()
    print(status("VmHWM") - before)


def peak_of(module: str, *names: str) -> float:
    """MB that `print_peak` reports in a fresh process; NaN where it cannot measure.

    The module parses its arguments with `parse_arguments`.
    """
    if not Path("/proc/self/clear_refs").exists():
        return math.nan
    command = [sys.executable, "-m", module, "--memory-of", *names]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(result.stdout.split()[-1]) / 1e6


def parse_arguments(
    parser: argparse.ArgumentParser, print_peak_memory: Callable[[str, str], None]
) -> argparse.Namespace:
    """The arguments; a process that `peak_of` started prints its peak and ends."""
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.memory_of:
        print_peak_memory(*args.memory_of)
        parser.exit()
    return args
