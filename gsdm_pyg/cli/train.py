"""`train`: a config -> a run folder."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities import rank_zero_only

from gsdm_pyg.cli.reproduce import add_scale_argument
from gsdm_pyg.config import Config, load_config
from gsdm_pyg.experiment import Experiment
from gsdm_pyg.paper.runs import as_file_name, load_run
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
    parser.add_argument(
        "--row",
        help="of a figure such as configs/paper/figure5.yaml, the run to train, such "
        "as 'GSDM w/ AE; Sorting; 20'",
    )
    add_scale_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Train a config into a run folder: config, logs, checkpoints, pictures, model."""
    config, name = _config(options)
    experiment = Experiment(config)
    if options.dry_run:
        print(experiment.describe())
        return
    config.trainer.check_end()
    keep_freed_memory()
    find = resumed_run if options.resume else new_run
    run_dir = find(config, name, options.run_dir)
    stopped = experiment.run(run_dir, options.resume)
    if stopped is not None:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            print(
                f"{stopped.name} stopped the run, which wrote a checkpoint. To go on:"
            )
            print(_resume_command(options, run_dir))
        sys.exit(128 + stopped)  # as a shell says it


def _config(options: argparse.Namespace) -> tuple[Config, str]:
    """The config of a file, or of one run of a figure, and what to call its runs."""
    stem = Path(options.config).stem
    if options.row is None:
        return load_config(options.config, options.settings), stem
    run = load_run(options.config, options.scale, options.row, options.settings)
    if run.baseline is not None:
        raise ValueError(
            f"--row names a method without training: evaluate it by `python -m "
            f"gsdm_pyg reproduce {options.config}` (got {options.row!r})."
        )
    return run.config, f"{stem}-{as_file_name(options.row)}"


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
    arguments = [options.config, *options.settings]
    if options.row is not None:
        arguments += ["--row", options.row, "--scale", options.scale]
    arguments += ["--run-dir", str(run_dir)]
    return shlex.join([*program, *arguments, "--resume"])
