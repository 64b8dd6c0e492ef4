"""Sizes of problems: which fields are sizes, what they hold, how a family draws them.

A family fixes a field of a problem or draws it per instance:

    n: Size         5                                    or [low, high]
    groups: Sizes   [3, 4, 2]                            or
                    {"length": 3, "each": [low, high]}   where both take either form
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, get_args

import torch
from torch import Tensor

from gsdm_pyg.checks import whole_number

Kind = Literal["size", "sizes"]

Size = Annotated[int, "size"]
"""The annotation of a field that is a size: a whole number of at least 1."""

Sizes = Annotated[tuple[int, ...], "sizes"]
"""The annotation of sizes that vary within one instance, such as those of groups."""


def size_fields(cls: type) -> dict[str, Kind]:
    """Which of the annotations of a class itself, by name, are `Size` or `Sizes`."""
    hints = inspect.get_annotations(cls)
    kinds = {name: _kind(cls, hint) for name, hint in hints.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind(cls: type, hint: Any) -> Kind | None:
    """Whether an annotation, or its text, is `Size`, `Sizes` or one of them or None."""
    while isinstance(hint, str):
        hint = _evaluate(cls, hint)
    for option in (hint, *get_args(hint)):
        if option == Size:
            return "size"
        if option == Sizes:
            return "sizes"
    return None


def _evaluate(cls: type, text: str) -> Any:
    """What the text of an annotation means where the class is being defined."""
    scopes = [vars(sys.modules.get(cls.__module__, object))]
    frame = inspect.currentframe()
    while frame is not None:  # also the variables of functions around the class
        if frame.f_globals.get("__name__") == cls.__module__:
            scopes.append({**frame.f_globals, **frame.f_locals})
        frame = frame.f_back
    for scope in scopes:
        with suppress(Exception):  # such as a name that only type checkers import
            return eval(text, dict(scope))
    name = text.removesuffix("| None").strip().rpartition(".")[2]
    return {"Size": Size, "Sizes": Sizes}.get(name)


def check_size(where: str, kind: Kind, value: Any) -> int | tuple[int, ...]:
    """A size as an int, or several as a tuple of ints; NumPy's are accepted.

    Args:
        where: Names the field in errors, such as BCMF.m.
        kind: Whether one size is due, or several.
        value: What was passed.
    """
    if kind == "size":
        size = whole_number(value)
        if size is None or size < 1:
            raise ValueError(
                f"{where} is a size: give a whole number of at least 1 (got {value!r})."
            )
        return size
    try:
        sizes = [] if isinstance(value, str | Mapping) else list(value)
    except TypeError:
        sizes = []
    checked = [whole_number(size) for size in sizes]
    if not checked or not all(size is not None and size >= 1 for size in checked):
        raise ValueError(
            f"{where} holds sizes: give a list of whole numbers of at least 1, such as "
            f"[3, 4, 2] (got {value!r})."
        )
    return tuple(size for size in checked if size is not None)


def check_range(name: str, kind: Kind | None, value: Any) -> Any:
    """What a family was given for a field; ranges become tuples (low, high).

    Args:
        name: Names the field in errors.
        kind: Whether the field is a size, sizes, or anything else.
        value: What was passed: one value for all instances, or what to draw from.
    """
    if kind != "sizes":
        if isinstance(value, list | tuple):
            return _ends(name, value)
        number = whole_number(value)
        return value if number is None else number
    if not isinstance(value, Mapping):
        return check_size(name, kind, value)
    if set(value) != {"length", "each"}:
        raise ValueError(
            f"{name} is a list of sizes, or has the keys 'length' and 'each', both a "
            f"number or [low, high] (got {dict(value)!r})."
        )
    ranges = {}
    for key in ("length", "each"):
        ends = value[key] if isinstance(value[key], list | tuple) else [value[key]] * 2
        ranges[key] = low, _ = _ends(f"{name}.{key}", ends)
        check_size(f"{name}.{key}", "size", low)
    return ranges


def _ends(name: str, value: Any) -> tuple[int, int]:
    ends = [whole_number(end) for end in value]
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
        low, high = ends[0], ends[1]
        if low <= high:
            return low, high
    raise ValueError(
        f"The range of {name} is [low, high] with whole numbers and low <= high "
        f"(got {list(value)})."
    )


def is_range(kind: Kind | None, value: Any) -> bool:
    """Whether a checked value is one to draw from."""
    return isinstance(value, dict if kind == "sizes" else tuple)


def range_end(kind: Kind | None, value: Any, end: Literal[0, 1]) -> Any:
    """The smallest (0) or largest (1) value of a range; a fixed value is itself."""
    if not is_range(kind, value):
        return value
    if kind == "sizes":
        return (value["each"][end],) * value["length"][end]
    return value[end]


def draw_range(
    kind: Kind | None, value: Any, num: int, generator: torch.Generator | None
) -> Tensor:
    """`num` draws from a range, one per row: uniform, both ends included.

    One size is a row of one. Several are a row that is filled with zeros.
    """
    if kind != "sizes":
        low, high = value
        return torch.randint(low, high + 1, (num, 1), generator=generator)
    (shortest, longest), (low, high) = value["length"], value["each"]
    length = torch.randint(shortest, longest + 1, (num, 1), generator=generator)
    each = torch.randint(low, high + 1, (num, longest), generator=generator)
    return each * (torch.arange(longest) < length)


def read_draw(kind: Kind | None, row: list[int]) -> Any:
    """The value that a row of `draw_range` is."""
    return tuple(size for size in row if size) if kind == "sizes" else row[0]


def plain(value: Any) -> Any:
    """A size or range as JSON and YAML write it: lists instead of tuples."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
