"""How many instances `GSDM.solve` solves, and at which cost, beside other methods.

    python -m benchmarks.solve [--task sudoku-0] [--instances 100] [--out results.json]

Every claim of a solution is checked by code apart from the problem's own, and a wrong
one is an error. "uniform" is the same with a network that holds all classes equally
likely: what tries and the rules of Sudoku achieve without it. "propagation" uses the
rules alone and never guesses. "nmf" and "alternation" factorize, and "polish" applies
the problem's own `polish` to draws from the prior, with as many restarts as fit into
the model's core-seconds; their evaluations are restarts. "within 0, 1, ..." is the
share that is solved within so many evaluations; "median, mean" are evaluations, too.

`--puzzles FILE` measures Sudokus of your own, such as a public list of puzzles with 17
clues: lines of 81 characters. Each must have one solution, which is checked first.

Report with the seed 0, the default. Seeds of 1000 and above are for development: what
is tuned on an instance does not count on it. An interrupted run with `--out` goes on
where it stopped. Name another file once the code has changed, since only the options
of a result are compared.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from benchmarks.sbibm import read_settings
from benchmarks.solve_methods import Run, timed
from benchmarks.solve_statistics import cost_curve, solved_within
from benchmarks.solve_tasks import (
    TASKS,
    GivenSudoku,
    Instance,
    Task,
    read_unique_puzzles,
)
from gsdm_pyg.files import write_file
from gsdm_pyg.seeding import as_seed, keyed_generator
from gsdm_pyg.settings import SamplerSettings
from gsdm_pyg.training.memory import keep_freed_memory

Row = dict[str, Any]

PART = 250  # instances between two results that are written to --out
COSTS = (0, 1, 2, 5, 10, 20, 50)  # evaluations within which to count what is solved
WITHIN = f"within {', '.join(map(str, COSTS))}"
HEADER = f"""\
| task | method | instances | solved | {WITHIN} | median, mean | s | core-s | more |
| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- |"""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    keep_freed_memory()  # as the train command does
    parts: list[Row] = []
    if options.out is not None and options.out.exists():
        parts = json.loads(options.out.read_bytes())["parts"]
    results: list[Row] = []
    for name, task in options.tasks.items():
        used = of_task(task, options)
        ours: list[Row] = []
        for part in measured(name, task, used, parts):
            ours.append(part)
            if part not in parts:
                parts.append(part)
                save(options.out, parts, results)
        results += summaries(task, ours)
        save(options.out, parts, results)
        print(f"\n{table(results)}", flush=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Options, checked before any work; `solve` has the keywords of `GSDM.solve`."""
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.solve",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--task", action="append", choices=TASKS, help="repeatable; default: all")
    add("--puzzles", type=Path, metavar="FILE", help="Sudokus to measure, not --task")
    add("--instances", type=_count, help="default: as many as are reported")
    add("--seed", type=int, default=0, help="1000 and above: for development")
    add("--tries", type=_count, help="of each instance; default: that of solve")
    add("--max-evaluations", type=_count, help="of an instance; default: as above")
    add("--search", choices=("commit", "sample"), help="`method` of solve")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the sampler; repeatable",
    )
    add("--model", metavar="FOLDER", help="instead of the one that the task names")
    add("--model-only", action="store_true", help="without the other methods")
    add("--out", type=Path, help="a JSON file of results, to which those of a run add")
    options = parser.parse_args(arguments)
    try:
        settings = read_settings(options.set)
        SamplerSettings().updated(settings)
        options.tasks = _tasks(options)
        if options.model is not None and len(options.tasks) != 1:
            raise ValueError("--model is for one task: add --task (got several).")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    search = {
        "method": options.search,
        "tries": options.tries,
        "max_evaluations": options.max_evaluations,
    }
    given = {name: value for name, value in search.items() if value is not None}
    options.solve = {**given, **settings}
    return options


