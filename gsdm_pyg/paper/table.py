"""The numbers of a figure: an entry per place for its JSON, lines for its table."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gsdm_pyg.paper.data import Data, Record, round_numbers
from gsdm_pyg.paper.figure_file import CHANCE
from gsdm_pyg.paper.statistics import Interval

Entry = dict[str, Any]  # of a place, as JSON has it
Cells = Mapping[str, str]  # of a line, by the heads of their columns


def entries(data: Data) -> list[Entry]:
    """One entry per panel, point and row: what was found there, and the effort.

    Chance is that of the row's own instances. Where there is no number it is None, as
    for the ends of an interval that has none.
    """
    found = []
    for panel in data.panels:
        for point in data.points(panel):
            for row in data.rows(panel):
                interval = data.interval(panel, point, row)
                if interval is not None:
                    found.append(_entry(data, panel, point, row, interval))
    return found


def _entry(data: Data, panel: str, point: str, row: str, interval: Interval) -> Entry:
    records = data.of(panel, point, row)
    chance = data.chance_interval(panel, point, row)
    values: Entry = {
        "panel": panel,
        "point": point,
        "row": row,
        "metric": data.shown(panel),
        "mean": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "lower_bound": data.is_lower_bound(panel, point, row),
        "chance": None if chance is None else chance.mean,
        "seeds": [record["seed"] for record in records],
        "minutes": _mean(record.get("minutes") for record in records),
        "clock": records[0].get("clock"),
        "steps": _mean(record.get("steps") for record in records),
        "seconds_per_answer": _mean(seconds_per_answer(record) for record in records),
        "peak_gib": _mean(_peak(record) for record in records),
    }
    rounded: Entry = round_numbers(values)
    return rounded


def metric_table(data: Data) -> list[Cells]:
    """One line per panel, point and row: the metric, its interval, seeds, minutes."""
    lines: list[Cells] = []
    found = entries(data)
    for number, entry in enumerate(found):
        place = {"panel": entry["panel"], "point": entry["point"]}
        lines.append(
            {
                **place,
                "row": entry["row"],
                "metric": entry["metric"],
                "mean": f"{'> ' * entry['lower_bound']}{_text(entry['mean'])}",
                "95% interval": _ends(entry),
                "seeds": " ".join(map(str, entry["seeds"])),
                data.minutes: _text(entry["minutes"]),
                "steps": _text(entry["steps"]),
            }
        )
        following = found[number + 1] if number + 1 < len(found) else {}
        if any(following.get(name) != place[name] for name in place):
            chance = data.chance_interval(entry["panel"], entry["point"])
            if chance is not None:
                ends = round_numbers({"low": chance.low, "high": chance.high})
                own = {
                    **place,
                    "row": CHANCE,
                    "metric": entry["metric"],
                    "mean": _text(chance.mean),
                    "95% interval": _ends(ends),
                }
                lines.append({name: own.get(name, "") for name in lines[-1]})
    return without_empty(lines)


def heatmap_table(data: Data) -> list[Cells]:
    """One line per row and cell: the metric, chance, the time and the memory."""
    order = list(data.figure.rows)

    def place(entry: Entry) -> tuple[Any, ...]:
        numbers = re.findall(r"\d+", f"{entry['panel']} {entry['point']}")
        return order.index(entry["row"]), *map(int, numbers)

    found = sorted(entries(data), key=place)
    return without_empty(
        [
            {
                "row": entry["row"],
                "panel": entry["panel"],
                "point": entry["point"],
                entry["metric"]: _text(entry["mean"]),
                "95% interval": _ends(entry),
                CHANCE: _text(entry["chance"]),
                f"{data.seconds} per answer": _text(entry["seconds_per_answer"]),
                "peak GiB": _text(entry["peak_gib"]),
                "seeds": " ".join(map(str, entry["seeds"])),
            }
            for entry in found
        ]
    )


def seconds_per_answer(record: Record) -> float | None:
    """The seconds of sampling one answer, where they were measured."""
    seconds, scores = record.get("sampling_seconds"), record.get("scores", {})
    answers = record.get("answers") or max(map(len, scores.values()), default=0)
    return seconds / answers if seconds and answers else None


def without_empty(lines: Sequence[Cells]) -> list[Cells]:
    """Lines without the columns that are empty in all of them."""
    names = dict.fromkeys(name for line in lines for name in line)
    kept = [name for name in names if any(line.get(name) for line in lines)]
    return [{name: line.get(name, "") for name in kept} for line in lines]


def markdown_table(lines: Sequence[Cells]) -> str:
    """Lines with the same columns as a table."""
    head = list(lines[0])
    body = [
        head,
        ["---"] * len(head),
        *([line[name] for name in head] for line in lines),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in body)


def _peak(record: Record) -> float | None:
    peaks: list[float | None] = record.get("scores", {}).get("peak_gib", [])
    return _mean(peaks)


def _ends(entry: Entry) -> str:
    """The interval; nothing where an end is missing, as for a single number."""
    if entry["low"] is None or entry["high"] is None:
        return ""
    return f"{_text(entry['low'])} to {_text(entry['high'])}"


def _text(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:,.4g}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None
