"""Values of a FOPPL program.

A constant is a number, a boolean or a string of Python, a random number or boolean a
0-dimensional tensor. Vectors are tuples, maps are dictionaries, and a distribution is a
`Law`; all of them may hold constants and random values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.programs.foppl.place import Misuse

Value = Any


@dataclass(frozen=True)
class Law:
    """A distribution by its name and parameters; parameters may be random."""

    name: str
    parameters: tuple[Value, ...]


def is_random(value: Value) -> bool:
    """Whether any part of a value is random."""
    return isinstance(value, Tensor) or any(map(is_random, _parts(value)))


def is_boolean(value: Value) -> bool:
    return isinstance(value, bool) or (
        isinstance(value, Tensor) and value.dtype == torch.bool
    )


def is_number(value: Value) -> bool:
    return isinstance(value, int | float | Tensor) and not is_boolean(value)


def numbers(values: Sequence[Value]) -> Sequence[Value]:
    """The values, which must be numbers."""
    for value in values:
        if not is_number(value):
            hint = "; bernoulli draws 0 or 1" if is_boolean(value) else ""
            raise Misuse(f"takes numbers{hint} (got {describe(value)}).")
    return values


def vector(value: Value) -> tuple[Value, ...]:
    """The value, which must be a vector."""
    if not isinstance(value, tuple):
        raise Misuse(f"takes a vector, such as [1 2 3] (got {describe(value)}).")
    return value


def whole(value: Value, least: int = 0) -> int:
    """The value, which must be a constant whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Misuse(
            f"takes a constant whole number of at least {least} (got "
            f"{describe(value)})."
        )
    return value


def describe(value: Value) -> str:
    """A value in an error message."""
    match value:
        case Tensor():
            return f"a random {'boolean' if is_boolean(value) else 'number'}"
        case bool() | None:
            return {True: "true", False: "false", None: "nil"}[value]
        case str():
            return value if value.startswith(":") else f'"{value}"'
        case tuple():
            return f"a vector of {len(value)}"
        case dict():
            return f"a map of {len(value)}"
        case Law():
            return f"the distribution {value.name}"
    return repr(value)


def to_tensor(value: Value) -> Tensor:
    """A number, a boolean or a vector of those (or of vectors) as one tensor."""
    if isinstance(value, tuple) and value:
        parts = [to_tensor(part) for part in value]
        if len({part.shape for part in parts}) > 1:
            raise Misuse("takes vectors of one length (got different ones).")
        return stack(parts)
    if not (is_number(value) or is_boolean(value)):
        raise Misuse(f"takes numbers and vectors of them (got {describe(value)}).")
    return value if isinstance(value, Tensor) else torch.tensor(value)


def stack(parts: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape as one, of a type that holds them all."""
    common = reduce(torch.promote_types, [part.dtype for part in parts])
    return torch.stack([part.to(common) for part in parts])


def from_tensor(value: Tensor) -> Value:
    """A tensor as a random number, or as a vector of them (or of vectors)."""
    return tuple(map(from_tensor, value.unbind())) if value.dim() else value


def choose(condition: Tensor, yes: Value, no: Value) -> Value:
    """What a random condition chooses, part by part."""
    return _merge([yes, no], lambda pair: torch.where(condition, pair[0], pair[1]))


def select(items: tuple[Value, ...], index: Tensor) -> Value:
    """The item at a random index, part by part."""
    if index.is_floating_point() or is_boolean(index):
        raise Misuse(
            "takes a whole number as an index, such as discrete draws (got "
            f"{describe(index)} that is none)."
        )
    return _merge(items, lambda parts: torch.stack(parts).gather(0, index[None])[0])


def _merge(options: Sequence[Value], join: Callable[[list[Tensor]], Tensor]) -> Value:
    """Options of one structure as one value; `join` takes what differs."""
    first = options[0]
    if not is_random(options) and all(_same(option, first) for option in options):
        return first
    if all(is_number(o) for o in options) or all(is_boolean(o) for o in options):
        return join(list(to_tensor(tuple(options)).unbind()))
    if any(_structure(option) != _structure(first) for option in options):
        names = " and ".join(dict.fromkeys(map(describe, options)))
        raise Misuse(
            "makes a random choice between values of one kind and length, such as two "
            f"numbers or two normal distributions (got {names})."
        )
    columns = zip(*map(_parts, options), strict=True)
    merged = [_merge(column, join) for column in columns]
    if isinstance(first, Law):
        return Law(first.name, tuple(merged))
    if isinstance(first, dict):
        return dict(zip(first, merged, strict=True))
    return tuple(merged)


def _same(a: Value, b: Value) -> bool:
    """Equality that tells 1, 1.0 and true apart."""
    return type(a) is type(b) and a == b


def _structure(value: Value) -> object:
    """What values that are merged part by part have in common."""
    match value:
        case Law():
            return value.name, len(value.parameters)
        case dict():
            return tuple(value)
        case tuple():
            return len(value)
    return type(value), value


def _parts(value: Value) -> Sequence[Value]:
    match value:
        case Law():
            return value.parameters
        case dict():
            return list(value.values())
        case tuple() | list():
            return value
    return ()
