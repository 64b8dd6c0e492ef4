"""Samples for other tools: ArviZ and pandas, both imported when used."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.diagnostics.entries import as_samples, entries
from gsdm_pyg.problem import Problem, check_problem_argument, graph_of
from gsdm_pyg.variables import Role


def to_dataframe(samples: Mapping[str, Any]) -> Any:
    """A `pandas.DataFrame` with a row per sample and a column per entry, A[0,1].

    Args:
        samples: An array [S, *shape] per variable, as `GSDM.sample` returns them.
    """
    pandas = _optional("pandas", "to_dataframe")
    columns = entries(as_samples("samples", samples))
    return pandas.DataFrame({name: x.numpy() for name, x in columns.items()})


def to_arviz(
    samples: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    problem: Problem | None = None,
) -> Any:
    """Samples in the format of ArviZ, as one chain: `InferenceData`, or a `DataTree`.

    Samples are independent, so that diagnostics of chains (R-hat, autocorrelation) say
    nothing about them.

    Args:
        samples: An array [S, *shape] per variable, as `GSDM.sample` returns them.
        given: What they were drawn given, for the group observed_data. Variables that
            are given whole are no part of the posterior.
        problem: The problem. Samples of its observed variables that are not given whole
            are in the group posterior_predictive then, not among the latent ones.
    """
    arviz = _optional("arviz", "to_arviz")
    arrays = as_samples("samples", samples)
    data = {str(n): torch.as_tensor(value).cpu() for n, value in (given or {}).items()}
    for name, value in data.items():
        if name not in arrays or value.shape != arrays[name].shape[1:]:
            shapes = {n: tuple(array.shape[1:]) for n, array in arrays.items()}
            raise ValueError(
                "given must hold one instance of variables of the samples, with the "
                f"shapes {shapes} (got {name!r} with {tuple(value.shape)})."
            )
    groups: dict[str, dict[str, Any]] = {
        "posterior": {},
        "posterior_predictive": {},
        "observed_data": {name: value.numpy() for name, value in data.items()},
    }
    observed = _observed(problem, arrays)
    for name, array in arrays.items():
        if name in data and not data[name].isnan().any():
            continue
        group = "posterior_predictive" if name in observed else "posterior"
        groups[group][name] = array[None].numpy()  # [chain, draw, *shape]
    groups = {group: values for group, values in groups.items() if values}
    by_keyword = "posterior" in inspect.signature(arviz.from_dict).parameters
    return arviz.from_dict(**groups) if by_keyword else arviz.from_dict(groups)


def _observed(problem: Problem | None, arrays: Mapping[str, Tensor]) -> set[str]:
    """The names of the problem's observed variables; samples must have its shapes."""
    if problem is None:
        return set()
    variables = graph_of(check_problem_argument(problem)).variables
    for name, array in arrays.items():
        variable = variables.get(name)
        if variable is None or array.shape[1:] != variable.shape:
            shapes = {v.name: v.shape for v in variables.values()}
            raise ValueError(
                f"samples must hold arrays [S, *shape] of one instance of {problem}, "
                f"with the shapes {shapes} (got {name!r} with {tuple(array.shape)})."
            )
    return {name for name, v in variables.items() if v.role is Role.OBSERVED}


def _optional(package: str, function: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as failure:
        if failure.name != package:
            raise
        raise ModuleNotFoundError(
            f"{function} needs {package}: install it by `pip install {package}`.",
            name=package,
        ) from failure
