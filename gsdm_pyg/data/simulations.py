"""Training on simulations that exist already, instead of a sampler."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.data.given import as_tensor
from gsdm_pyg.problem import Problem, graph_of


def with_simulations(problem: Problem, simulations: Mapping[str, Any]) -> Problem:
    """The same problem, whose instances are drawn from existing simulations.

    Args:
        problem: The problem at the size of the simulations.
        simulations: An array [num, *shape] per variable.
    """
    if not isinstance(simulations, Mapping):
        raise TypeError(
            'simulations must hold arrays by name, such as {"x": x} '
            f"(got {type(simulations).__name__})."
        )
    variables = graph_of(problem).variables
    if set(simulations) != set(variables):
        raise ValueError(
            f"simulations must hold the variables {', '.join(variables)} "
            f"(got {', '.join(map(str, simulations)) or 'none'})."
        )
    arrays = {n: as_tensor(f"simulations[{n!r}]", a) for n, a in simulations.items()}
    for name, array in arrays.items():
        variable = variables[name]
        if array.dim() == 0 or tuple(array.shape[1:]) != variable.shape:
            raise ValueError(
                f"simulations[{name!r}] must have the shape "
                f"{('num', *variable.shape)} (got {tuple(array.shape)})."
            )
        wrong = variable.domain.outside(array)
        if wrong.any():
            place = tuple(wrong.nonzero()[0].tolist())
            raise ValueError(
                f"simulations[{name!r}] must hold {variable.domain}, none missing "
                f"(got {array[place].item()} at {place})."
            )
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1 or 0 in lengths:
        got = ", ".join(f"{len(array)} of {name}" for name, array in arrays.items())
        raise ValueError(
            "simulations must hold the same number of instances of every variable, at "
            f"least one (got {got})."
        )
    (length,) = lengths

    def sample_batch(
        num: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        row = torch.randint(length, (num,), generator=generator)
        return {name: array[row] for name, array in arrays.items()}

    def sample(generator: torch.Generator | None = None) -> dict[str, Tensor]:
        return {name: values[0] for name, values in sample_batch(1, generator).items()}

    simulated = copy.copy(problem)  # equal to the problem, so that graphs are shared
    object.__setattr__(simulated, "sample_batch", sample_batch)
    object.__setattr__(simulated, "sample", sample)
    return simulated
