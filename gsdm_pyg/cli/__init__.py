"""Command line: train a config, evaluate, sample, solve, reproduce a figure."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `gsdm`; what the user got wrong, or an interruption, ends in one line.

    `gsdm`, `python -m gsdm_pyg` and train.py are the same from here on.
    """
    # Idle threads of libgomp spin briefly and then sleep: spinning for long, its
    # default, holds up other programs on a small machine, and these the threads. torch
    # reads it when it is imported, so all imports come after.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # A console script does not look for modules in the current folder, where `problems`
    # may be; installed modules come first all the same.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; `run` is the function of its command."""
    from gsdm_pyg.cli import (
        calibrate,
        compile,
        doctor,
        evaluate,
        report,
        reproduce,
        sample,
        show,
        solve,
        train,
    )

    parser = argparse.ArgumentParser(prog="gsdm", description=__doc__)
    commands = parser.add_subparsers(required=True)
    order = (
        train,
        evaluate,
        sample,
        solve,
        show,
        calibrate,
        report,
        doctor,
        compile,
        reproduce,
    )
    for command in order:
        command.add_parser(commands)
    # argparse wants all positional arguments together; here options may come between.
    options, rest = parser.parse_known_args(arguments)
    if any(text.startswith("-") for text in rest):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.settings += rest
    return options


def _run(arguments: Sequence[str] | None) -> None:
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    from gsdm_pyg.training import TrainingDiverged

    options = parse(arguments)
    try:
        options.run(options)
    except (ValueError, TrainingDiverged, MisconfigurationException) as error:
        sys.exit(f"error: {error}")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        reason = " ".join(str(error).split())[-100:]
        sys.exit(f"error: There is not enough memory for this size (got {reason}).")
    except OSError as error:
        sys.exit(f"error: {_sentence(error)}")


def _sentence(error: OSError) -> str:
    """What the system says, such as "No space left on device (got 'out.npz').\""""
    if error.strerror is None or error.filename is None:
        return str(error)
    return f"{error.strerror} (got {str(error.filename)!r})."
