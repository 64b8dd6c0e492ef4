"""A run folder as it grows: losses, validation metrics and the newest pictures."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

MOST_POINTS = 600  # of a curve
MOST_PICTURES = 8
MOST_BYTES = 4 * 2**20  # of all logs of a run; of longer ones the end is read
_NO_METRICS = {"", "epoch", "step", "lr", "minutes", "nodes/s"}

Curves = dict[str, list[tuple[int, float]]]  # (step, value) by name
_Log = tuple[Path, int, int]  # a file, when it was written, and its size


def read_training(run: Path | None) -> dict[str, Any]:
    """Curves, each a list of [step, value], and names of pictures, newest first."""
    logs = () if run is None else _logs(run)
    if run is None or not logs:
        return {"run": None if run is None else str(run), "step": 0, "curves": {}}
    newest = max(written for _, written, _ in logs)
    steps, curves = _read_logs(logs)
    return {
        "run": str(run),
        "step": steps,
        "age": round(time.time() - newest / 1e9, 1),
        "finished": _is_finished(run, newest),
        "curves": curves,
        "pictures": [path.name for path in _pictures(run)],
    }


def find_picture(run: Path | None, name: str) -> Path | None:
    """The file of a picture of the run; nothing else of the folder can be had."""
    pictures = {} if run is None else {path.name: path for path in _pictures(run)}
    return pictures.get(name)


def _is_finished(run: Path, newest: int) -> bool:
    """Whether the metrics of the model were written after the last entry of a log."""
    try:
        return (run / "metrics.json").stat().st_mtime_ns >= newest
    except OSError:
        return False


def _logs(run: Path) -> tuple[_Log, ...]:
    """The logs of all starts in order: resuming a run begins a new file."""
    paths = [path for path in (run / "csv").glob("*/metrics.csv") if path.is_file()]
    paths.sort(key=lambda path: (len(path.parent.name), path.parent.name))  # 9 < 10
    return tuple((p, p.stat().st_mtime_ns, p.stat().st_size) for p in paths)


@lru_cache(maxsize=1)
def _read_logs(logs: tuple[_Log, ...]) -> tuple[int, Curves]:
    """The number of steps, and each column with numbers, the loss first and thinned.

    Where starts overlap, the later one counts: its steps are those that led to the
    model.
    """
    curves: Curves = {"loss": []}
    steps, left = 0, MOST_BYTES
    end = math.inf  # the first step of the start after this one
    for path, _, size in reversed(logs):
        if left <= 0:
            break
        found: Curves = {}
        first = end
        for step, name, value in _read_log(path, size - left):
            first = min(first, step)
            if step < end:
                steps = max(steps, step + 1)
                if value is not None:
                    found.setdefault(name, []).append((step, value))
        for name, points in found.items():
            curves[name] = points + curves.get(name, [])
        end, left = first, left - size
    return steps, {name: _thin(points) for name, points in curves.items() if points}


def _read_log(log: Path, skipped: int) -> Iterator[tuple[int, str, float | None]]:
    """The step, name and value of each entry, None if that is no number.

    Args:
        log: The file, whose last line may be in the middle of writing.
        skipped: How many bytes are too many, and are skipped.
    """
    with open(log, "rb") as file:
        names = next(csv.reader([file.readline().decode(errors="replace")]), [])
        if "step" not in names:
            return
        if skipped > 0:
            file.seek(skipped)
            file.readline()
        lines = (line.decode(errors="replace") for line in file if line[-1:] == b"\n")
        columns = [(i, name) for i, name in enumerate(names) if name not in _NO_METRICS]
        at = names.index("step")
        for row in csv.reader(lines):
            if len(row) == len(names) and row[at].isdigit():
                for i, name in columns:
                    if row[i]:
                        yield int(row[at]), name, _number(row[i])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _thin(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most `MOST_POINTS` means of neighboring points."""
    size = -(-len(points) // MOST_POINTS)
    if size == 1:
        return points
    chunks = [points[i : i + size] for i in range(0, len(points), size)]
    return [
        (chunk[-1][0], sum(value for _, value in chunk) / len(chunk))
        for chunk in chunks
    ]


def _pictures(run: Path) -> list[Path]:
    """The newest pictures of a run."""
    found = [path for path in (run / "pictures").glob("*.png") if path.is_file()]
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    return newest[:MOST_PICTURES]
