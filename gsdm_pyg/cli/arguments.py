"""Arguments that several commands share: a model folder, sizes, the sampler."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import torch
import yaml

from gsdm_pyg.files import check_new_file
from gsdm_pyg.model import GSDM
from gsdm_pyg.problem import Problem
from gsdm_pyg.registry import resolve_problem
from gsdm_pyg.settings import SamplerSettings
from gsdm_pyg.settings_base import Settings

PICTURES = (".png", ".svg", ".pdf")  # the formats of a picture


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """What `add_folder_arguments` adds, and a flag per setting of the sampler."""
    add_folder_arguments(parser)
    add_settings_arguments(parser, SamplerSettings, "the model's own")


def add_settings_arguments(
    parser: argparse.ArgumentParser, settings: type[Settings], default: str = ""
) -> None:
    """A flag per setting.

    Args:
        parser: Where to add them.
        settings: The settings.
        default: What is said of defaults, by default their values.
    """
    for name, field in settings.model_fields.items():
        choices = get_args(field.annotation) if _is_choice(field.annotation) else None
        help_text = " ".join((field.description or "").split())
        shown = default or str(field.default)
        parser.add_argument(
            f"--{name}", choices=choices, help=f"{help_text} Default: {shown}."
        )


def _is_choice(annotation: Any) -> bool:
    return all(isinstance(value, str) for value in get_args(annotation)) and bool(
        get_args(annotation)
    )


def add_folder_arguments(
    parser: argparse.ArgumentParser, what: str = "a model folder"
) -> None:
    """A model folder, sizes, `--problem`, seed and device."""
    parser.add_argument("model", help=what)
    parser.add_argument(
        "settings", nargs="*", help="sizes such as m=8; else the largest of training"
    )
    parser.add_argument(
        "--problem",
        help="path/to/file.py:ClassName or path/to/file.foppl, if not built in; a "
        "Python file is executed",
    )
    parser.add_argument("--seed", type=int, default=0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=device, help="default: %(default)s")


def add_overwrite_argument(parser: argparse.ArgumentParser) -> None:
    """`--overwrite`, for commands that write where the user says."""
    parser.add_argument(
        "--overwrite", action="store_true", help="replace files that exist already"
    )


def check_out(options: argparse.Namespace, *suffixes: str) -> None:
    """Refuse an `--out` that could not be written, before the work."""
    check_place(options.out, "--out", suffixes, options.overwrite)


def check_place(
    path: Path | None, name: str, suffixes: tuple[str, ...], overwrite: bool
) -> None:
    """Reject a file that could not be written, before the work."""
    if path is None:
        return
    if path.suffix not in suffixes:
        raise ValueError(f"{name} ends in {' or '.join(suffixes)} (got {str(path)!r}).")
    remedy = "choose another name, or pass --overwrite"
    check_new_file(path, name, remedy, overwrite)


def read_sizes(problem: type[Problem], texts: Sequence[str]) -> dict[str, Any]:
    """Sizes of a problem from texts such as m=8."""
    names = [field.name for field in fields(problem)]  # type: ignore[arg-type]
    sizes = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"A size reads name=value (got {text!r}).")
        if key not in names:
            known = ", ".join(names) or "no sizes"
            raise ValueError(f"{problem.__name__} takes {known} (got {key!r}).")
        try:
            sizes[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError(f"A size reads name=value (got {text!r}).") from None
        takes_list = problem.size_kinds.get(key) == "sizes"
        if isinstance(sizes[key], list) and not takes_list:
            raise ValueError(f"Here a size is one number (got {text!r}).")
    return sizes


def sampler_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the sampler that the command line gives."""
    return settings_arguments(options, SamplerSettings)


def settings_arguments(
    options: argparse.Namespace, settings: type[Settings]
) -> dict[str, Any]:
    """The settings of a kind that the command line gives."""
    given = {name: getattr(options, name) for name in settings.model_fields}
    return {name: value for name, value in given.items() if value is not None}


def check_seed_and_device(options: argparse.Namespace) -> None:
    """Reject a seed or a device that no sampler could use, before the work."""
    if options.seed < 0:
        raise ValueError(f"--seed is a number of at least 0 (got {options.seed}).")
    try:
        torch.empty(1, device=options.device).zero_().cpu()  # `meta` holds no values
    except (RuntimeError, AssertionError, ImportError):
        raise ValueError(
            f"--device names no device of this machine (got {options.device!r})."
        ) from None


def check_trusted(name: str, options: argparse.Namespace, what: str) -> None:
    """Reject a problem in a file, unless `--problem` names one.

    Args:
        name: The problem.
        options: The command line.
        what: What names the problem, such as "config".
    """
    if (":" in name or name.endswith(".foppl")) and not options.problem:
        raise ValueError(
            f"The problem of this {what} is a file, which is opened only if you name "
            f"it too: pass --problem {name} if you trust that file."
        )


def load_model(options: argparse.Namespace) -> tuple[GSDM, Problem]:
    """The model of a command, and the problem at the sizes that it names."""
    check_seed_and_device(options)
    model = GSDM.from_pretrained(options.model, map_location=options.device)
    return model, _problem(model, options)


def _problem(model: GSDM, options: argparse.Namespace) -> Problem:
    name = options.problem or model.spec.name
    if name is None:
        raise ValueError("This model does not name its problem: pass --problem.")
    check_trusted(name, options, "model folder")
    same = _class_name(name) == _class_name(model.spec.name or "")
    problem = resolve_problem(name)
    sizes = dict(model.spec.sizes or {}) if same else {}  # ranges at their upper end
    sizes |= read_sizes(problem, options.settings)
    try:
        return problem.family(**sizes).largest()
    except TypeError as error:
        raise ValueError(
            f"Give every size of {name}, such as m=8 n=8 k=4 (got {error})."
        ) from error


def _class_name(name: str) -> str:
    return name.rpartition(":")[2]
