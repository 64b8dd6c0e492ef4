"""Make a figure: do its jobs, collect their results, write figure, table and page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsdm_pyg.files import atomic_writer, write_file
from gsdm_pyg.paper.data import Data, Record, round_numbers
from gsdm_pyg.paper.figure_file import FigureFile, Scale
from gsdm_pyg.paper.jobs import Job
from gsdm_pyg.paper.kinds import HOW_TO
from gsdm_pyg.paper.page import page
from gsdm_pyg.paper.runs import Run
from gsdm_pyg.paper.sweep import is_done, read_result


def jobs_of(figure: FigureFile, runs: Sequence[Run]) -> list[Job]:
    """The jobs of some runs of a figure."""
    return HOW_TO[figure.kind].jobs(figure, runs)


def collect(
    figure: FigureFile, runs: Sequence[Run], scale: Scale, folder: Path
) -> Data:
    """The results of all jobs that are done, as records.

    Args:
        figure: The file of the figure.
        runs: All of its runs at the scale.
        scale: The scale.
        folder: The folder of the runs.
    """
    problems = {run.panel: run.config.problem.name for run in runs}
    records: list[Record] = []
    missing: list[str] = []
    for job in jobs_of(figure, runs):
        if not HOW_TO[figure.kind].records(job):
            continue
        if not is_done(job, folder):
            missing.append(job.name)
            continue
        panel = job.labels["panel"]
        problem = problems.get(panel, next(iter(problems.values())))
        labels = {**job.labels, "problem": problem, "key": job.key}
        records.append(round_numbers({**labels, **read_result(job, folder)}))
    return Data(figure, scale, records, missing)


def stem_of(path: Path, scale: Scale) -> str:
    """The name of the files of a figure, without their endings."""
    return f"{path.stem}-{scale}"


def write(data: Data, stem: str, folder: Path, runs: Path) -> None:
    """Write the figure (PNG and PDF) and its page; JSON comes first, see `Data.save`.

    Args:
        data: What to draw.
        stem: The name of the files, without their endings.
        folder: Where to write.
        runs: The folder of the runs, for links.
    """
    if data.records:
        figure = HOW_TO[data.figure.kind].draw(data)
        for kind in ("png", "pdf"):
            with atomic_writer(folder / f"{stem}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=100)
    lines = HOW_TO[data.figure.kind].table(data)
    text = page(data, lines, stem, folder, runs)
    write_file(folder / f"{stem}.md", text.encode())
