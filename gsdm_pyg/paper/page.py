"""The page of a figure: what the paper shows, what is found here, and the numbers."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gsdm_pyg.paper.claims import Verdict, judge
from gsdm_pyg.paper.data import Data, Record
from gsdm_pyg.paper.figure_file import CHANCE

Cells = Mapping[str, str]


def metric_table(data: Data) -> list[dict[str, str]]:
    """One entry per panel, point and row: the metric, its interval, seeds, minutes."""
    lines = []
    for panel in data.panels:
        for point in data.points(panel):
            intervals = {
                row: data.interval(panel, point, row) for row in data.rows(panel)
            }
            intervals[CHANCE] = data.chance_interval(panel, point)
            for row, interval in intervals.items():
                if interval is None:
                    continue
                records = data.of(panel, point, row)
                lines.append(
                    {
                        "panel": panel,
                        "point": point,
                        "row": row,
                        "metric": data.shown(panel),
                        "mean": f"{interval.mean:.4g}",
                        "95% interval": f"{interval.low:.4g} to {interval.high:.4g}",
                        "seeds": " ".join(str(r["seed"]) for r in records),
                        "minutes": _mean(r.get("minutes") for r in records),
                        "steps": _mean(r.get("steps") for r in records),
                    }
                )
    return [_without_empty(line, lines) for line in lines]


def page(
    data: Data, lines: Sequence[Cells], stem: str, folder: Path, runs: Path
) -> str:
    """The page in Markdown.

    Args:
        data: What to show.
        lines: The entries of its table.
        stem: The name of the figure's files without their ending.
        folder: Where the page will be.
        runs: The folder of the runs.
    """
    figure = data.figure
    parts = [
        f"# {figure.title}",
        f"Scale: {data.scale}. Made by `python -m gsdm_pyg reproduce "
        f"configs/paper/{stem.rpartition('-')[0]}.yaml --scale {data.scale}`.",
        f"![{figure.title}]({stem}.png)",
        f"**In the paper.** {figure.shows.strip()}",
        "**Here.**\n\n" + "\n".join(f"- {verdict}" for verdict in verdicts(data)),
    ]
    if data.missing:
        missing = "; ".join(_shorten(data.missing))
        parts.append(f"**Not run yet** ({len(data.missing)}): {missing}.")
    if lines:
        parts.append(
            "Means with 95% intervals (of Student's t over seeds, or over instances "
            "where there is one seed); chance is answers that ignore what is given; "
            "minutes and steps are those of training, a mean over seeds. The same in "
            "JSON, with every score: "
            f"[{stem}.json]({stem}.json); the figure as [PDF]({stem}.pdf)."
        )
        parts.append(markdown_table(lines))
    parts.append(_links(data.records, folder, runs))
    return "\n\n".join(part for part in parts if part) + "\n"


def verdicts(data: Data) -> list[Verdict]:
    """What the records say about each claim."""
    return [judge(claim, data) for claim in data.figure.claims]


def markdown_table(lines: Sequence[Cells]) -> str:
    """Entries with the same keys as a table."""
    head = list(lines[0])
    body = [
        head,
        ["---"] * len(head),
        *([line[name] for name in head] for line in lines),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in body)


def _links(records: Sequence[Record], folder: Path, runs: Path) -> str:
    """The runs: links to their folders below the page's, and names of others."""
    names = {record["key"]: _place(record) for record in records}
    if not names:
        return ""
    inside = runs.resolve().is_relative_to(folder.resolve())
    listed = []
    for key, place in names.items():
        linked = inside and (runs / key).is_dir()
        target = os.path.relpath(runs / key, folder)
        listed.append(f"[{place}]({target})" if linked else f"{place}: {key}")
    head = "<details><summary>Runs and their folders</summary>"
    return "\n".join([head, "", *(f"- {text}" for text in listed), "", "</details>"])


def _place(record: Record) -> str:
    parts = (record["row"], record["panel"], record["point"], f"seed {record['seed']}")
    return "; ".join(part for part in parts if part)


def _mean(values: Iterable[Any]) -> str:
    known = [float(value) for value in values if value is not None]
    return f"{sum(known) / len(known):,.4g}" if known else ""


def _without_empty(line: dict[str, str], lines: Sequence[Cells]) -> dict[str, str]:
    """A line without the columns that are empty in all lines."""
    return {n: text for n, text in line.items() if any(other[n] for other in lines)}


def _shorten(names: Sequence[str], most: int = 40) -> list[str]:
    """Some of many names."""
    if len(names) <= most:
        return list(names)
    return [*names[:most], f"and {len(names) - most} more"]


def wrap(text: str) -> str:
    """A text in lines of 79 characters, for a terminal."""
    return textwrap.fill(text, 79, subsequent_indent="  ")
