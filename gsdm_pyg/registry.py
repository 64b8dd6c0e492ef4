"""Problem classes by name: built in, imported, or in a file of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from pathlib import Path
from typing import Any

from gsdm_pyg.problem import Problem
from gsdm_pyg.programs.foppl import from_foppl

_NOT_HERE = (
    " The built-in problems are in the folder problems/ of the repository of gsdm_pyg "
    "and not in the package: run from the repository's folder, or clone it."
)


def resolve_problem(name: str) -> type[Problem]:
    """The problem class called `name`, or the one at `path/to/file.py:ClassName`.

    A bare name is looked up among the problems imported so far and then in a package
    `problems` on the import path. `path/to/file.foppl` is a FOPPL program.
    """
    if name.endswith(".foppl"):
        return from_foppl(Path(name))
    if ":" in name:
        problem = load_from_file(name)
        if not (isinstance(problem, type) and issubclass(problem, Problem)):
            path, _, class_name = name.rpartition(":")
            raise ValueError(
                f"{path} defines no Problem of that name (got {class_name!r})."
            )
        problem.reference = name
        return problem
    if name not in Problem.registry and importlib.util.find_spec("problems"):
        importlib.import_module("problems")
    if name not in Problem.registry:
        known = ", ".join(sorted(Problem.registry)) or "none"
        hint = "" if importlib.util.find_spec("problems") else _NOT_HERE
        raise ValueError(
            f"No problem is called {name!r}. Known: {known}. Or name a file: "
            f"path/to/file.py:ClassName, or path/to/file.foppl.{hint}"
        )
    return Problem.registry[name]


def load_from_file(name: str) -> Any:
    """What `path/to/file.py:name` is, or None; the file is executed once."""
    path, _, attribute = name.rpartition(":")
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"The problem file does not exist (got {path!r}).")
    if file.suffix != ".py":
        raise ValueError(f"The problem file is no Python file (got {path!r}).")
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(file):
            break
    else:
        digest = zlib.crc32(str(file).encode())
        spec = importlib.util.spec_from_file_location(
            f"gsdm_problem_{file.stem}_{digest:08x}", file
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[spec.name]
            raise
    return getattr(module, attribute, None)
