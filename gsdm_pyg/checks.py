"""Checks at the boundary that several modules share."""

from __future__ import annotations

import operator
from typing import Any, get_args


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse a value that is not among those of a `Literal[...]`."""
    if value not in get_args(choices):
        known = ", ".join(str(choice) for choice in get_args(choices))
        raise ValueError(f"{name} is one of {known} (got {value!r}).")


def whole_number(value: Any) -> int | None:
    """An integer of Python, NumPy or torch as an int; None if it is anything else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_count(name: str, value: Any) -> None:
    """Refuse anything except an integer of at least 1."""
    number = whole_number(value)
    if number is None or number < 1:
        raise ValueError(f"{name} must be an integer of at least 1 (got {value!r}).")
