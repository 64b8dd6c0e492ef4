"""Samples by name -> one column per entry: A [S, 2, 3] has A[0,0], ..., A[1,2]."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor


def as_samples(what: str, samples: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arrays [S, *shape] by name as tensors on the CPU, the same S >= 1 for all.

    Args:
        what: What to call them in errors.
        samples: The arrays, as `GSDM.sample` returns them.
    """
    if not isinstance(samples, Mapping) or not samples:
        raise TypeError(
            f"{what} must hold arrays by name, as model.sample(...) returns them "
            f"(got {type(samples).__name__ if samples else 'none'})."
        )
    arrays = {
        str(name): torch.as_tensor(value).detach().cpu()
        for name, value in samples.items()
    }
    sizes = {name: array.shape[:1] for name, array in arrays.items()}
    if len(set(sizes.values())) > 1 or sizes[next(iter(sizes))] in ((), (0,)):
        got = ", ".join(f"{tuple(arrays[name].shape)} for {name}" for name in arrays)
        raise ValueError(
            f"{what} must hold arrays [S, *shape] with the same number S of samples, "
            f"at least one (got {got})."
        )
    return arrays


def entries(samples: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every entry of every variable, [S], under a name such as A[0,1]."""
    columns = {}
    for name, array in samples.items():
        places = product(*map(range, array.shape[1:]))
        flat = array.reshape(len(array), -1)  # [S, num]
        for place, column in zip(places, flat.unbind(1), strict=True):
            columns[entry_name(name, place)] = column
    return columns


def entry_name(name: str, place: tuple[int, ...]) -> str:
    """A[0,1]; the name alone of a variable that is a single number."""
    return f"{name}[{','.join(map(str, place))}]" if place else name


def is_discrete(array: Tensor) -> bool:
    """Whether an array holds classes, which are integers or booleans."""
    return not array.is_floating_point()
