"""`calibrate`: a model folder -> whether its samples are the posterior, on one page."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, get_args

from gsdm_pyg.choices import Observe
from gsdm_pyg.cli.arguments import (
    add_model_arguments,
    load_model,
    read_sizes,
    sampler_arguments,
)
from gsdm_pyg.diagnostics.calibrating import NUM_INSTANCES, NUM_SAMPLES, calibrate
from gsdm_pyg.diagnostics.calibration_page import calibration_page
from gsdm_pyg.diagnostics.chunks import SETTINGS
from gsdm_pyg.files import write_folder
from gsdm_pyg.problem import Problem

PAGE, RESULT = "report.html", "calibration.json"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("calibrate", help=run.__doc__)
    add_model_arguments(parser)
    parser.add_argument(
        "--at",
        nargs="+",
        action="append",
        default=[],
        metavar="SIZE",
        help="sizes such as m=8 n=4 to calibrate at; repeat it for several",
    )
    parser.add_argument("--instances", type=int, default=NUM_INSTANCES)
    parser.add_argument(
        "--num-samples", type=int, default=NUM_SAMPLES, help="of each instance"
    )
    parser.add_argument(
        "--pattern",
        action="append",
        choices=get_args(Observe),
        help="what is known; repeat it for both. Default: what training saw",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("calibration"),
        help="folder of the page; the same command goes on with an interrupted run",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Test whether samples of a model folder are the posterior, and write a page."""
    model, problem = load_model(options)
    begun = (options.out / SETTINGS).is_file()
    try:
        result = calibrate(
            model,
            _problems(problem, options.at),
            num_instances=options.instances,
            num_samples=options.num_samples,
            patterns=options.pattern,
            seed=options.seed,
            folder=options.out,
            **sampler_arguments(options),
        )
    except KeyboardInterrupt:
        print(
            f"What is finished is in {options.out}: the same command goes on with it.",
            file=sys.stderr,
        )
        raise
    settings = json.loads((options.out / SETTINGS).read_text())
    found = {"settings": settings, **result.to_dict()}
    contents = {
        RESULT: json.dumps(found, indent=2).encode() + b"\n",
        PAGE: calibration_page(result, settings).encode(),
    }
    write_folder(options.out, contents)
    print(f"{result}\n\n{options.out / PAGE}{' (went on)' if begun else ''}")


def _problems(problem: Problem, places: list[list[str]]) -> list[Problem]:
    """The problem at each of several sizes; what `--at` leaves out stays."""
    if not places:
        return [problem]
    return [
        dataclasses.replace(problem, **read_sizes(type(problem), sizes))  # type: ignore[type-var]
        for sizes in places
    ]
