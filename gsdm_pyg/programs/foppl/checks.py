"""Errors that need no run: unknown names, numbers of arguments, recursion."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gsdm_pyg.programs.foppl.place import FopplError, Place
from gsdm_pyg.programs.foppl.reader import Symbol

USES = {  # of the special forms
    "defn": "(defn name [argument ...] body ...), outside of other expressions",
    "let": "(let [name value ...] body ...)",
    "if": "(if condition value other-value)",
    "foreach": "(foreach count [name vector ...] body ...)",
    "loop": "(loop count start function argument ...)",
    "sample": "(sample distribution) or (sample name distribution)",
    "observe": "(observe distribution value) or (observe name distribution value)",
}


def misused(form: str, place: Place) -> FopplError:
    """A special form with parts that it does not have."""
    return place.error(f"{form} is written {USES[form]} (got something else).")


def unknown(what: str, symbol: Symbol, known: Iterable[str]) -> FopplError:
    """A name that means nothing here.

    Args:
        what: What the name should be: "value" or "function".
        symbol: The name.
        known: The names that would do.
    """
    near = difflib.get_close_matches(symbol.name, sorted(known), 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return symbol.place.error(f"No {what} is called {symbol.name}.{hint}")


def check_arguments(
    name: str, function: Callable[..., Any] | int, count: int, place: Place
) -> None:
    """Raise an error if a call has too many arguments, or too few.

    Args:
        name: The function's name.
        function: A function of Python, or the number of parameters of another one.
        count: The number of arguments of the call.
        place: Where the call is.
    """
    least, most = (
        (function, function) if isinstance(function, int) else _arity(function)
    )
    if least <= count <= most:
        return
    due = f"{least}" if least == most else f"{least} to {most:.0f}"
    if most == float("inf"):
        due = f"{least} or more"
    plural = "" if due == "1" else "s"
    raise place.error(f"{name} takes {due} argument{plural} (got {count}).")


def _arity(function: Callable[..., Any]) -> tuple[int, float]:
    least, most = 0, 0.0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = float("inf")
        else:
            most += 1
            least += parameter.default is parameter.empty
    return least, most


def check_recursion(callees: Mapping[str, Mapping[str, Place]]) -> None:
    """Raise an error if a function calls itself, also by way of others.

    Args:
        callees: The functions that each function calls, and where.
    """
    finished: set[str] = set()

    def visit(path: tuple[str, ...]) -> None:
        for callee, place in callees.get(path[-1], {}).items():
            if callee in path:
                cycle = " -> ".join((*path[path.index(callee) :], callee))
                raise place.error(
                    f"FOPPL has no recursion: {callee} calls itself. Use loop with a "
                    f"constant count (got {cycle})."
                )
            if callee not in finished:
                visit((*path, callee))
        finished.add(path[-1])

    for name in callees:
        visit((name,))
