"""Graphs in words: variables, edges, exchangeable indices, known positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

import torch

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.programs.symmetry import Axis, Index, exchangeable_indices, indices
from gsdm_pyg.variables import Variable


def describe(graph: GraphicalModel, sizes: Mapping[str, Any] | None = None) -> str:
    """The variables, the edges, and what distinguishes the entries of a variable.

    Args:
        graph: The graph.
        sizes: Sizes by name; an index is called after the size that only it has.
    """
    every = indices(graph)
    letters = _letters(every, sizes or {})
    header = ("variable", "shape", "role", "domain")
    rows = [
        (v.name, str(list(v.shape)), v.role.value, str(v.domain))
        for v in graph.variables.values()
    ]
    alike = [_index_text(graph, i, letters) for i in exchangeable_indices(graph)]
    known = [_known_text(v, letters) for v in graph.variables.values() if v.positions]
    facts = {
        **_counts(graph),
        "exchangeable": alike or ["no index of the graph"],
        "positions": [", ".join(known) or "none, a model knows no index"],
    }
    return "\n".join([*_table([header, *rows]), "", *_facts(facts)])


def _counts(graph: GraphicalModel) -> dict[str, list[str]]:
    """Numbers of nodes and of edges."""
    n = graph.num_nodes
    directed = len(torch.unique(graph.edges(), dim=1).t())
    factors = len(torch.unique(graph.factor_pairs(), dim=1).t()) // 2
    mask = graph.edge_index().size(1)
    share = f"{100 * mask / max(n**2, 1):.2g}% of all pairs"
    return {
        "nodes": [f"{n:,}"],
        "edges": [f"{directed:,} directed, {factors:,} from factors"],
        "attention": [f"{mask:,} edges, {share}: both directions, and each to itself"],
    }


def _letters(every: Sequence[Index], sizes: Mapping[str, Any]) -> dict[Axis, str]:
    """The name of the index of each axis: that of a size, or i, j, ... if unclear."""
    by_index = Counter(index.size for index in every)
    by_name = Counter(size for size in sizes.values() if isinstance(size, int))
    names = {size: name for name, size in sizes.items() if isinstance(size, int)}
    free = (
        letter
        for letter in chain("ijklpqrst", (f"i{number}" for number in count(1)))
        if letter not in sizes
    )
    letters = {}
    for index in every:
        unique = by_index[index.size] == 1 and by_name[index.size] == 1
        letter = names[index.size] if unique else next(free)
        letters.update(dict.fromkeys(index.axes, letter))
    return letters


def _index_text(
    graph: GraphicalModel, index: Index, letters: Mapping[Axis, str]
) -> str:
    """An index by its axes, such as "k: A[_, k], R[k, _]"."""
    letter = letters[index.axes[0]]
    entries = [
        _entry_text(graph.variables[name], {axis: letter}) for name, axis in index.axes
    ]
    return f"{letter}: {', '.join(entries)}"


def _known_text(variable: Variable, letters: Mapping[Axis, str]) -> str:
    """The indices that the positions of a variable tell, such as "P[i, _]"."""
    known: dict[int, str] = {}
    groups = []
    for position in variable.positions:
        values = position.expand(variable.shape)
        along = [
            axis
            for axis, size in enumerate(values.shape)
            if size > 1 and bool((values != values.narrow(axis, 0, 1)).any())
        ]
        names = [letters[variable.name, axis] for axis in along]
        num_values = len(values.unique())
        if len(along) == 1 and num_values == variable.shape[along[0]]:
            known[along[0]] = names[0]
        elif along:
            groups.append(f"and {num_values} groups of {', '.join(names)}")
    return " ".join([_entry_text(variable, known), *groups])


def _entry_text(variable: Variable, named: Mapping[int, str]) -> str:
    """Entries of a variable, such as "A[_, k]"; "_" is any index."""
    axes = [named.get(axis, "_") for axis in range(len(variable.shape))]
    return f"{variable.name}[{', '.join(axes)}]" if axes else variable.name


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _facts(facts: Mapping[str, Sequence[str]]) -> list[str]:
    """One or more lines per fact, its name before the first."""
    return [
        f"{(name + ':') * (number == 0):<14}{text}"
        for name, texts in facts.items()
        for number, text in enumerate(texts)
    ]
