"""Make a figure: do its jobs, collect their results, write figure, table and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gsdm_pyg.baselines import create
from gsdm_pyg.files import atomic_writer, write_file
from gsdm_pyg.paper.data import Data, Record, round_numbers
from gsdm_pyg.paper.figure_file import CHANCE, FigureFile, Scale
from gsdm_pyg.paper.jobs import Job, by_metric
from gsdm_pyg.paper.kinds import HOW_TO
from gsdm_pyg.paper.page import page
from gsdm_pyg.paper.runs import Run, content_key
from gsdm_pyg.paper.sweep import is_done, read_result


def jobs_of(figure: FigureFile, runs: Sequence[Run]) -> list[Job]:
    """The jobs of some runs of a figure."""
    return HOW_TO[figure.kind].jobs(figure, runs)


def collect(
    figure: FigureFile,
    runs: Sequence[Run],
    scale: Scale,
    folder: Path,
    earlier: Sequence[Record] = (),
) -> Data:
    """The results of all jobs that are done, as records.

    Args:
        figure: The file of the figure.
        runs: All of its runs at the scale.
        scale: The scale.
        folder: The folder of the runs.
        earlier: Records of the figure that were made before. Those of jobs whose
            results are not in the folder are kept.
    """
    kept = {(*_place(record), record["key"]): record for record in earlier}
    records: list[Record] = []
    missing: list[str] = []
    chance: dict[str, Any] = {}
    for job in jobs_of(figure, runs):
        if not HOW_TO[figure.kind].records(job):
            continue
        labels = {
            **job.labels,
            "problem": job.place.config.problem.name,
            "key": job.key,
        }
        if is_done(job, folder):
            found = {**_chance(job, figure, chance), **read_result(job, folder)}
            records.append(round_numbers({**labels, **found}))
        elif (*_place(labels), job.key) in kept:
            records.append(kept[*_place(labels), job.key])
        else:
            missing.append(job.name)
    return Data(figure, scale, records, missing)


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record[label] for label in ("panel", "point", "row", "seed"))


def _chance(job: Job, figure: FigureFile, known: dict[str, Any]) -> dict[str, Any]:
    """The scores of answers that ignore what is given, each computed once."""
    problem, config = job.scored, job.place.config
    if problem is None:
        return {}
    name, num = figure.panels[job.place.panel].chance, config.evaluation.final_instances
    seed, observe = config.seed, config.model.observe
    key = content_key(name, [str(problem), num, seed, observe])
    if key not in known:
        found = create(name).evaluate(problem, num, seed=seed, observe=observe)
        known[key] = by_metric(found.scores)
    return {CHANCE: known[key]}


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
