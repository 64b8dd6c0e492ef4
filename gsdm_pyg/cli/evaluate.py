"""`evaluate`: a model folder -> metrics on fresh instances."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gsdm_pyg.cli.arguments import (
    add_model_arguments,
    add_overwrite_argument,
    check_out,
    load_model,
    sampler_arguments,
)
from gsdm_pyg.evaluation import EvaluationInterrupted, as_json, label, prior_metrics
from gsdm_pyg.files import check_new_folder, write_file


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help=run.__doc__)
    add_model_arguments(parser)
    parser.add_argument("--instances", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the metrics as JSON")
    parser.add_argument("--pictures", type=Path, help="draw answers into a folder")
    add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the metrics of a model folder on fresh instances, beside the prior's."""
    if options.out is not None:
        check_out(options, ".json")
    if options.pictures is not None:
        remedy = "choose another folder, or pass --overwrite"
        check_new_folder(options.pictures, "--pictures", remedy, options.overwrite)
    model, problem = load_model(options)
    count, seed = options.instances, options.seed
    interrupted = False
    try:
        result = model.evaluate(problem, count, seed=seed, **sampler_arguments(options))
    except EvaluationInterrupted as partial:
        result, interrupted = partial.result, True
        count = len(result.samples)
    prior = prior_metrics(problem, count, seed, model.settings.observe)
    sampler = model.sampler.updated(sampler_arguments(options))
    print(f"{label(problem)}, {count} instances, {sampler}, seed {seed}")
    for name, value in result.metrics.items():
        print(f"{name}: {value:.4f} (answers from the prior: {prior[name]:.4f})")
    if options.out is not None:
        metrics = json.dumps(as_json(result.metrics), indent=2)
        write_file(options.out, metrics.encode())
    if options.pictures is not None:
        result.save_pictures(4, options.pictures, f"seed{seed}")
    if interrupted:
        raise KeyboardInterrupt