def _tasks(options: argparse.Namespace) -> dict[str, Task]:
    """The tasks to measure, by name."""
    if options.puzzles is None:
        return {name: TASKS[name] for name in options.task or TASKS}
    if options.task:
        raise ValueError("--puzzles is a task: give it or --task (got both).")
    text = options.puzzles.read_text()
    puzzles = read_unique_puzzles(text)
    if (options.instances or 1) > len(puzzles):
        raise ValueError(
            f"--instances must be at most the number of puzzles, {len(puzzles)} "
            f"(got {options.instances})."
        )
    digest = zlib.crc32(puzzles.tobytes())  # another file is another task
    return {f"{options.puzzles.stem}-{digest:08x}": GivenSudoku(puzzles)}


def _count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"needs a number of at least 1 (got {text}).")
    return int(text)


def of_task(task: Task, options: argparse.Namespace) -> Row:
    """The options that a result depends on."""
    return {
        "instances": options.instances or task.num,
        "seed": options.seed,
        "solve": options.solve,
        "model": options.model or task.folder,
        "methods": list(task.methods[:1] if options.model_only else task.methods),
        "threads": torch.get_num_threads(),
    }


def measured(name: str, task: Task, used: Row, done: Sequence[Row]) -> Iterator[Row]:
    """The results of each part of the instances, taken from `done` where they are."""
    shared = {key: value for key, value in used.items() if key != "methods"}
    for first in range(0, used["instances"], PART):
        num = min(PART, used["instances"] - first)
        instances: list[Instance] = []
        seconds = 0.0  # of all cores, for the model
        for method in used["methods"]:
            key = {"task": name, "method": method, "first": first, "options": shared}
            part = next((p for p in done if key.items() <= p.items()), None)
            if part is None:
                source = keyed_generator(f"benchmark {name}", used["seed"], first)
                instances = instances or task.part(first, num, source)
                seed = as_seed(
                    keyed_generator(f"solve {name} {method}", used["seed"], first)
                )
                run = Run(used["model"], used["solve"], seed, seconds / num)
                answers, took = timed(method, task, instances, run)
                pairs = zip(instances, answers, strict=True)
                records = [task.record(instance, answer) for instance, answer in pairs]
                part = {**key, **took, "records": records}
            if method == "model":
                seconds = part["core_seconds"]
            yield part


def summaries(task: Task, parts: Sequence[Row]) -> list[Row]:
    """One result per method, over all parts."""
    rows = []
    for method in dict.fromkeys(part["method"] for part in parts):
        chosen = [part for part in parts if part["method"] == method]
        records = [record for part in chosen for record in part["records"]]
        solved = [record["solved"] for record in records]
        evaluations = [record["evaluations"] for record in records]
        rows.append(
            {
                "task": chosen[0]["task"],
                "method": method,
                "options": chosen[0]["options"],
                "instances": len(records),
                "solved": fmean(solved),
                "median": median(evaluations),
                "mean": fmean(evaluations),
                "seconds": sum(part["seconds"] for part in chosen),
                "core_seconds": sum(part["core_seconds"] for part in chosen),
                "details": task.details(records),
                "curve": cost_curve(solved, evaluations),
            }
        )
    return rows


def save(out: Path | None, parts: Sequence[Row], results: Sequence[Row]) -> None:
    """Write all parts, and the results of this run so far."""
    if out is not None:
        content = {"parts": parts, "results": results}
        write_file(out, json.dumps(content, indent=1).encode())


def table(rows: Sequence[Row]) -> str:
    """Results as Markdown."""
    lines = [HEADER]
    for row in rows:
        details = (f"{name} {value:.4g}" for name, value in row["details"].items())
        cells = [
            row["task"],
            row["method"],
            f"{row['instances']:,}",
            f"{row['solved']:.1%}",
            ", ".join(f"{share:.3g}" for share in solved_within(row["curve"], COSTS)),
            f"{row['median']:,.0f}, {row['mean']:,.0f}",
            f"{row['seconds']:.1f}",
            f"{row['core_seconds']:.1f}",
            ", ".join(details),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
