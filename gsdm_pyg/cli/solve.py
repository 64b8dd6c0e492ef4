"""`solve`: a model folder and a file of what is given -> verified solutions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.cli.arguments import (
    add_model_arguments,
    add_overwrite_argument,
    add_settings_arguments,
    check_out,
    check_place,
    load_model,
    sampler_arguments,
    settings_arguments,
)
from gsdm_pyg.cli.array_files import SUFFIXES, read_arrays, write_arrays
from gsdm_pyg.evaluation import plot_of
from gsdm_pyg.model import GSDM
from gsdm_pyg.plotting import animate
from gsdm_pyg.problem import Problem
from gsdm_pyg.settings import SearchSettings
from gsdm_pyg.solving import Solution, SolvingInterrupted

FRAMES = 60  # of an animation, at the most


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("solve", help=run.__doc__)
    add_model_arguments(parser)
    add_settings_arguments(parser, SearchSettings)
    parser.add_argument(
        "--given",
        type=Path,
        help="what is given, also without this flag: .npz or .json with arrays by name,"
        " NaN or null where unknown, or a text that the problem reads, such as Sudokus",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("solutions.npz"),
        help="arrays of all answers and, of each, the number of its `instance`, "
        "whether it is `verified`, and its `evaluations`; .npz or .json",
    )
    parser.add_argument(
        "--gif", type=Path, help="an animation of how the first solution is found"
    )
    add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Find values that satisfy all constraints; exit status 1 if some are not found."""
    check_out(options, *SUFFIXES)
    check_place(options.gif, "--gif", (".gif",), options.overwrite)
    _take_file(options)
    model, problem = load_model(options)
    given = _read(problem, options.given) if options.given else None
    interrupted = False
    try:
        found = _solve(model, problem, given, options)
    except SolvingInterrupted as stopped:
        found, interrupted = stopped.solutions, True
    _write(options.out, found)
    _print(problem, found)
    solved = sum(answer.verified for answer in found)
    print(f"solved {solved} of {len(found)}: {options.out}")
    if interrupted:
        raise KeyboardInterrupt
    if options.gif is not None:
        _animate(problem, found[0], given or {}, options.gif)
    if solved < len(found):
        sys.exit(1)


def _take_file(options: argparse.Namespace) -> None:
    """The one argument that is no size is the file of what is given."""
    files = [text for text in options.settings if "=" not in text]
    if len(files) > 1 or (files and options.given):
        raise ValueError(f"Give one file (got {', '.join(map(str, files))}).")
    if files:
        options.given = Path(files[0])
        options.settings = [text for text in options.settings if "=" in text]


def _read(problem: Problem, path: Path) -> dict[str, Any]:
    """Arrays by name, from arrays or from a text."""
    if path.suffix in SUFFIXES or not path.is_file():
        return dict(read_arrays(path, "--given"))
    try:
        given = problem.read(path.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    if given is None:
        raise ValueError(
            f"{problem} reads no texts: give .npz or .json (got {str(path)!r})."
        )
    return given


def _solve(
    model: GSDM,
    problem: Problem,
    given: dict[str, Any] | None,
    options: argparse.Namespace,
) -> list[Solution]:
    found = model.solve(
        problem,
        given,
        generator=options.seed,
        return_path=options.gif is not None,
        **settings_arguments(options, SearchSettings),
        **sampler_arguments(options),
    )
    return found if isinstance(found, list) else [found]


def _write(path: Path, found: list[Solution]) -> None:
    """All solutions, and of each whether it is verified and what it took."""
    tried = [answer for answer in found if answer.solution]
    arrays: dict[str, Tensor] = {
        name: torch.stack([answer.solution[name] for answer in tried])
        for name in (tried[0].solution if tried else ())
    }
    arrays["verified"] = torch.tensor([answer.verified for answer in tried])
    arrays["evaluations"] = torch.tensor([answer.evaluations for answer in tried])
    numbers = [i for i, answer in enumerate(found) if answer.solution]
    arrays["instance"] = torch.tensor(numbers)
    write_arrays(path, arrays)


def _print(problem: Problem, found: list[Solution]) -> None:
    """Each solution as text, if the problem has one, and what became of it."""
    for number, answer in enumerate(found, 1):
        text = problem.write(answer.solution) if answer.verified else None
        print(f"{number}: {answer}" + (f"\n{text}\n" if text else ""))


def _animate(
    problem: Problem, answer: Solution, given: dict[str, Any], path: Path
) -> None:
    """How the estimates become the solution of the first instance, beside it."""
    if not answer.path:
        print("nothing to animate: what is given implied the solution")
        return
    num = len(next(iter(answer.path.values())))
    steps = torch.linspace(0, num - 1, min(num, FRAMES)).long().tolist()
    estimates = [{n: v[i] for n, v in answer.path.items()} for i in steps]
    known = {
        name: _first(given[name], value) if name in given else torch.zeros(value.shape)
        for name, value in answer.solution.items()
    }
    observed = {name: mask.bool() for name, mask in known.items()}
    figures = [
        plot_of(problem, estimate, answer.solution, observed)
        for estimate in [*estimates, answer.solution]
    ]
    animate(figures, path)


def _first(given: Any, like: Tensor) -> Tensor:
    """Which entries of a variable are given in the first instance."""
    values = torch.as_tensor(given)
    return ~(values if values.dim() == like.dim() else values[0]).isnan()
