"""`report`: a model folder -> quality against evaluations, and its default sampler."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

from gsdm_pyg.cli.arguments import (
    add_folder_arguments,
    add_overwrite_argument,
    load_model,
)
from gsdm_pyg.energy import ENERGY_SCORE, EXPLANATION
from gsdm_pyg.evaluation import label
from gsdm_pyg.model_folder import WEIGHTS, find, store_sampler
from gsdm_pyg.report import (
    EVALUATIONS,
    Report,
    candidates,
    choose_metric,
    has_energy_score,
    measure,
)
from gsdm_pyg.report_folder import ReportFolder, report_table


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("report", help=run.__doc__)
    add_folder_arguments(parser)
    ladder = " ".join(map(str, EVALUATIONS))
    parser.add_argument(
        "--evaluations",
        type=int,
        nargs="+",
        help=f"of the network, to compare; default: {ladder}",
    )
    parser.add_argument("--instances", type=int, default=64)
    parser.add_argument(
        "--metric",
        help="default: the first of the problem's best_values, or the energy score",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="a folder for report.json and report.png; an interrupted report goes on",
    )
    parser.add_argument(
        "--no-store", action="store_true", help="leave the model folder as it is"
    )
    add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Compare all solvers by evaluations, and store the cheapest good setting."""
    if options.instances < 2:
        raise ValueError(
            "--instances must be at least 2, for a standard error "
            f"(got {options.instances})."
        )
    folder = find(options.model)
    if not options.no_store and not Path(options.model).is_dir():
        raise ValueError(
            "A model of the Hub cannot be changed here: pass --no-store, or save it to "
            f"a folder first (got {options.model!r})."
        )
    model, problem = load_model(options)
    own = model.sampler
    samplers = candidates(own, model.settings.num_timesteps, options.evaluations)
    metric = choose_metric(problem, options.metric)
    out = None
    if options.out is not None:
        described = {
            "problem": label(problem),
            "weights": hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
            "instances": options.instances,
            "seed": options.seed,
        }
        if has_energy_score(problem):
            described["answers"] = 2  # of each instance
        out = ReportFolder(options.out, described, options.overwrite)
    scores = measure(
        model,
        problem,
        samplers,
        options.instances,
        seed=options.seed,
        finished=out.finished if out else None,
        keep=out.keep if out else None,
    )
    report = Report(problem, metric, scores)
    if out is not None:
        out.write(report)
    chosen, best = report.chosen, report.best
    print(f"{label(problem)}, {options.instances} instances, seed {options.seed}\n")
    print(report_table(report))
    if metric == ENERGY_SCORE:
        print(f"\nThe {metric} is {EXPLANATION}.")
    print(f"\nbest: {best.sampler}, {metric} {best.value:.4f} ± {best.error:.4f}")
    print(f"cheapest within one standard error of it: {chosen.sampler}")
    if options.no_store:
        return
    if chosen.sampler == own:
        print(f"the default of {options.model} stays as it is")
        return
    store_sampler(folder, chosen.sampler)
    print(f"the default of {options.model} was {own} and is now {chosen.sampler}")
