"""Errors and warnings that name the line of a program."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType

import numpy as np
import torch

_PYRO = find_spec("pyro")  # optional
_LIBRARIES = tuple(
    f"{folder}{os.sep}"
    for folder in (
        *[Path(module.__file__ or "").parent for module in (torch, np)],
        *((_PYRO and _PYRO.submodule_search_locations) or ()),
        Path(__file__).parents[1],  # this package
    )
)
_PYTHON = f"{Path(os.__file__).parent}{os.sep}"


class ProgramError(ValueError):
    """A program that cannot be run or traced; the message says where and why."""


def error(message: str) -> ProgramError:
    """The error, with the line of the program that is being executed."""
    line = current_line()
    return ProgramError(f"{line}: {message}" if line else message)


def current_line() -> str:
    """Where the program is: "file.py, line 3", or nothing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else _place(frame.f_code.co_filename, frame.f_lineno)


def line_of(traceback: TracebackType | None) -> str:
    """Where an exception left the program."""
    place = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not is_library(file):
            place = _place(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def inside_distributions() -> bool:
    """Whether torch's or Pyro's distributions, and not the program, are at work."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if "/torch/distributions/" in file or "/pyro/distributions/" in file:
            return True
        if not is_library(file):
            return False
        frame = frame.f_back
    return False


def is_library(file: str) -> bool:
    """Whether a file belongs to torch or to this package, and not to the program."""
    if file.startswith(_PYTHON):  # the packages of others may be installed there, too
        return "-packages" not in file or file.startswith(_LIBRARIES)
    return file.startswith((*_LIBRARIES, "<frozen", "<string"))


def _place(file: str, line: int) -> str:
    return f"{Path(file).name}, line {line}"
