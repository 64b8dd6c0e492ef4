"""`train`: a config -> a run folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gsdm_pyg.config import load_config
from gsdm_pyg.experiment import Experiment, new_run, resumed_run
from gsdm_pyg.training.memory import keep_freed_memory


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("train", help=run.__doc__)
    parser.add_argument("config", help="a YAML file such as configs/bcmf_varsize.yaml")
    parser.add_argument("settings", nargs="*", help="such as model.layers=6")
    parser.add_argument("--run-dir", type=Path, help="default: runs/<config>[-N]")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the last checkpoint of --run-dir, or of the newest run",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be trained, and stop"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Train a config into a run folder: config, logs, checkpoints, pictures, model."""
    config = load_config(options.config, options.settings)
    experiment = Experiment(config)
    if options.dry_run:
        print(experiment.describe())
        return
    config.trainer.check_end()
    keep_freed_memory()
    find = resumed_run if options.resume else new_run
    run_dir = find(config, Path(options.config).stem, options.run_dir)
    experiment.run(run_dir, options.resume)
