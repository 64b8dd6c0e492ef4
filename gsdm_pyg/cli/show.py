"""`show`: a model folder, a run folder or a config -> a page in the browser."""

from __future__ import annotations

import argparse
import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

from gsdm_pyg.cli.arguments import (
    add_folder_arguments,
    check_seed_and_device,
    check_trusted,
    load_model,
    read_sizes,
)
from gsdm_pyg.config import parse_config, read_config
from gsdm_pyg.evaluation import label
from gsdm_pyg.run_folder import CONFIG_FILE, newest_run
from gsdm_pyg.workbench.subject import Subject

_NEEDED = ("starlette", "uvicorn")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("show", help=run.__doc__)
    add_folder_arguments(parser, "a model folder, a run folder, or a config in YAML")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen at; 0.0.0.0 lets the whole network in. "
        "Default: %(default)s",
    )
    parser.add_argument("--port", type=int, default=8765, help="default: %(default)s")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Show a model at work, or a run in training, on a page in the browser."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            "The workbench needs a web server: pip install 'gsdm_pyg[show]' "
            f"(got no {' and no '.join(missing)})."
        )
    from gsdm_pyg.workbench.serving import serve

    if not 0 <= options.port < 2**16:
        raise ValueError(f"--port is a number up to 65535 (got {options.port}).")
    subject = load_subject(options)
    print(f"{label(subject.problem)}, {subject.graph.num_nodes:,} nodes", flush=True)
    serve(subject, options.host, options.port)


def load_subject(options: argparse.Namespace) -> Subject:
    """What the command line names."""
    path = Path(options.model)
    if path.is_file():
        return _of_config(options, path, partial(newest_run, path.stem))
    if (path / CONFIG_FILE).is_file():
        return _of_config(options, path / CONFIG_FILE, lambda: path)
    model, problem = load_model(options)
    return Subject(options.model, problem, model, seed=options.seed)


def _of_config(options: argparse.Namespace, path: Path, find_run: Any) -> Subject:
    """The problem of a config at its largest size, and the run that trains it."""
    check_seed_and_device(options)
    values = read_config(path)
    section = values.get("problem")
    if isinstance(section, dict):
        name = options.problem or section.get("name")
        if isinstance(name, str):
            check_trusted(name, options, "config")
        values = {**values, "problem": {**section, "name": name}}
    config = parse_config(values)
    family = config.problem.source()
    sizes = read_sizes(family.problem, options.settings)
    largest = family.problem.family(**{**family.ranges, **sizes}).largest()
    return Subject(
        options.model,
        largest,
        settings=config.model,
        find_run=find_run,
        device=options.device,
        seed=options.seed,
    )
