"""What the methods of a problem return, checked: arrays by name, numbers by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Method(NamedTuple):
    """A method of a problem, as errors name it: sample() of BCMF(m=2, n=3, k=2)."""

    name: str
    problem: Any

    def __str__(self) -> str:
        return f"{self.name}() of {self.problem}"


def check_by_name(method: Method, values: Any) -> None:
    """Refuse what a method returned unless it is arrays by name."""
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{method} must return a dictionary with an array per variable "
            f"(got {type(values).__name__})."
        )


def as_values(method: Method, name: str, value: Any) -> Tensor:
    """Real numbers as a tensor, from an array of NumPy, a list or a number, too."""
    try:
        if np.ma.is_masked(value):  # torch would drop the mask
            raise ValueError("masked entries")
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{method} must return an array of numbers for {name!r} "
            f"(got {value!r:.100})."
        ) from error
    if tensor.is_complex():
        raise ValueError(
            f"{method} must return real numbers for {name!r} (got {tensor.dtype})."
        )
    return tensor


def stack_instances(method: Method, instances: Sequence[Any]) -> dict[str, Tensor]:
    """Arrays [*shape] of each instance -> one array [num, *shape] per variable."""
    for values in instances:
        check_by_name(method, values)
        if values.keys() != instances[0].keys():
            raise ValueError(
                f"{method} must return the same variables in every instance "
                f"(got {_list(instances[0])} and {_list(values)})."
            )
    stacked = {}
    for name in instances[0]:
        arrays = [as_values(method, name, values[name]) for values in instances]
        try:
            stacked[name] = torch.stack(arrays)
        except RuntimeError as error:
            shapes = {tuple(array.shape): None for array in arrays}
            raise ValueError(
                f"{method} must return {name!r} in the same shape in every instance "
                f"(got {' and '.join(map(str, shapes))})."
            ) from error
    return stacked


def first_instance(method: Method, batch: Any) -> dict[str, Tensor]:
    """Arrays [num, *shape] -> those of the first instance, [*shape]."""
    check_by_name(method, batch)
    arrays = {name: as_values(method, name, value) for name, value in batch.items()}
    for name, array in arrays.items():
        if not array.dim():
            raise ValueError(
                f"{method} must return an array with a first dimension of instances "
                f"for {name!r} (got {array.item()})."
            )
    return {name: array[0] for name, array in arrays.items()}


def check_scores(method: Method, scores: Sequence[Any]) -> list[dict[str, float]]:
    """What `metrics()` returned for each instance, as floats under the same names."""
    checked = []
    for score in scores:
        if not isinstance(score, Mapping):
            raise ValueError(
                f"{method} must return a dictionary with a number per metric, such as "
                f'{{"error": 0.5}} (got {score!r:.100}).'
            )
        if score.keys() != scores[0].keys():
            raise ValueError(
                f"{method} must return the same metrics for every instance: use NaN "
                "where one is not defined, and name it in `partial` "
                f"(got {_list(scores[0])} and {_list(score)})."
            )
        checked.append({n: _number(method, n, value) for n, value in score.items()})
    return checked


def _number(method: Method, name: str, value: Any) -> float:
    is_number = isinstance(value, int | float | np.number | np.bool_)
    is_number |= isinstance(value, Tensor | np.ndarray) and value.ndim == 0
    if not is_number:
        raise ValueError(
            f"{method} must return one number for {name!r}, such as a float or a "
            f"tensor without dimensions (got {value!r:.100})."
        )
    return float(value)


def _list(names: Mapping[str, Any]) -> str:
    return ", ".join(map(str, names)) or "none"
