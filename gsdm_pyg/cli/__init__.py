"""Command line: train a config, evaluate a model folder, sample from it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lightning.pytorch.utilities.exceptions import MisconfigurationException

from gsdm_pyg.cli import evaluate, sample, train
from gsdm_pyg.training import TrainingDiverged

_USER_ERRORS = (
    ValueError,
    FileNotFoundError,
    TrainingDiverged,
    MisconfigurationException,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `python -m gsdm_pyg`; what the user got wrong ends in one line."""
    parser = argparse.ArgumentParser(prog="gsdm_pyg", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command in (train, evaluate, sample):
        command.add_parser(commands)
    # argparse wants all positional arguments together; here options may come between.
    options, rest = parser.parse_known_args(arguments)
    if any(text.startswith("-") for text in rest):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.settings += rest
    try:
        options.run(options)
    except _USER_ERRORS as error:
        sys.exit(f"error: {error}")
