"""Posterior predictive checks: are the data like data of posterior samples?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.data import check_given
from gsdm_pyg.problem import Problem, check_problem_argument, graph_of
from gsdm_pyg.returned import Method, as_values, check_by_name
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.variables import Role, Variable

Statistic = Callable[[dict[str, Tensor]], Any]

_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {  # [S, entries] -> [S]
    "mean": lambda x: x.mean(1),
    "std": lambda x: x.std(1),
    "min": lambda x: x.amin(1),
    "max": lambda x: x.amax(1),
}


class Posterior(Protocol):
    """Anything that draws from a posterior as `GSDM.sample` does."""

    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        *,
        generator: torch.Generator | int | None = None,
        **sampler: Any,
    ) -> dict[str, Tensor]:
        """All variables given some: arrays [num_samples, *shape]."""


@dataclass(frozen=True)
class PredictiveCheck:
    """Statistics of the data beside those of S replications of the data.

    Args:
        data: Each statistic of the data.
        replicated: Each statistic of the replications, [S].
        replications: The observed variables drawn anew, [S, *shape], by name.
    """

    data: dict[str, float]
    replicated: dict[str, Tensor]
    replications: dict[str, Tensor]

    @property
    def tail_probabilities(self) -> dict[str, float]:
        """P(replicated > data) + P(replicated = data) / 2, for each statistic.

        Near 0 or 1, the data are unlike what the posterior predicts.
        """
        return {
            name: float(
                (values > self.data[name]).double().mean()
                + (values == self.data[name]).double().mean() / 2
            )
            for name, values in self.replicated.items()
        }

    def figure(self) -> Figure:
        """A histogram of each replicated statistic, and a line where the data are."""
        num, columns = len(self.data), min(len(self.data), 4)
        rows = math.ceil(num / columns)
        figure = Figure(figsize=(3 * columns, 2.4 * rows), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        tails = self.tail_probabilities
        for ax, (name, value) in zip(axes[:num], self.data.items(), strict=True):
            replicated = self.replicated[name]
            bins = 30 if len(replicated.unique()) > 30 else "auto"
            ax.hist(replicated.numpy(), bins=bins, color="tab:blue", alpha=0.6)
            ax.axvline(value, color="tab:red")
            ax.set(title=name, xlabel=f"tail probability {tails[name]:.3f}", yticks=[])
        for ax in axes[num:]:
            ax.set_axis_off()
        return figure

    def __str__(self) -> str:
        """A table with a row per statistic."""
        width = max(len("statistic"), *map(len, self.data))
        lines = [f"{'statistic':{width}}     data  replicated (std)      tail"]
        for name, tail in self.tail_probabilities.items():
            mean = float(self.replicated[name].mean())
            std = float(self.replicated[name].std(correction=0))
            replicated = f"{mean:.4g} ({std:.2g})"
            lines.append(
                f"{name:{width}} {self.data[name]:8.4g}  {replicated:16} {tail:9.3f}"
            )
        return "\n".join(lines)


def predictive_check(
    model: Posterior,
    problem: Problem,
    given: Mapping[str, Any],
    statistics: Mapping[str, Statistic] | None = None,
    *,
    num_samples: int = 200,
    seed: int = 0,
    **sampler: Any,
) -> PredictiveCheck:
    """Draw the data anew from posterior samples, and compare statistics of both.

    Latent variables are sampled given the data, and observed ones by `Problem.predict`
    given the latent ones. Entries of the data that are missing count nowhere.

    Args:
        model: A model, or anything with such a `sample`.
        problem: The problem: a program, or one that defines `predict`.
        given: One instance, as for `GSDM.sample`, with data of an observed variable.
        statistics: Functions by name: each gets arrays [S, *shape] of the observed
            variables that are given, NaN where the data are missing, and returns [S]
            numbers. By default mean, standard deviation, minimum and maximum of each
            variable; of a discrete one, the share of each class.
        num_samples: S, how many posterior samples.
        seed: Chooses samples and data.
        sampler: Such as `steps=50`, as for `GSDM.sample`.
    """
    graph = graph_of(check_problem_argument(problem))
    values, known = check_given(graph, given)
    data = {}
    for name, variable in graph.variables.items():
        if variable.role is Role.OBSERVED and name in values and known[name].any():
            missing = ~known[name]
            data[name] = values[name].double().masked_fill(missing, torch.nan)[None]
            if values[name].shape != variable.shape:
                raise ValueError(
                    "predictive_check takes one instance at a time: pass arrays "
                    f"without a first dimension (got given[{name!r}] with the shape "
                    f"{tuple(values[name].shape)})."
                )
    variables = [graph.variables[name] for name in data]
    if not variables:
        names = [n for n, v in graph.variables.items() if v.role is Role.OBSERVED]
        raise ValueError(
            "predictive_check compares data of observed variables, here "
            f"{', '.join(names) or 'none'} (got {', '.join(given) or 'none'})."
        )
    generator = keyed_generator("predictive samples", seed)
    samples = model.sample(problem, given, num_samples, generator=generator, **sampler)
    latents = {
        name: samples[name]
        for name, variable in graph.variables.items()
        if variable.role is Role.LATENT
    }
    drawn = problem.predict(latents, keyed_generator("predictive data", seed))
    replications = _check_drawn(problem, variables, drawn, num_samples)
    alike = {  # missing where the data are missing
        name: replications[name].double().masked_fill(data[name].isnan(), torch.nan)
        for name in data
    }
    chosen = dict(_default_statistics(variables, data))
    if statistics is not None:
        chosen = dict(statistics)
    return PredictiveCheck(
        {name: _apply(name, f, data, 1).item() for name, f in chosen.items()},
        {name: _apply(name, f, alike, num_samples) for name, f in chosen.items()},
        replications,
    )


def _default_statistics(
    variables: list[Variable], data: Mapping[str, Tensor]
) -> Iterator[tuple[str, Statistic]]:
    for variable in variables:
        name, classes = variable.name, variable.domain.num_classes
        known = ~data[name][0].isnan()
        if classes:
            for k in range(1 if classes == 2 else 0, classes):
                yield f"share({name}={k})", _statistic(name, known, _share(k))
        elif known.sum() == 1:
            yield name, _statistic(name, known, _REDUCTIONS["mean"])
        else:
            for kind, reduce in _REDUCTIONS.items():
                yield f"{kind}({name})", _statistic(name, known, reduce)


def _statistic(
    name: str, known: Tensor, reduce: Callable[[Tensor], Tensor]
) -> Statistic:
    return lambda arrays: reduce(arrays[name][:, known])


def _share(k: int) -> Callable[[Tensor], Tensor]:
    return lambda x: (x == k).double().mean(1)


def _apply(
    name: str, statistic: Statistic, arrays: Mapping[str, Tensor], num: int
) -> Tensor:
    found = torch.as_tensor(statistic(dict(arrays))).detach().double().cpu()
    if found.shape != (num,):
        raise ValueError(
            f"The statistic {name!r} must return one number per sample, an array "
            f"[{num}] of arrays [{num}, *shape] (got {tuple(found.shape)})."
        )
    if found.isnan().any():
        raise ValueError(
            f"The statistic {name!r} must return numbers; missing data are NaN in what "
            "it gets, so use functions such as torch.nanmean (got NaN)."
        )
    return found


def _check_drawn(
    problem: Problem, variables: list[Variable], drawn: Any, num: int
) -> dict[str, Tensor]:
    """What `predict` returned of some variables, in their shapes."""
    method = Method("predict", problem)
    check_by_name(method, drawn)
    values = {}
    for variable in variables:
        name, shape = variable.name, (num, *variable.shape)
        if name not in drawn:
            raise ValueError(
                f"{method} must return every observed variable, also {name!r} "
                f"(got {', '.join(map(str, drawn)) or 'none'})."
            )
        values[name] = as_values(method, name, drawn[name])
        if values[name].shape != shape:
            raise ValueError(
                f"{method} must return {name!r} in the shape {shape} "
                f"(got {tuple(values[name].shape)})."
            )
    return values
