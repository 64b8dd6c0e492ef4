"""A run folder as it grows: losses, validation metrics and the newest pictures."""

from __future__ import annotations

import csv
import math
import time
from pathlib import Path
from typing import Any

MOST_POINTS = 600  # of a curve
MOST_PICTURES = 8
MOST_BYTES = 64 * 2**20  # of a log; a longer one is read from its end
_NO_METRICS = {"", "epoch", "step", "lr", "nodes/s"}


def read_training(run: Path | None) -> dict[str, Any]:
    """Curves, each a list of [step, value], and names of pictures, newest first."""
    log = None if run is None else _newest_log(run)
    if run is None or log is None:
        return {"run": None if run is None else str(run), "step": 0, "curves": {}}
    rows = _read_rows(log)
    return {
        "run": str(run),
        "step": max((int(row["step"]) for row in rows), default=-1) + 1,
        "age": round(time.time() - log.stat().st_mtime, 1),
        "finished": (run / "metrics.json").is_file(),
        "curves": _curves(rows),
        "pictures": [path.name for path in _pictures(run)],
    }


def find_picture(run: Path | None, name: str) -> Path | None:
    """The file of a picture of the run; nothing else of the folder can be had."""
    pictures = {} if run is None else {path.name: path for path in _pictures(run)}
    return pictures.get(name)


def _newest_log(run: Path) -> Path | None:
    """The metrics of the last start of a run: resuming it begins a new file."""
    logs = [path for path in (run / "csv").glob("*/metrics.csv") if path.is_file()]
    return max(logs, key=lambda path: path.stat().st_mtime, default=None)


def _read_rows(log: Path) -> list[dict[str, str]]:
    """The rows that are complete; the last one may be in the middle of writing."""
    with open(log, "rb") as file:
        head = file.readline().decode(errors="replace")
        size = log.stat().st_size
        if size > MOST_BYTES:
            file.seek(size - MOST_BYTES)
            file.readline()
        body = file.read().decode(errors="replace")
    complete = body[: body.rfind("\n") + 1]
    rows = csv.DictReader([head, *complete.splitlines()])
    return [row for row in rows if (row.get("step") or "").isdigit()]


def _curves(rows: list[dict[str, str]]) -> dict[str, list[list[float]]]:
    """Each column with numbers as points, the loss first; long curves are thinned."""
    curves: dict[str, list[list[float]]] = {"loss": []}
    for row in rows:
        for name, text in row.items():
            if name is None or name in _NO_METRICS or not text:
                continue
            value = _number(text)
            if value is not None:
                curves.setdefault(name, []).append([int(row["step"]), value])
    return {name: _thin(points) for name, points in curves.items() if points}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _thin(points: list[list[float]]) -> list[list[float]]:
    """At most `MOST_POINTS` means of neighboring points."""
    size = -(-len(points) // MOST_POINTS)
    if size == 1:
        return points
    chunks = [points[i : i + size] for i in range(0, len(points), size)]
    return [
        [chunk[-1][0], sum(value for _, value in chunk) / len(chunk)]
        for chunk in chunks
    ]


def _pictures(run: Path) -> list[Path]:
    """The newest pictures of a run."""
    found = [path for path in (run / "pictures").glob("*.png") if path.is_file()]
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    return newest[:MOST_PICTURES]
