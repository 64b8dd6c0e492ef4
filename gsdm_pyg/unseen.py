"""What is asked of a model that its training never saw: patterns, values, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import ModelSettings
from gsdm_pyg.transforms import Scale
from gsdm_pyg.variables import Role

FAR_VALUE = 10  # standard deviations from the mean
FAR_SIZE = 8  # times the largest size of training


def unseen(
    spec: ProblemSpec,
    settings: ModelSettings,
    problem: Problem,
    values: Arrays,
    known: Arrays,
) -> dict[str, str]:
    """A warning for each kind of thing that training never saw.

    Args:
        spec: What the model was trained on.
        settings: How it was trained.
        problem: The problem to sample.
        values: What is given.
        known: Which entries are given.
    """
    return {
        **dict(_patterns(spec, settings, problem, known)),
        **dict(_values(spec, values, known)),
        **dict(_sizes(spec.sizes or {}, problem)),
    }


def _patterns(
    spec: ProblemSpec, settings: ModelSettings, problem: Problem, known: Arrays
) -> Iterator[tuple[str, str]]:
    if settings.observe != "roles" or type(problem).observe is not Problem.observe:
        return
    trained = [v.name for v in spec.variables if v.role is Role.OBSERVED]
    as_trained = all(
        bool(mask.all()) if name in trained else not mask.any()
        for name, mask in known.items()
    )
    if not as_trained:
        names = " and ".join(sorted(trained)) or "no variable"
        yield (
            "pattern",
            f"Training conditioned on {names} whole and on nothing else: samples given "
            'another pattern may be poor. Train with observe="mixed" for those '
            "(model.observe=mixed in a config).",
        )


def _values(
    spec: ProblemSpec, values: Arrays, known: Arrays
) -> Iterator[tuple[str, str]]:
    for variable in spec.variables:
        if variable.num_classes is not None or variable.name not in values:
            continue
        value: Tensor = values[variable.name][known[variable.name]]
        scale = variable.scaled
        low, high = scale.limits(variable.loc, variable.scale)
        y = scale.apply(value.double()).clamp(low, high)
        distance = ((y - variable.loc) / variable.scale).abs()
        if distance.numel() and distance.max() > FAR_VALUE:
            mean = scale.invert(torch.tensor(variable.loc, dtype=torch.double)).item()
            on = "" if scale == Scale() else f" on the scale of {scale.transform}"
            yield (
                f"value of {variable.name}",
                f"given[{variable.name!r}] has values {distance.max():.0f} standard "
                f"deviations{on} from the mean of training, {mean:.3g}: samples may be "
                "meaningless. Give values on the scale that sample() draws.",
            )


def _sizes(trained: dict[str, Any], problem: Problem) -> Iterator[tuple[str, str]]:
    for name, size in problem.sizes().items():
        seen = trained.get(name)
        if isinstance(size, tuple):  # one size per plate
            size = max(size)
            seen = seen.get("each") if isinstance(seen, dict) else max(seen or [0])
        largest = seen[-1] if isinstance(seen, list) else seen
        if not isinstance(size, int) or not isinstance(largest, int):
            continue
        if size > FAR_SIZE * largest > 0:
            yield (
                f"size {name}",
                f"{name}={size} is more than {FAR_SIZE} times the largest of training, "
                f"{largest}: samples may be poor. Evaluate the model at that size, or "
                "train it on larger ones.",
            )
