"""Values on their way: JSON of the page -> arrays of `given`, and arrays -> JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel

DIGITS = 5  # significant digits of the numbers that the page shows
MOST_KEYS = 20  # of a request


class BadRequest(ValueError):
    """What the page, or somebody else, sent cannot be used; the message says why."""


def read_json(body: bytes) -> dict[str, Any]:
    """An object from JSON with a few keys; numbers are finite."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        content = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f"The request is not JSON that the workbench reads (got {error})."
        ) from None
    if not isinstance(content, dict):
        raise BadRequest(
            f"The request is an object of JSON (got {type(content).__name__})."
        )
    if len(content) > MOST_KEYS:
        raise BadRequest(
            f"A request has at most {MOST_KEYS} keys (got {len(content):,})."
        )
    return content


def read_given(
    graph: GraphicalModel, given: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Lists of all entries of a variable, null where unknown, as arrays with NaN."""
    arrays = {}
    for name, entries in given.items():
        if name not in graph.variables:
            known = ", ".join(graph.variables)
            raise BadRequest(f"The variables are {known} (got {name!r:.100}).")
        variable = graph.variables[name]
        if not isinstance(entries, list) or len(entries) != variable.num_nodes:
            found = len(entries) if isinstance(entries, list) else entries
            raise BadRequest(
                f"{name} takes a list of its {variable.num_nodes} entries, null where "
                f"unknown (got {found!r:.100})."
            )
        for entry in entries:
            if entry is not None and not _is_number(entry):
                raise BadRequest(
                    f"An entry of {name} is a number, or null where unknown "
                    f"(got {entry!r:.100})."
                )
        array = np.array([math.nan if e is None else e for e in entries], dtype=float)
        arrays[name] = array.reshape(variable.shape)
    return arrays


def _is_number(entry: Any) -> bool:
    if isinstance(entry, bool) or not isinstance(entry, int | float):
        return False
    return abs(entry) < 1e300  # also where float() of a long integer would fail


def to_list(values: Tensor) -> list[Any]:
    """All entries in row-major order, real numbers to a few significant digits.

    Numbers that are not finite, as JSON has none of those, are null.
    """
    flat = values.detach().cpu().flatten()
    if not flat.is_floating_point():
        return flat.long().tolist()
    finite = flat.isfinite()
    largest = float(flat.where(finite, 0).abs().max())
    decimals = DIGITS - 1 - math.floor(math.log10(largest)) if largest > 0 else 0
    rounded = np.round(flat.double().numpy(), decimals).tolist()
    return [x if math.isfinite(x) else None for x in rounded]
