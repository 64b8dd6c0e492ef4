"""The index of a folder of figures: what was made, what holds, what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from gsdm_pyg.files import write_file
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import SETTINGS, Scale, load_figure
from gsdm_pyg.paper.page import verdicts
from gsdm_pyg.paper.table import markdown_table

INDEX = "README.md"
_TITLE = "# The paper's figures and tables"
_TEXT = """\
Each is made by `python -m gsdm_pyg reproduce` with its file in `configs/paper`, see
`docs/reproduce.md`. A claim of the paper *holds* here if a 95% interval says so, *does
not hold* if it says the opposite, and is *open* if the interval leaves both possible or
if its runs are not done."""


def write_index(folder: Path, figures: Path) -> None:
    """Write the index of the figures in a folder, unless a file of the user is there.

    Args:
        folder: The folder of the pages.
        figures: The folder of the figures' files.
    """
    path = folder / INDEX
    if path.exists() and not path.read_text().startswith(_TITLE):
        return
    made: dict[str, Data] = {}  # by the name of the files, without their endings
    missing = []
    for file in sorted(
        figures.glob("*.yaml"), key=lambda p: (p.stem[0] != "f", p.stem)
    ):
        if file.name == SETTINGS:
            continue
        figure = load_figure(file)
        stems = [f"{file.stem}-{scale}" for scale in get_args(Scale)]
        done = [stem for stem in stems if (folder / f"{stem}.json").is_file()]
        for stem in done:
            made[stem] = Data.load(folder / f"{stem}.json", figure)
        if not done:
            missing.append(f"- {figure.title} (`{file.name}`)")
    parts = [_TITLE, _TEXT]
    if made:
        parts.append(markdown_table([_line(data, stem) for stem, data in made.items()]))
        parts += [_total(made.values(), scale) for scale in get_args(Scale)]
    if missing:
        parts += ["Not run yet:", "\n".join(missing)]
    parts += [_section(data, stem, folder) for stem, data in made.items()]
    text = "\n\n".join(part for part in parts if part)
    write_file(path, f"{text}\n".encode())


def _section(data: Data, stem: str, folder: Path) -> str:
    """A figure beside what the paper shows, and what holds of it here."""
    title, scale = data.figure.title, f"{data.scale} scale"
    parts = [f"## [{title}]({stem}.md)"]
    if (folder / f"{stem}.png").is_file():
        parts.append(f"![{title}, {scale}]({stem}.png)")
    parts.append(f"**In the paper.** {data.figure.shows.strip()}")
    claims = "\n".join(f"- {verdict}" for verdict in verdicts(data))
    if claims:
        parts.append(f"**Here, at {scale}.**\n\n{claims}")
    return "\n\n".join(parts)


def _total(made: Iterable[Data], scale: Scale) -> str:
    """The hours of all runs at a scale; one that several figures share counts once."""
    seconds: dict[str, float] = {}
    clocks = set()
    for record in (r for data in made if data.scale == scale for r in data.records):
        for run in (record, record.get("training")):
            if run is not None and ("minutes" in run or "sampling_seconds" in run):
                effort = 60 * run.get("minutes", 0.0) + run.get("sampling_seconds", 0.0)
                seconds[run["key"]] = max(effort, seconds.get(run["key"], 0.0))
                clocks.add(run.get("clock"))
    if not seconds:
        return ""
    unit = "core-hours" if clocks == {"processor"} else "hours"
    limit = "; two cores have 16 in 8 hours" if scale == "laptop" else ""
    return (
        f"Training and sampling of the {len(seconds)} distinct runs at {scale} scale "
        f"that are recorded here took {sum(seconds.values()) / 3600:.2g} {unit}{limit}."
    )


def _line(data: Data, stem: str) -> dict[str, str]:
    answers = Counter(verdict.answer for verdict in verdicts(data))
    done = len(data.records)
    return {
        "figure": f"[{data.figure.title}]({stem}.md)",
        "scale": data.scale,
        "runs done": f"{done} of {done + len(data.missing)}",
        **{answer: str(answers[answer]) for answer in ("holds", "does not hold")},
        "open": str(answers["open"] + answers["not measured"]),
    }
