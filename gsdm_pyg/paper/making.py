"""Make a figure: do its jobs, collect their results, write figure, table and page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gsdm_pyg.baselines import create
from gsdm_pyg.files import atomic_writer, write_file
from gsdm_pyg.paper.data import Data, Record, round_numbers
from gsdm_pyg.paper.figure_file import CHANCE, FigureFile, Scale
from gsdm_pyg.paper.jobs import Job, TrainingJob, by_metric
from gsdm_pyg.paper.kinds import HOW_TO
from gsdm_pyg.paper.page import page, verdicts
from gsdm_pyg.paper.runs import Run, content_key
from gsdm_pyg.paper.sweep import is_done, read_result
from gsdm_pyg.paper.table import entries


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
    trained: dict[str, Record] = {}  # the training that others need, by its key
    for job in jobs_of(figure, runs):
        config = job.place.config
        labels = {
            **job.labels,
            "problem": config.problem.name,
            "key": job.key,
            "clock": config.trainer.clock,
        }
        if not HOW_TO[figure.kind].records(job):
            if isinstance(job, TrainingJob) and is_done(job, folder):
                trained[job.key] = _effort({**labels, **read_result(job, folder)})
            continue
        if is_done(job, folder):
            found = {**_chance(job, figure, chance), **read_result(job, folder)}
            if job.place.key in trained:
                found["training"] = trained[job.place.key]
            records.append(round_numbers({**labels, **found}))
        elif (*_place(labels), job.key) in kept:
            records.append(kept[*_place(labels), job.key])
        else:
            missing.append(job.name)
    return Data(figure, scale, records, missing)


def _effort(record: Record) -> Record:
    """What a training took."""
    names = ("key", "clock", "steps", "minutes", "sampling_seconds")
    return {name: record[name] for name in names if name in record}


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


def save(data: Data, path: Path) -> None:
    """Write the JSON file of a figure, which `Data.load` reads.

    It needs none of this code: the table has a mean with its interval, seeds and
    minutes per place, the verdicts say which claims hold, and the records have every
    score.
    """
    claims = [
        {
            "claim": verdict.claim.says,
            "row": verdict.claim.row,
            "than": verdict.claim.than,
            "verdict": verdict.answer,
            "advantage": verdict.advantage and asdict(verdict.advantage),
            "sentence": str(verdict),
        }
        for verdict in verdicts(data)
    ]
    content = {
        "title": data.figure.title,
        "scale": data.scale,
        "verdicts": round_numbers(claims),
        "table": entries(data),
        "missing": data.missing,
        "records": data.records,
    }
    write_file(path, json.dumps(content, allow_nan=False).encode())


def write(data: Data, stem: str, folder: Path, runs: Path) -> None:
    """Write the JSON file, the figure (PNG and PDF) and its page.

    Args:
        data: What to draw.
        stem: The name of the files, without their endings.
        folder: Where to write.
        runs: The folder of the runs, for links.
    """
    save(data, folder / f"{stem}.json")
    if data.records:
        figure = HOW_TO[data.figure.kind].draw(data)
        for kind in ("png", "pdf"):
            with atomic_writer(folder / f"{stem}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=100)
    lines = HOW_TO[data.figure.kind].table(data)
    text = page(data, lines, stem, folder, runs)
    write_file(folder / f"{stem}.md", text.encode())
