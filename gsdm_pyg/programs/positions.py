"""Which indices of a program's variables a model must know (section 3.2).

An index that can be permuted needs no position: all its values share embeddings. The
graph alone cannot tell, since equal edges may have unequal parameters. A program can:
its densities and computed values are compared before and after a permutation of values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem
from gsdm_pyg.programs.replay import Terms, replay
from gsdm_pyg.programs.symmetry import (
    Index,
    check_exchangeable,
    colors,
    indices,
    orbits,
)

SMALLEST = 5  # the sizes at which symmetry is looked for are 5, 6, 7, ...
DRAWS = 8  # instances on which densities are compared
TOLERANCE = 1e-4

Values = Mapping[str, Tensor]
Axes = dict[str, tuple[int, ...]]  # the axes of each variable that are positions


def typical_sizes(problem: Problem) -> dict[str, Any]:
    """Small sizes that all differ.

    Whether an index can be permuted must not depend on the size: one model serves all.
    """
    return {
        name: SMALLEST + number if kind == "size" else (3, 2, 4)
        for number, (name, kind) in enumerate(problem.size_kinds.items())
        if getattr(problem, name) is not None
    }


def positions_by_graph(graph: GraphicalModel) -> Axes:
    """The axes whose index the graph does not allow to permute.

    A variable has none if all of its nodes can take each other's place, as the cells of
    a Sudoku can.
    """
    found = [index for index in indices(graph) if check_exchangeable(graph, index)]
    orbit = orbits(graph)
    return {
        name: axes
        for name, axes in _axes(found).items()
        if len(orbit[graph.variables[name].nodes].unique()) > 1
    }


def all_axes(graph: GraphicalModel) -> Axes:
    """All axes of all variables: what is always safe."""
    return {v.name: tuple(range(len(v.shape))) for v in graph.variables.values()}


def positions_by_program(
    graph: GraphicalModel,
    program: Callable[[], object],
    draw: Callable[[], Values],
    conditioned: Container[str] = (),
) -> Axes:
    """The axes whose index a model of the program must know.

    An index needs no position if its values can be permuted. Nor does it if the
    directed graph distinguishes its values and the program is the same at all of them,
    as along a chain: attention knows the kinds of edges.

    Args:
        graph: The graph of the program.
        program: The program at the same size.
        draw: Draws one instance.
        conditioned: Variables that conditions of `factor` depend on. Whether these hold
            at all values of an index alike is not looked into: it gets a position.
    """
    instances = [draw() for _ in range(DRAWS)]
    for values in instances[DRAWS // 2 :]:  # also of classes that are seldom drawn
        instances.append(_with_any_classes(graph, values))
    known = colors(graph)
    needed = []
    for index in indices(graph):  # unnamed sub-expressions take part in the indices
        if any(name in conditioned for name, _ in index.axes):
            same = False
        elif check_exchangeable(graph, index) is None:
            cycle = torch.arange(index.size).roll(1)
            swap = torch.arange(index.size)
            swap[:2] = swap[:2].flip(0)
            same = all(
                _is_invariant(program, values, index, permutation)
                for values in instances
                for permutation in (swap, cycle)
            )
        else:
            same = _is_distinguished(graph, known, index) and all(
                _is_homogeneous(program, values, index) for values in instances
            )
        if not same:
            needed.append(index)
    return _axes(needed)


def _with_any_classes(graph: GraphicalModel, values: Values) -> Values:
    """The values with classes that are drawn uniformly."""
    drawn = dict(values)
    for name, variable in graph.variables.items():
        if variable.domain.num_classes and name in values:
            high, like = variable.domain.num_classes, values[name]
            drawn[name] = torch.randint(high, like.shape).to(like.dtype)
    return drawn


def _axes(found: list[Index]) -> Axes:
    axes: Axes = {}
    for index in found:
        for name, axis in index.axes:
            axes[name] = tuple(sorted({*axes.get(name, ()), axis}))
    return axes


def _is_distinguished(graph: GraphicalModel, known: Tensor, index: Index) -> bool:
    """Whether nodes that differ in the index alone never have the same color."""
    for name, axis in index.axes:
        variable = graph.variables[name]
        color = known[variable.nodes].view(variable.shape).movedim(axis, 0)
        ordered = color.reshape(index.size, -1).sort(0).values
        if (ordered[1:] == ordered[:-1]).any():
            return False
    return True


def _is_invariant(
    program: Callable[[], object], values: Values, index: Index, permutation: Tensor
) -> bool:
    """Whether the program says of permuted values what it says of the values."""
    before, after = _terms(program, values), None
    if before is not None:
        after = _terms(program, _taken(values, index, permutation))
    if before is None or after is None or before.holds != after.holds:
        return False
    for old, new in ((before.log_prob, after.log_prob), (before.value, after.value)):
        expected = _taken(old, index, permutation)
        if any(not _equal(expected[name], new[name]) for name in new):
            return False
    return True


def _is_homogeneous(
    program: Callable[[], object], values: Values, index: Index
) -> bool:
    """Whether the program is the same at all values of an index, except the first two.

    Values are moved by one along the index; so must be what the program says of them.
    """
    shifted = torch.arange(index.size).roll(1)
    before = _terms(program, values)
    after = _terms(program, _taken(values, index, shifted))
    if before is None or after is None:
        return False
    inner = torch.arange(2, index.size)
    for old, new in ((before.log_prob, after.log_prob), (before.value, after.value)):
        expected = _taken(_taken(old, index, shifted), index, inner)
        found = _taken(new, index, inner)
        if any(not _equal(expected[name], found[name]) for name in found):
            return False
    return True


def _terms(program: Callable[[], object], values: Values) -> Terms | None:
    """What the program says of the values; None if a distribution has no density.

    Draws without a name are the same in every call. They are not permuted with the
    values, so an index that they have is never found to be exchangeable.
    """
    try:
        return replay(program, values)
    except (NotImplementedError, ValueError, RuntimeError):
        return None


def _taken(values: Values, index: Index, entries: Tensor) -> dict[str, Tensor]:
    """The arrays with these entries along an index, where they have its axis."""
    taken = dict(values)
    for name, axis in index.axes:
        if name in taken and taken[name].dim() > axis:
            taken[name] = taken[name].index_select(axis, entries)
    return taken


def _equal(a: Tensor, b: Tensor) -> bool:
    options = {"rtol": TOLERANCE, "atol": TOLERANCE, "equal_nan": True}
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), **options)  # type: ignore[arg-type]
