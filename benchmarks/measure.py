"""What benchmarks share: times taken in turns, and the peak memory of one call."""

import ctypes
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def median_times(runs: list[Callable[[], None]], repeats: int) -> list[float]:
    """Seconds of each, all taking turns."""
    times: list[list[float]] = [[] for _ in runs]
    for round_ in range(repeats + 2):
        for run, record in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if round_ >= 2:  # the first two warm up
                record.append(time.perf_counter() - start)
    return [statistics.median(record) for record in times]


def status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(field)


def print_peak(run: Callable[[], None]) -> None:
    """Bytes that a call adds to the resident set of this process at its peak."""
    ctypes.CDLL(None).malloc_trim(0)  # nothing freed earlier shall be used again
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = status("VmRSS")
    run()
    print(status("VmHWM") - before)


def peak_of(module: str, *arguments: str) -> float:
    """MB that `print_peak` reports in a fresh process; NaN where it cannot measure."""
    if not Path("/proc/self/clear_refs").exists():
        return math.nan
    command = [sys.executable, "-m", module, *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(result.stdout.split()[-1]) / 1e6
