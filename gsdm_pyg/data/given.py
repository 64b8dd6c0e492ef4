"""What a user gives: arrays by name, whole or with NaN for missing entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.settings import GraphOptions


def check_given(
    graph: GraphicalModel,
    given: Mapping[str, Any],
    options: GraphOptions = GraphOptions(),
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Validate `given`: its values, and which entries of each variable are known.

    Arrays have the shape of their variable, for one instance, or one more dimension in
    front, [B, *shape], for B instances. The results have that dimension if any array
    has it; arrays without it hold for all B.

    Args:
        graph: The graph that the model sees.
        given: Arrays by name, NaN (or masked) where an entry is missing.
        options: How the model sees the graph.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            'given must hold arrays by name, such as {"E": E} '
            f"(got {type(given).__name__})."
        )
    names = [v.name for v in graph.variables.values() if options.has_values(v.role)]
    for name in given:
        if name not in names:
            raise ValueError(
                f"given takes the variables {', '.join(names)} (got {name!r})."
            )
    arrays = {n: as_tensor(f"given[{n!r}]", value) for n, value in given.items()}
    lead = _lead(graph, arrays)
    values, known = {}, {}
    for name, variable in graph.variables.items():
        shape = (*lead, *variable.shape)
        if name not in arrays:
            known[name] = torch.zeros(shape, dtype=torch.bool)
            continue
        value = arrays[name].expand(shape)
        known[name] = ~value.isnan()
        wrong = known[name] & variable.domain.outside(value)
        if wrong.any():
            raise ValueError(
                f"given[{name!r}] takes {variable.domain}, NaN where unknown "
                f"(got {value[wrong][0].item()})."
            )
        values[name] = torch.where(known[name], value, 0)
    return values, known


def _lead(graph: GraphicalModel, arrays: dict[str, Tensor]) -> tuple[int, ...]:
    """(B,) if some arrays hold B instances each, () if all hold one."""
    leads: dict[tuple[int, ...], str] = {}
    for name, array in arrays.items():
        shape = graph.variables[name].shape
        num_lead = array.dim() - len(shape)
        if num_lead not in (0, 1) or tuple(array.shape[num_lead:]) != shape:
            raise ValueError(
                f"given[{name!r}] must have the shape {shape}, or {('B', *shape)} for "
                f"B instances at once (got {tuple(array.shape)})."
            )
        leads.setdefault(tuple(array.shape[:num_lead]), name)
    batched = {lead: name for lead, name in leads.items() if lead}
    if len(batched) > 1 or (0,) in batched:
        got = ", ".join(f"{lead[0]} in {name!r}" for lead, name in batched.items())
        raise ValueError(
            "All arrays of given must hold the same number of instances, at least one "
            f"(got {got})."
        )
    return next(iter(batched), ())


def as_tensor(name: str, value: Any) -> Tensor:
    """An array of numbers as float64, or int64 where it holds integers.

    Args:
        name: What to call it in errors.
        value: The array; masked entries become NaN.
    """
    try:
        if not isinstance(value, Tensor):
            masked = np.ma.array(value)  # a copy: strides may be negative
            real = np.issubdtype(masked.dtype, np.floating) or np.ma.is_masked(masked)
            array = masked.astype(float if real else int, casting="same_kind")
            value = torch.from_numpy(np.ma.filled(array, np.nan if real else 0))
        if value.is_complex() or value.layout != torch.strided:
            raise TypeError("complex or sparse")
        value = value.detach().cpu()
        return value.double() if value.is_floating_point() else value.long()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a dense array of real numbers, NaN where unknown "
            f"(got {value!r:.100})."
        ) from error
