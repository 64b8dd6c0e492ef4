"""`reproduce`: the file of a figure -> its runs, the figure, its table and a page."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any, get_args

from gsdm_pyg.paper.budget import Expected, expect, hours_in_lanes
from gsdm_pyg.paper.data import Data, Record
from gsdm_pyg.paper.figure_file import FigureFile, Scale, load_figure
from gsdm_pyg.paper.index import write_index
from gsdm_pyg.paper.jobs import Job, Stopped
from gsdm_pyg.paper.making import collect, jobs_of, stem_of, write
from gsdm_pyg.paper.page import verdicts, wrap
from gsdm_pyg.paper.runs import load_runs
from gsdm_pyg.paper.sweep import is_done, sweep
from gsdm_pyg.training.memory import keep_freed_memory


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("reproduce", help=run.__doc__)
    parser.add_argument(
        "figures", nargs="+", help="files such as configs/paper/figure5.yaml"
    )
    add_scale_argument(parser)
    parser.add_argument(
        "--row",
        action="append",
        default=[],
        help="only these runs, such as 'GSDM w/ AE' or 'GSDM w/ EE; Sorting; 20'",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a setting of all runs, such as trainer.accelerator=cpu",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/paper"), help="default: %(default)s"
    )
    parser.add_argument("--runs", type=Path, help="their folder; default: OUT/runs")
    parser.add_argument(
        "--lanes",
        type=int,
        default=1,
        help="runs at a time, which share the cores; default: one on all of them",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--forecast", action="store_true", help="print what is left to do, and stop"
    )
    what.add_argument(
        "--redraw",
        action="store_true",
        help="draw again from the JSON file in OUT, without any run",
    )
    parser.set_defaults(run=run, settings=[])


def add_scale_argument(parser: argparse.ArgumentParser) -> None:
    """`--scale`, for commands that read the file of a figure."""
    parser.add_argument(
        "--scale",
        choices=get_args(Scale),
        default="laptop",
        help="two cores, or the paper's sizes and settings; default: %(default)s",
    )


def run(options: argparse.Namespace) -> None:
    """Make figures of the paper: train what is missing, draw, and judge the claims."""
    if options.lanes < 1:
        raise ValueError(f"--lanes must be at least 1 (got {options.lanes}).")
    if options.settings:  # argparse leaves what stands behind the options here
        options.figures += options.settings
    folder = options.runs or options.out / "runs"
    expected: list[Expected] = []
    done = True
    keep_freed_memory()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    for path in map(Path, options.figures):
        if options.redraw:
            stem = stem_of(path, options.scale)
            data = Data.load(options.out / f"{stem}.json", load_figure(path))
            _write(data, stem, options.out, folder)
            write_index(options.out, path.parent)
            continue
        figure, runs = load_runs(path, options.scale, options.row, options.overrides)
        jobs = jobs_of(figure, runs)
        if options.forecast:
            expected += _print_forecast(path, jobs, folder)
            continue
        try:
            sweep(jobs, folder, options.lanes)
        except Stopped as stopped:
            print(f"{stopped.signal.name} stopped the sweep; the same command goes on")
            sys.exit(128 + stopped.signal)
        done &= all(is_done(job, folder) for job in jobs)
        _, all_runs = load_runs(path, options.scale, (), options.overrides)
        stem = stem_of(path, options.scale)
        file = options.out / f"{stem}.json"
        data = collect(figure, all_runs, options.scale, folder, _earlier(file, figure))
        _write(data, stem, options.out, folder)
        write_index(options.out, path.parent)
    if options.forecast:
        _print_total(expected, options.lanes)
    elif not done:
        sys.exit(
            "error: Some runs failed, see above; the same command tries them again."
        )


def _earlier(file: Path, figure: FigureFile) -> list[Record]:
    """The records of a figure that was made before, if it can be read."""
    try:
        return Data.load(file, figure).records
    except ValueError:
        return []


def _write(data: Data, stem: str, out: Path, folder: Path) -> None:
    write(data, stem, out, folder)
    print(f"{data.figure.title}: {out / stem}.md")
    for verdict in verdicts(data):
        print(wrap(f"- {verdict}"))


def _print_forecast(path: Path, jobs: list[Job], folder: Path) -> list[Expected]:
    """The jobs of one figure that are left, and their minutes."""
    found = expect(jobs, folder)
    print(f"{path}: {len(found)} to do, {sum(is_done(j, folder) for j in jobs)} done")
    for one in found:
        unit = "core-min" if one.clock == "processor" else "min"
        minutes = "some minutes" if one.minutes is None else f"{one.minutes:.1f} {unit}"
        steps = "" if one.steps is None else f", about {one.steps:,.0f} steps"
        print(f"  {one.name}: {minutes}{steps}", flush=True)
    return found


def _print_total(expected: list[Expected], lanes: int) -> None:
    """The sum over figures; a run that several of them share counts once."""
    distinct = {one.key: one for one in expected}.values()
    hours = hours_in_lanes(distinct, lanes, os.cpu_count() or 1)
    unknown = sum(one.minutes is None for one in distinct)
    more = f", and {unknown} of unknown length" if unknown else ""
    print(f"in all: {hours:.1f} hours in {lanes} lanes{more}")
