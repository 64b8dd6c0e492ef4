"""Specs as graphs: what the attributes of one node of networkx say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gsdm_pyg.checks import whole_number
from gsdm_pyg.variables import Categorical, Continuous, Domain, Integer, Role


class Entry(NamedTuple):
    """What the attributes of a node say."""

    node: Any
    variable: str
    position: tuple[int, ...]
    role: Role
    domain: Domain
    coordinates: tuple[int, ...] | None

    def __str__(self) -> str:
        return entry_text(self.variable, self.position)


def read_node(node: Any, attributes: Mapping[str, Any]) -> Entry:
    """A node, checked; without a variable of its own it is a single number."""
    position = attributes.get("position")
    if position is not None and "variable" not in attributes:
        raise ValueError(
            "An entry of an array has the attributes `variable` and `position` "
            f"(got node {node!r} without `variable`)."
        )
    coordinates = attributes.get("coordinates")
    try:
        return Entry(
            node,
            str(attributes.get("variable", node)),
            () if position is None else _integers("position", position, least=0),
            _role(attributes),
            _domain(attributes),
            None if coordinates is None else _integers("coordinates", coordinates),
        )
    except ValueError as error:
        raise ValueError(f"Node {node!r}: {error}") from error


def _integers(name: str, value: Any, least: float = -math.inf) -> tuple[int, ...]:
    """Integers from a tuple, a list, a single one, or text such as "[0, 1]"."""
    found = value
    try:
        found = json.loads(found) if isinstance(found, str) else found
        found = [found] if whole_number(found) is not None else list(found)
        numbers = [whole_number(number) for number in found]
    except (TypeError, ValueError):
        numbers = [None]
    integers = tuple(number for number in numbers if number is not None)
    if len(integers) < len(numbers) or any(number < least for number in integers):
        which = (
            "integers" if least == -math.inf else f"integers of at least {least:.0f}"
        )
        raise ValueError(f"`{name}` holds {which}, such as [0, 1] (got {value!r}).")
    return integers


def _role(attributes: Mapping[str, Any]) -> Role:
    observed = attributes.get("observed")
    if observed is not None and not isinstance(observed, bool | np.bool_):
        raise ValueError(f"`observed` is True or False (got {observed!r}).")
    role = attributes.get("role")
    if role is None:
        return Role.OBSERVED if observed else Role.LATENT
    if observed is not None and bool(observed) != (Role(role) is Role.OBSERVED):
        raise ValueError(
            "`role` and `observed` contradict each other: drop one of them "
            f"(got role={role!r} and observed={observed!r})."
        )
    return Role(role)


def _domain(attributes: Mapping[str, Any]) -> Domain:
    bounds = {key: attributes[key] for key in ("low", "high") if key in attributes}
    if not (classes := attributes.get("classes")):
        return (Integer if attributes.get("integer") else Continuous)(**bounds)
    if bounds:
        raise ValueError(f"A node has classes or bounds (got both, {classes} classes).")
    return Categorical(classes)


def entry_text(variable: str, position: tuple[int, ...]) -> str:
    """An entry as text, such as "x[0, 2]", or "x" of a single number."""
    return variable + (str(list(position)) if position else "")
