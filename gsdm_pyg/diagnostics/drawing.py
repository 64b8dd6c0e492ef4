"""Draw instances, patterns and posterior samples: the raw material of a calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from gsdm_pyg.choices import Observe
from gsdm_pyg.diagnostics.evidence import (
    Neighborhoods,
    known_values,
    overall_features,
)
from gsdm_pyg.diagnostics.tarp import JOINT, reference_distances
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.simulate import simulate
from gsdm_pyg.variables import Variable

_MOMENT_DRAWS = 256  # instances that means and standard deviations come from

Function = Callable[[dict[str, Tensor]], Any]
Chunk = dict[str, tuple[Tensor, Tensor]]  # name -> draws [n, S + 1], features [n, F]


class Sampler(Protocol):
    """Anything that draws from a posterior as `GSDM.sample` does."""

    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        *,
        generator: torch.Generator | int | None = None,
    ) -> dict[str, Tensor]:
        """All variables given some: arrays [B, num_samples, *shape]."""


@dataclass(frozen=True)
class Setting:
    """One problem at one size under one pattern, and which quantities to draw of it."""

    problem: Problem
    pattern: Observe
    options: GraphOptions
    num_samples: int
    functions: Mapping[str, Function]
    key: tuple[int, ...]  # seed and number of this setting, for random streams

    @cached_property
    def graph(self) -> GraphicalModel:
        return graph_of(self.problem, self.options)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The variables that have values."""
        return {
            name: variable
            for name, variable in self.graph.variables.items()
            if self.options.has_values(variable.role)
        }

    @cached_property
    def moments(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of each variable, from draws of their own."""
        generator = keyed_generator("calibrate moments", *self.key)
        drawn = simulate(self.problem, _MOMENT_DRAWS, generator)
        found = {}
        for name in self.variables:
            value = drawn[name].double()
            std = value.std().item()
            found[name] = value.mean().item(), std if std > 0 else 1.0
        return found

    def num_classes(self, quantity: str) -> int | None:
        """K of a discrete variable, None of any other quantity."""
        variable = self.variables.get(quantity)
        return None if variable is None else variable.domain.num_classes

    def draw(self, model: Sampler, num: int, index: int) -> Chunk:
        """The draws of every quantity of `num` instances, the chunk of this number.

        Of a variable, the quantity is one of its unknown entries, chosen at random in
        each instance, so that instances are independent. Draws are NaN where nothing
        was unknown.
        """
        key = (*self.key, index)
        generator = keyed_generator("calibrate instances", *key)
        truth = simulate(self.problem, num, generator)
        truth = {name: truth[name] for name in self.variables}
        known = self._patterns(num, generator)
        given = {
            name: torch.where(known[name], value.double(), torch.nan)
            for name, value in truth.items()
        }
        samples = model.sample(
            self.problem,
            given,
            self.num_samples,
            generator=keyed_generator("calibrate samples", *key),
        )
        draws = {
            name: torch.cat([truth[name].to(drawn)[:, None], drawn], 1)
            for name, drawn in samples.items()
            if name in self.variables
        }
        x = known_values(self.graph, truth, known, self.moments)
        overall, around = overall_features(x), Neighborhoods(self.graph, x)
        chunk: Chunk = {}
        for name in draws:
            entry, has_any = _choose(~known[name], generator)
            flat = draws[name].double().reshape(num, self.num_samples + 1, -1)
            chosen = flat[torch.arange(num), :, entry]
            chosen = torch.where(has_any[:, None], chosen, torch.nan)
            near = around.features(self.variables[name].first_node + entry)
            chunk[name] = chosen, torch.cat([overall, near], 1)
        for name, function in self.functions.items():
            chunk[name] = _evaluate(name, function, draws), overall
        if len(draws) > 1 or any(v.num_nodes > 1 for v in self.variables.values()):
            chunk[JOINT] = self._distances(draws, known, generator), overall
        return chunk

    def _patterns(self, num: int, generator: torch.Generator) -> dict[str, Tensor]:
        """What is known: a boolean array [num, *shape] per variable.

        Mixed patterns are those of training that are not the roles' own and leave
        something unknown, as far as enough of them are drawn.
        """
        draw = self.problem.observe_batch
        if self.pattern == "roles":
            masks = draw(num, generator, "roles")
            return {name: masks[name] for name in self.variables}
        roles, masks = draw(1, generator, "roles"), draw(4 * num, generator, "mixed")
        differs = torch.zeros(4 * num, dtype=torch.bool)
        unknown = torch.zeros(4 * num, dtype=torch.bool)
        for name in self.variables:
            mask = masks[name].reshape(4 * num, -1)
            differs |= (mask != roles[name].reshape(1, -1)).any(1)
            unknown |= ~mask.all(1)
        order = torch.argsort((differs & unknown).long(), descending=True, stable=True)
        return {name: masks[name][order[:num]] for name in self.variables}

    def _distances(
        self, draws: Arrays, known: Arrays, generator: torch.Generator
    ) -> Tensor:
        """Distances to another draw from the prior, [n, S + 1]."""
        num = len(next(iter(known.values())))
        reference = simulate(self.problem, num, generator)
        unknown = {name: ~mask for name, mask in known.items()}
        scales = {
            name: None if self.num_classes(name) else self.moments[name][1]
            for name in draws
        }
        return reference_distances(draws, reference, unknown, scales)


def _choose(unknown: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One unknown entry of each instance at random, [B], and whether there is one."""
    flat = unknown.reshape(len(unknown), -1)
    weight = torch.rand(flat.shape, generator=generator, dtype=torch.double)
    return torch.where(flat, weight, -1.0).argmax(1), flat.any(1)


def _evaluate(name: str, function: Function, draws: Arrays) -> Tensor:
    """A function of all variables on the truth and samples of each instance.

    Where it has one value for all of them, it depends on what is known alone: NaN.
    """
    rows = []
    for instance in range(len(next(iter(draws.values())))):
        arrays = {n: torch.as_tensor(a)[instance] for n, a in draws.items()}
        num = len(next(iter(arrays.values())))
        value = torch.as_tensor(function(arrays))
        if value.shape != (num,) or not value.double().isfinite().all():
            raise ValueError(
                f"The function {name!r} gets arrays [S, *shape] by name and must "
                "return one finite number for each of the S samples, such as "
                "sample['x'].flatten(1).sum(1) "
                f"(got {_what(value)} for S={num})."
            )
        rows.append(value.detach().double())
    values = torch.stack(rows)
    constant = (values == values[:, :1]).all(1, keepdim=True)
    return torch.where(constant, torch.nan, values)


def _what(value: Tensor) -> str:
    wrong = value.double()[~value.double().isfinite()]
    return f"{wrong[0]} in it" if len(wrong) else f"the shape {tuple(value.shape)}"
