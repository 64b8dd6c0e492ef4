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
    """Validate `given`: its values, and which entries of each variable are known."""
    names = [v.name for v in graph.variables.values() if options.has_values(v.role)]
    for name in given:
        if name not in names:
            raise ValueError(
                f"given takes the variables {', '.join(names)} (got {name!r})."
            )
    values, known = {}, {}
    for name, variable in graph.variables.items():
        known[name] = torch.zeros(variable.shape, dtype=torch.bool)
        if name not in given:
            continue
        value = _as_tensor(name, given[name])
        if tuple(value.shape) != variable.shape:
            raise ValueError(
                f"given[{name!r}] must have the shape {variable.shape} "
                f"(got {tuple(value.shape)})."
            )
        known[name] = ~value.isnan()
        wrong = known[name] & variable.domain.outside(value)
        if wrong.any():
            raise ValueError(
                f"given[{name!r}] takes {variable.domain}, NaN where unknown "
                f"(got {value[wrong][0].item()})."
            )
        values[name] = torch.where(known[name], value, 0)
    return values, known


def _as_tensor(name: str, value: Any) -> Tensor:
    """An array of numbers as float64, or int64 where it holds whole numbers."""
    try:
        if not isinstance(value, Tensor):
            array = np.array(value)  # a copy: strides may be negative
            real = np.issubdtype(array.dtype, np.floating)
            array = array.astype(float if real else int, casting="same_kind")
            value = torch.from_numpy(array)
        if value.is_complex():
            raise TypeError("complex numbers")
        value = value.detach().cpu()
        return value.double() if value.is_floating_point() else value.long()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"given[{name!r}] must be an array of real numbers, NaN where unknown "
            f"(got {value!r})."
        ) from error
