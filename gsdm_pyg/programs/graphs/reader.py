"""Specs as graphs: networkx -> GraphicalModel, the inverse of `to_networkx`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any

import networkx as nx
import numpy as np
import torch

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.programs.graphs.nodes import Entry, entry_text, read_node

_KINDS = ("directed", "factor")


def read_networkx(graph: nx.Graph) -> GraphicalModel:
    """The graphical model that a graph of networkx states, see `from_networkx`."""
    if not isinstance(graph, nx.Graph):
        raise TypeError(
            "Pass a graph of networkx, such as nx.DiGraph([('a', 'b')]) "
            f"(got {type(graph).__name__})."
        )
    if not graph:
        raise ValueError("The graph has no nodes: add some (got 0 nodes).")
    entries: dict[str, dict[tuple[int, ...], Entry]] = {}
    for node, attributes in graph.nodes(data=True):
        entry = read_node(node, attributes)
        same = entries.setdefault(entry.variable, {})
        if (other := same.get(entry.position)) is not None:
            raise ValueError(
                "Each node is a variable, or an entry, of its own: rename one of two "
                f"that are {entry} (got {other.node!r} and {node!r})."
            )
        same[entry.position] = entry
    model, ids = GraphicalModel(), {}
    for name, same in entries.items():
        shape = _check_entries(name, same)
        first = next(iter(same.values()))
        positions = _positions(same, shape)
        added = model.add_variable(name, shape, first.domain, first.role, positions)
        numbers = added.reshape(-1).tolist()
        for place, number in zip(np.ndindex(*shape), numbers, strict=True):
            ids[same[place].node] = number
    edges = _edges(graph)
    linked = {
        kind: torch.tensor([(ids[a], ids[b]) for a, b in edges[kind]])
        for kind in _KINDS
        if edges[kind]
    }
    if "directed" in linked:
        model.connect(*linked["directed"].t())
    if "factor" in linked:
        model.factor(linked["factor"])
    return model


def _check_entries(
    name: str, entries: Mapping[tuple[int, ...], Entry]
) -> tuple[int, ...]:
    """The shape of a variable whose entries are all there, and alike."""
    first = next(iter(entries.values()))
    for entry in entries.values():
        if len(entry.position) != len(first.position):
            raise ValueError(
                "Nodes of one variable have positions of one length: rename some of "
                f"{name!r} (got {first} and {entry})."
            )
        one, other = (f"{e.role.value}, {e.domain}" for e in (first, entry))
        if one != other:
            raise ValueError(
                "All entries of a variable have one role and one domain: make two "
                f"variables of {name!r} (got {first}, {one}, and {entry}, {other})."
            )
        if len(entry.coordinates or ()) != len(first.coordinates or ()):
            raise ValueError(
                "All entries of a variable have the same number of `coordinates` "
                f"(got {first.coordinates} of {first} and {entry.coordinates} of "
                f"{entry})."
            )
    shape = tuple(max(axis) + 1 for axis in zip(*entries, strict=True))
    if math.prod(shape) != len(entries):
        places = (_place(number, shape) for number in count())
        missing = next(place for place in places if place not in entries)
        raise ValueError(
            f"The variable {name!r} of shape {shape} has a node for every entry: add "
            f"{entry_text(name, missing)} (got {len(entries)} of {math.prod(shape)})."
        )
    return shape


def _place(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an entry by its number; shapes may be too large for NumPy."""
    place = []
    for size in reversed(shape):
        number, index = divmod(number, size)
        place.append(index)
    return tuple(reversed(place))


def _positions(
    entries: Mapping[tuple[int, ...], Entry], shape: tuple[int, ...]
) -> list[torch.Tensor]:
    """The coordinates of a variable; without them, every index is one.

    An edge does not tell a distribution, so no index is known to be exchangeable.
    """
    ordered = [entries[place] for place in np.ndindex(*shape)]
    stated = all(entry.coordinates is not None for entry in ordered)
    rows = [entry.coordinates if stated else entry.position for entry in ordered]
    columns = torch.tensor(rows, dtype=torch.long).t()
    return [column.reshape(shape) for column in columns]


def _edges(graph: nx.Graph) -> dict[str, list[tuple[Any, Any]]]:
    """Pairs of nodes by kind: directed edges without cycles, and factors."""
    usual = "directed" if graph.is_directed() else "factor"
    edges: dict[str, list[tuple[Any, Any]]] = {kind: [] for kind in _KINDS}
    for source, target, kind in graph.edges(data="kind", default=usual):
        if source == target:
            raise ValueError(
                f"An edge joins two nodes: remove the self-loop (got {source!r})."
            )
        if kind not in _KINDS:
            raise ValueError(
                "The kind of an edge is directed or factor "
                f"(got {kind!r} of {source!r} and {target!r})."
            )
        if kind == "directed" and not graph.is_directed():
            raise ValueError(
                "The edges of an undirected graph are factors: pass an nx.DiGraph "
                f"(got a directed edge of {source!r} and {target!r})."
            )
        edges[kind].append((source, target))
    try:
        cycle = nx.find_cycle(nx.DiGraph(edges["directed"]))
    except nx.NetworkXNoCycle:
        return edges
    path = " -> ".join(str(node) for node in [cycle[0][0], *(b for _, b in cycle)])
    raise ValueError(
        "Directed edges form no cycle: remove an edge, or make them factors by "
        f"kind='factor' (got {path})."
    )
