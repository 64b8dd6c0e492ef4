"""Run folders: a new one for a run, or that of a run to go on with."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from pathlib import Path

import torch
from lightning.pytorch.utilities import rank_zero_only

import gsdm_pyg
from gsdm_pyg.config import Config, load_config
from gsdm_pyg.files import check_new_folder, write_file
from gsdm_pyg.problem import Problem
from gsdm_pyg.settings_base import SettingsError
from gsdm_pyg.training.run import CHECKPOINT

logger = logging.getLogger("gsdm_pyg")

CONFIG_FILE = "config.yaml"
ENVIRONMENT = "environment.json"  # what the run depends on besides its config


def new_run(config: Config, name: str, run_dir: Path | None = None) -> Path:
    """A new run folder with the config in it, by default the next of runs/<name>."""
    run_dir = run_dir or next(d for d in _numbered(name) if not d.exists())
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        remedy = "choose another --run-dir, or pass --resume to go on with it"
        check_new_folder(run_dir, "The run folder", remedy)
        write_file(run_dir / CONFIG_FILE, config.dump().encode())
        environment = json.dumps(_environment(config), indent=2)
        write_file(run_dir / ENVIRONMENT, environment.encode())
        print(f"run folder: {run_dir}")
    return run_dir


def resumed_run(config: Config, name: str, run_dir: Path | None = None) -> Path:
    """The folder of a run to go on with, by default the newest of runs/<name>.

    Runs without a checkpoint, whose start failed, do not count.
    """
    if run_dir is None:
        numbered = _numbered(name)
        begun = [d for d in numbered if (d / CHECKPOINT).is_file()]
        run_dir = begun[-1] if begun else numbered[0]
    if not (run_dir / CHECKPOINT).is_file():
        raise FileNotFoundError(
            "There is no checkpoint to resume from: start the run without --resume "
            f"(got {str(run_dir)!r})."
        )
    # How the run was evaluated does not matter: that may be what stopped it.
    try:
        before = load_config(run_dir / CONFIG_FILE, ["evaluation={}"])
    except SettingsError as error:
        raise SettingsError(
            f"The run in {run_dir} was started by another version of gsdm_pyg: start a "
            f"new run (got {error})"
        ) from error
    for section in ("problem", "model", "data", "optimizer", "seed"):
        if getattr(before, section) != getattr(config, section):
            raise SettingsError(
                f"The run in {run_dir} has other settings in {section!r}: resume with "
                f"those, or start a new run (got {getattr(config, section)!r}, "
                f"there {getattr(before, section)!r})."
            )
    print(f"resuming: {run_dir}")
    for name, value in config.trainer:
        if getattr(before.trainer, name) != value:
            old = getattr(before.trainer, name)
            print(f"trainer.{name} is {value} now, and was {old} when the run began")
    _warn_of_changes(run_dir, _environment(config))
    return run_dir


def newest_run(name: str) -> Path | None:
    """The newest run folder of runs/<name>, if there is one."""
    found = None
    for folder in _numbered(name):
        if not folder.is_dir():
            break
        found = folder
    return found


def _environment(config: Config) -> dict[str, str | None]:
    """What a run depends on besides its config."""
    return {
        "gsdm_pyg": gsdm_pyg.__version__,
        "torch": str(torch.__version__),
        "code of the problem": _source_digest(config.problem.source().problem),
    }


def _source_digest(problem: type[Problem]) -> str | None:
    """A hash of the files that define a problem class and what it derives from."""
    digest = hashlib.sha256()
    for cls in problem.__mro__:
        if issubclass(cls, Problem) and cls is not Problem:
            try:
                file = inspect.getfile(cls)
            except (OSError, TypeError):  # typed in, not in a file
                return None
            digest.update(Path(file).read_bytes())
    return digest.hexdigest()


def _warn_of_changes(run_dir: Path, now: dict[str, str | None]) -> None:
    """Say what is no longer as it was when a run began."""
    try:
        before = json.loads((run_dir / ENVIRONMENT).read_text())
        changed = [name for name in now if before.get(name) != now[name]]
    except (OSError, ValueError, AttributeError):
        return  # of an older version, which wrote none
    if changed:
        logger.warning(
            "Since the run in %s began, something has changed: %s. It goes on with "
            "what is here now.",
            run_dir,
            ", ".join(changed),
        )


def _numbered(name: str) -> list[Path]:
    """runs/<name>, runs/<name>-2 and so on."""
    stem = Path("runs") / name
    return [stem, *(Path(f"{stem}-{i}") for i in range(2, 10_000))]
