"""The page of a figure: what the paper shows, what is found here, and the numbers."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

from gsdm_pyg.paper.claims import Verdict, judge
from gsdm_pyg.paper.data import Data, Record
from gsdm_pyg.paper.figure_file import CHANCE
from gsdm_pyg.paper.table import Cells, markdown_table


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
        parts.append(_about(data, lines, stem))
        parts.append(markdown_table(lines))
    parts.append(_links(data.records, folder, runs))
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(data: Data, lines: Sequence[Cells], stem: str) -> str:
    """What the columns of the table are."""
    columns = lines[0]
    said = []
    if "95% interval" in columns:
        said.append(
            "Means with 95% intervals of Student's t over seeds, or over instances "
            "where there is one seed."
        )
    if data.figure.kind == "complexity":
        said.append(
            "Exponents are slopes of lines through logarithms; the interval is over "
            "rounds of measurements."
        )
    if any(CHANCE in (*line, line.get("row")) for line in lines):
        said.append("Chance is answers that ignore what is given.")
    if data.minutes in columns:
        untrained = any("steps" not in record for record in data.records)
        answers = ", or of all answers of a method without training" * untrained
        said.append(
            f"{data.minutes.capitalize()} are those of training{answers}; they and the "
            "steps are means over seeds."
        )
    if any("core-" in name for name in columns):
        said.append(
            "Times of cores count what the threads of a run compute, so other work on "
            "the machine takes nothing from it."
        )
    if any(line.get("mean", "").startswith(">") for line in lines):
        said.append(
            "A run that never got there counts as the minutes of the longest run, so "
            "its mean is a lower bound, with > in the table and a hollow marker in "
            "the figure."
        )
    if data.figure.kind == "heatmap":
        said.append(
            f"A cell of the figure shows the {data.metric(data.panels[0])} and the "
            f"{data.seconds} of an answer; its color scale ends at chance."
        )
    said.append(
        f"The same in JSON, with every score: [{stem}.json]({stem}.json); the figure "
        f"as [PDF]({stem}.pdf)."
    )
    return " ".join(said)


def verdicts(data: Data) -> list[Verdict]:
    """What the records say about each claim."""
    return [judge(claim, data) for claim in data.figure.claims]


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


def _shorten(names: Sequence[str], most: int = 40) -> list[str]:
    """Some of many names."""
    if len(names) <= most:
        return list(names)
    return [*names[:most], f"and {len(names) - most} more"]


def wrap(text: str) -> str:
    """A text in lines of 79 characters, for a terminal."""
    return textwrap.fill(text, 79, subsequent_indent="  ")
