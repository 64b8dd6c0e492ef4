"""`train`: a config -> a run folder."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities import rank_zero_only

from gsdm_pyg.config import load_config
from gsdm_pyg.experiment import Experiment
from gsdm_pyg.run_folder import new_run, resumed_run
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
    stopped = experiment.run(run_dir, options.resume)
    if stopped is not None:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            print(
                f"{stopped.name} stopped the run, which wrote a checkpoint. To go on:"
            )
            print(_resume_command(options, run_dir))
        sys.exit(128 + stopped)  # as a shell says it


def _resume_command(options: argparse.Namespace, run_dir: Path) -> str:
    """What to type in this folder to go on, in the way that the run was started."""
    found = shutil.which("python")
    same = found is not None and Path(found).samefile(sys.executable)
    python = "python" if same else sys.executable
    script = Path(sys.argv[0])
    if script.name == "train.py":
        program = [python, str(script)]
    elif script.name == "gsdm":
        program = [script.name if shutil.which("gsdm") else str(script), "train"]
    else:
        program = [python, "-m", "gsdm_pyg", "train"]
    arguments = [options.config, *options.settings, "--run-dir", str(run_dir)]
    return shlex.join([*program, *arguments, "--resume"])
