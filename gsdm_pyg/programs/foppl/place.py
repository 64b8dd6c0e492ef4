"""Places in a FOPPL source, and errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from gsdm_pyg.programs.errors import ProgramError


class FopplError(ProgramError):
    """A FOPPL program that cannot be read, run or traced.

    Args:
        message: What is wrong, and what to write instead.
        place: Where; it is part of the message.
    """

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(f"{place}: {message}")
        self.file, self.line, self.column = place


class Misuse(ValueError):
    """What is wrong with the arguments of a function, after the function's name."""


_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class Place(NamedTuple):
    """A line and a column of a file, both counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}, column {self.column}"

    def error(self, message: str) -> FopplError:
        return FopplError(message, self)

    def call(self, label: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function from here: its errors and warnings name this place.

        Args:
            label: What the source calls the function.
            function: What to call.
            arguments: Its arguments.
        """

        def guarded() -> Any:
            try:
                return function(*arguments)
            except FopplError:
                raise
            except ProgramError as failure:
                line = f"{Path(self.file).name}, line {self.line}: "
                raise self.error(str(failure).removeprefix(line)) from failure
            except Misuse as failure:
                raise self.error(f"{label} {failure}") from failure
            except _FAILURES as failure:
                raise self.error(f"{label} failed: {failure}") from failure

        return eval(_code(self.file, self.line), {"guarded": guarded})


@lru_cache(maxsize=4096)
def _code(file: str, line: int) -> CodeType:
    """A call that Python takes to be in this line of the source.

    `programs.errors` finds the line of a program by its stack of calls.
    """
    code = compile("guarded()", file, "eval")
    return code.replace(co_firstlineno=line)
