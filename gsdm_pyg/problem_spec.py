"""What a model remembers of its problem, at any size; part of config.json."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field, FiniteFloat
from torch import Tensor

from gsdm_pyg.choices import Scales, Transform
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import (
    Problem,
    ProblemFamily,
    check_source_argument,
    graph_of,
)
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.settings_base import Settings
from gsdm_pyg.simulate import simulate
from gsdm_pyg.sizes import plain
from gsdm_pyg.transforms import Scale, choose_scale
from gsdm_pyg.variables import Role, Variable

_DRAWS = 256  # instances that transforms, means and standard deviations come from
_CONSTANT = 1e-30  # a smaller standard deviation means a constant


class VariableSpec(Settings):
    """One variable at any size."""

    name: str
    """Its name in the graphical model."""
    num_classes: Annotated[int, Field(ge=2)] | None
    """K of a categorical variable, None of a continuous one."""
    role: Role
    """Whether it is latent, observed or intermediate."""
    loc: FiniteFloat
    """Mean of its values, after the transform."""
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Standard deviation of its values, after the transform."""
    transform: Transform = "identity"
    """The scale that a continuous variable diffuses on, see `gsdm_pyg.transforms`."""
    origin: FiniteFloat = 0.0
    """Where that scale begins: a bound, or the median of heavy tails."""
    width: FiniteFloat = 1.0
    """The unit of that scale, negative for an upper bound alone."""

    @property
    def scaled(self) -> Scale:
        """The transform with its constants."""
        return Scale(self.transform, self.origin, self.width)


class ProblemSpec(Settings):
    """The variables of a problem, and where they came from."""

    variables: list[VariableSpec]
    """In the order of the graphical model."""
    name: str | None = None
    """Name of the problem class, or path/to/file.py:ClassName."""
    sizes: dict[str, Any] | None = None
    """The sizes trained on, each as a family takes it: see `gsdm_pyg.sizes`."""
    shapes: dict[str, list[int]] | None = None
    """The shape of each variable, which independent embeddings are bound to."""

    @classmethod
    def of(
        cls,
        source: Problem | ProblemFamily,
        options: GraphOptions,
        scales: Scales = "support",
    ) -> ProblemSpec:
        """The description of a problem or a family of sizes.

        Args:
            source: The problem or the family.
            options: The graph that a model sees of it.
            scales: On which scale continuous variables diffuse, see `ModelSettings`.
        """
        check_source_argument(source)
        graph = graph_of(source.largest(), options)
        _check_same_variables(source.smallest(), source.largest())
        draws = draw_values(source)
        problem = source.problem if isinstance(source, ProblemFamily) else type(source)
        sizes = source.ranges if isinstance(source, ProblemFamily) else source.sizes()
        spec = cls(
            variables=[
                _describe(variable, draws[variable.name], scales)
                for variable in graph.variables.values()
            ],
            name=problem.reference or problem.__name__,
            sizes=plain(sizes),
            shapes=_shapes(graph) if options.embedding == "independent" else None,
        )
        spec.graph(source.smallest(), options)  # raises if embeddings fix the shapes
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


def draw_values(source: Problem | ProblemFamily) -> dict[str, Tensor]:
    """Values of each variable [M], as nodes hold them, of some instances."""
    generator = keyed_generator("moments")
    problems, which = source.draw_many(_DRAWS, generator)
    counts = which.bincount().tolist()
    draws = [
        simulate(problem, count, generator)
        for problem, count in zip(problems, counts, strict=True)
    ]
    values = {
        name: torch.cat([draw[name].reshape(-1) for draw in draws]) for name in draws[0]
    }
    # Rounded as nodes hold them: what differs by less is constant to a model.
    dtype = torch.get_default_dtype()
    return {name: value.to(dtype).double() for name, value in values.items()}


def moments(values: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of values [M]; that of a constant is 1."""
    spread = values.std(correction=0).item()
    varies = spread > _CONSTANT and bool((values != values[0]).any())
    return values.mean().item(), spread if varies else 1.0


def _describe(variable: Variable, draws: Tensor, scales: Scales) -> VariableSpec:
    """The description of a variable by values that were drawn of it."""
    scale = Scale() if scales == "linear" else choose_scale(variable.domain, draws)
    loc, spread = moments(scale.apply(draws))
    return VariableSpec(
        name=variable.name,
        num_classes=variable.domain.num_classes,
        role=variable.role,
        loc=loc,
        scale=spread,
        transform=scale.transform,
        origin=scale.origin,
        width=scale.width,
    )


def _check_same_variables(smallest: Problem, largest: Problem) -> None:
    """Refuse a family whose variables, classes or roles depend on its sizes."""
    small, large = (
        {n: (v.domain.num_classes, v.role) for n, v in graph_of(p).variables.items()}
        for p in (smallest, largest)
    )
    for name in {**large, **small}:
        if small.get(name) != large.get(name):
            raise ValueError(
                "One model needs the same variables, with the same classes and roles, "
                f"at all sizes: fix the sizes that {name!r} depends on (got {name!r} "
                f"{_kind(small.get(name))} in {smallest} and "
                f"{_kind(large.get(name))} in {largest})."
            )


def _kind(variable: tuple[int | None, Role] | None) -> str:
    if variable is None:
        return "missing"
    classes, role = variable
    values = f"{classes} classes" if classes else "continuous"
    return f"{role.value} with {values}" if classes else f"{role.value} and {values}"


def _names(variables: list[tuple[str, int | None, Role]]) -> str:
    return ", ".join(
        f"{name} ({classes} classes)" if classes else name
        for name, classes, _ in variables
    )


def _shapes(graph: GraphicalModel) -> dict[str, list[int]]:
    return {name: list(variable.shape) for name, variable in graph.variables.items()}


def _list(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
