"""What a model remembers of its problem, at any size; part of config.json."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field, FiniteFloat

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem, ProblemFamily, graph_of
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.settings_base import Settings
from gsdm_pyg.variables import Role

_DRAWS = 256  # instances that means and standard deviations come from


class VariableSpec(Settings):
    """One variable at any size."""

    name: str
    """Its name in the graphical model."""
    num_classes: Annotated[int, Field(ge=2)] | None
    """K of a categorical variable, None of a continuous one."""
    role: Role
    """Whether it is latent, observed or intermediate."""
    loc: FiniteFloat
    """Mean of its values."""
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Standard deviation of its values."""


class ProblemSpec(Settings):
    """The variables of a problem, and where they came from."""

    variables: list[VariableSpec]
    """In the order of the graphical model."""
    name: str | None = None
    """Name of the problem class, or path/to/file.py:ClassName."""
    sizes: dict[str, Any] | None = None
    """The sizes trained on, each a number or [low, high]."""
    shapes: dict[str, list[int]] | None = None
    """The shape of each variable, which independent embeddings are bound to."""

    @classmethod
    def of(cls, source: Problem | ProblemFamily, options: GraphOptions) -> ProblemSpec:
        """The description of a problem or a family of sizes."""
        graph = graph_of(source.largest(), options)
        moments = _moments(source)
        problem = source.problem if isinstance(source, ProblemFamily) else type(source)
        sizes = source.ranges if isinstance(source, ProblemFamily) else source.sizes()
        spec = cls(
            variables=[
                VariableSpec(
                    name=variable.name,
                    num_classes=variable.domain.num_classes,
                    role=variable.role,
                    loc=moments[variable.name][0],
                    scale=moments[variable.name][1],
                )
                for variable in graph.variables.values()
            ],
            name=problem.reference or problem.__name__,
            sizes={n: list(s) if isinstance(s, tuple) else s for n, s in sizes.items()},
            shapes=_shapes(graph) if options.embedding == "independent" else None,
        )
        spec.graph(source.smallest(), options)
        return spec

    def graph(self, problem: Problem, options: GraphOptions) -> GraphicalModel:
        """The graph that the model sees of a problem, if it has these variables."""
        graph = graph_of(problem, options)
        known = [(v.name, v.num_classes, v.role) for v in self.variables]
        found = [
            (v.name, v.domain.num_classes, v.role) for v in graph.variables.values()
        ]
        if known != found:
            raise ValueError(
                f"This model was trained on {self.name or 'another problem'} with the "
                f"variables {_names(known)}; {type(problem).__name__} does not fit "
                f"(got {_names(found)})."
            )
        if self.shapes is not None and self.shapes != _shapes(graph):
            raise ValueError(
                f"Independent embeddings know one size, {_list(self.shapes)}: keep to "
                "it, or train a model with embedding='array' or 'exchangeable' "
                f"(got {_list(_shapes(graph))})."
            )
        return graph


def _moments(source: Problem | ProblemFamily) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of each variable."""
    generator = keyed_generator("moments")
    problems, which = source.draw_many(_DRAWS, generator)
    counts = which.bincount().tolist()
    draws = [
        problem.sample_batch(count, generator)
        for problem, count in zip(problems, counts, strict=True)
    ]
    names = list(graph_of(source.largest()).variables)
    if set(draws[0]) != set(names):
        raise ValueError(
            f"sample() must return the variables {', '.join(names)} "
            f"(got {', '.join(draws[0])})."
        )
    moments = {}
    for name in names:
        values = torch.cat([draw[name].reshape(-1).double() for draw in draws])
        spread = values.std(correction=0).item()
        moments[name] = values.mean().item(), spread if spread > 1e-6 else 1.0
    return moments


def _names(variables: list[tuple[str, int | None, Role]]) -> str:
    return ", ".join(
        f"{name} ({classes} classes)" if classes else name
        for name, classes, _ in variables
    )


def _shapes(graph: GraphicalModel) -> dict[str, list[int]]:
    return {name: list(variable.shape) for name, variable in graph.variables.items()}


def _list(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
