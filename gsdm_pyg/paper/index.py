"""The index of a folder of figures: what was made, what holds, what is left."""

from __future__ import annotations

from collections import Counter
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
    lines, missing = [], []
    for file in sorted(
        figures.glob("*.yaml"), key=lambda p: (p.stem[0] != "f", p.stem)
    ):
        if file.name == SETTINGS:
            continue
        figure = load_figure(file)
        for scale in get_args(Scale):
            stem = f"{file.stem}-{scale}"
            if (folder / f"{stem}.json").is_file():
                data = Data.load(folder / f"{stem}.json", figure)
                lines.append(_line(data, stem))
        if not any(f"({file.stem}-" in line["figure"] for line in lines):
            missing.append(f"- {figure.title} (`{file.name}`)")
    parts = [_TITLE, _TEXT]
    if lines:
        parts.append(markdown_table(lines))
    if missing:
        parts += ["Not run yet:", "\n".join(missing)]
    write_file(path, ("\n\n".join(parts) + "\n").encode())


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
