"""Instances that a problem draws, checked before anything is computed from them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.returned import Method, as_values, check_by_name


def simulate(
    problem: Problem,
    num: int,
    generator: torch.Generator | None = None,
    step: int | None = None,
) -> dict[str, Tensor]:
    """`num` instances of a problem: an array [num, *shape] per variable.

    Args:
        problem: The problem, whose sampler may return arrays of NumPy, lists, numbers.
        num: How many instances to draw.
        generator: Source of randomness.
        step: The training step, for errors.
    """
    derived = getattr(type(problem).sample_batch, "derived", False)
    method = Method("sample" if derived else "sample_batch", problem)
    return _check(method, problem.sample_batch(num, generator), num, derived, step)


def simulate_one(
    problem: Problem, generator: torch.Generator | None = None
) -> dict[str, Tensor]:
    """One instance, from `sample`: an array [*shape] per variable."""
    drawn: Any = problem.sample(generator)
    method = Method("sample", problem)
    check_by_name(method, drawn)
    batch = {n: as_values(method, n, value)[None] for n, value in drawn.items()}
    checked = _check(method, batch, 1, True, None)
    return {name: value[0] for name, value in checked.items()}


def _check(
    method: Method,
    drawn: Any,
    num: int,
    one_by_one: bool,
    step: int | None,
) -> dict[str, Tensor]:
    """Arrays by name, all variables in their shapes, all values in their domains."""
    check_by_name(method, drawn)
    variables = graph_of(method.problem).variables
    if drawn.keys() != variables.keys():
        raise ValueError(
            f"{method} must return the variables {', '.join(variables)} "
            f"(got {', '.join(map(str, drawn)) or 'none'})."
        )
    values = {}
    for name, variable in variables.items():
        value = as_values(method, name, drawn[name])
        if value.shape != (num, *variable.shape):
            shape, found = (num, *variable.shape), tuple(value.shape)
            if one_by_one:
                shape, found = shape[1:], found[1:]
            instances = "" if one_by_one else f", which is {num} instances"
            raise ValueError(
                f"{method} must return {name!r} in the shape {shape}{instances} "
                f"(got {found})."
            )
        if not variable.domain.holds(value):
            dtype = torch.get_default_dtype()
            wrong = variable.domain.outside(value)
            wrong |= ~torch.isfinite(value.to(dtype))
            at = "" if step is None else f" at training step {step}"
            raise ValueError(
                f"{method} must draw {name!r} from {variable.domain}, finite in "
                f"{dtype} (got {value[wrong][0].item()}{at})."
            )
        values[name] = value
    return values
