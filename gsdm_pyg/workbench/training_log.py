"""A run folder as it grows: losses, validation metrics and the newest pictures."""

from __future__ import annotations

import csv
import math
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

MOST_POINTS = 600  # of a curve
MOST_PICTURES = 8
MOST_BYTES = 4 * 2**20  # of all logs of a run; of longer ones the end is read
_MOST_HEADER = 2**16  # bytes of the first line
_MOST_DIGITS = 15  # of a step
_NO_METRICS = {"", "epoch", "step", "lr", "minutes", "nodes/s"}

Curves = dict[str, list[tuple[int, float]]]  # (step, value) by name
_Log = tuple[Path, int, int]  # a file, when it was written, and its size


def read_training(run: Path | None) -> dict[str, Any]:
    """Curves, each a list of [step, value], and pictures, newest first.

    The page is told when each picture was written, in milliseconds, since a resumed run
    may write one anew.
    """
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
        "pictures": {path.name: written for path, written in _pictures(run)},
    }


def find_picture(run: Path | None, name: str) -> Path | None:
    """The file of a picture of the run; nothing else of the folder can be had."""
    pictures = {} if run is None else {path.name: path for path, _ in _pictures(run)}
    return pictures.get(name)


def _is_finished(run: Path, newest: int) -> bool:
    """Whether the metrics of the model were written after the last entry of a log."""
    try:
        return (run / "metrics.json").stat().st_mtime_ns >= newest
    except OSError:
        return False


def _logs(run: Path) -> tuple[_Log, ...]:
    """The logs of all starts in order: resuming a run begins a new file."""
    found = _files(run / "csv", "*/metrics.csv")
    found.sort(key=lambda file: (len(file[0].parent.name), file[0].parent.name))  # 9<10
    return tuple((path, state.st_mtime_ns, state.st_size) for path, state in found)


def _files(folder: Path, pattern: str) -> list[tuple[Path, os.stat_result]]:
    """The files of a folder that are there now: another process may remove some."""
    found = []
    try:
        paths = list(folder.glob(pattern))
    except OSError:
        return []
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode):
            found.append((path, state))
    return found


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
    with suppress(OSError), open(log, "rb") as file:
        names = _fields(file.readline(_MOST_HEADER))
        if "step" not in names:
            return
        if skipped > 0:
            file.seek(skipped)
            file.readline()
        columns = [(i, name) for i, name in enumerate(names) if name not in _NO_METRICS]
        at = names.index("step")
        for line in file:
            row = _fields(line) if line.endswith(b"\n") else []
            if len(row) == len(names) and _is_step(row[at]):
                for i, name in columns:
                    if row[i]:
                        yield int(row[at]), name, _number(row[i])


def _fields(line: bytes) -> list[str]:
    """The fields of a line, none if it is damaged."""
    try:
        return next(csv.reader([line.decode(errors="replace")]), [])
    except csv.Error:
        return []


def _is_step(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


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


def _pictures(run: Path) -> list[tuple[Path, int]]:
    """The newest pictures of a run, and when they were written."""
    found = _files(run / "pictures", "*.png")
    found.sort(key=lambda file: file[1].st_mtime_ns, reverse=True)
    return [(path, s.st_mtime_ns // 1_000_000) for path, s in found[:MOST_PICTURES]]
