"""Graphs as problems: a network of networkx or a list of edges, without a sampler."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import new_class
from typing import Any, ClassVar

import networkx as nx

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem
from gsdm_pyg.programs.graphs.reader import read_networkx

Sampler = Callable[..., Mapping[str, Any]]


class GraphProblem(Problem, register=False):
    """A problem that a graph states; `from_networkx` makes its subclasses."""

    _graph: ClassVar[GraphicalModel]

    def graphical_model(self) -> GraphicalModel:
        return copy.deepcopy(self._graph)


def from_networkx(
    graph: nx.Graph, name: str = "GraphProblem", *, sample_batch: Sampler | None = None
) -> type[GraphProblem]:
    """The problem that a graph of networkx states, such as `to_networkx` writes one.

    A node is a variable of its own, a single number. With the attributes `variable` and
    `position` it is an entry of an array: variable="x", position=(0, 2) is x[0, 2].

    Further attributes of nodes:

    - `role`, "latent" by default, or `observed`, True or False.
    - `classes`, a number of classes; else `low` and `high`, bounds of a real number, or
      of an integer with integer=True.
    - `coordinates`, integers that distinguish the entries of an array, see `positions`
      of `GraphicalModel.add_variable`; by default the position.

    Edges of a directed graph lead from parents to children, and those with the
    attribute kind="factor" join the two nodes by a factor. All edges of an undirected
    graph are factors.

    Args:
        graph: A graph of networkx. `nx.read_graphml` reads one that `compile` wrote.
        name: The name of the class, in errors and in model folders.
        sample_batch: `sample_batch(num, generator)`, see `Problem.sample_batch`. It is
            not needed to train on simulations.
    """
    model = read_networkx(graph)
    if not (isinstance(name, str) and name):
        raise ValueError(f"name is a text that is not empty (got {name!r}).")
    body: dict[str, Any] = {
        "__doc__": f"A graph: {model.summary()}.",
        "__module__": __name__,
        "_graph": model,
    }
    if sample_batch is not None:
        body["sample_batch"] = _method(sample_batch)
    return new_class(
        re.sub(r"\W", "_", name),
        (GraphProblem,),
        {"register": False},
        lambda namespace: namespace.update(body),
    )


def from_edges(
    edges: Iterable[Any],
    observed: Iterable[Hashable] = (),
    classes: int | Mapping[Any, int] | None = None,
    name: str = "GraphProblem",
    *,
    sample_batch: Sampler | None = None,
) -> type[GraphProblem]:
    """The problem that a list of edges states; every node is a single number.

    Args:
        edges: Pairs (parent, child), and triples (a, b, "factor").
        observed: The nodes that are given; the others are latent.
        classes: The number of classes, of all nodes or by node; nodes without one are
            real numbers.
        name: As in `from_networkx`.
        sample_batch: Likewise.

    Example::

        Sprinkler = from_edges(
            [("cloudy", "sprinkler"), ("cloudy", "rain"),
             ("sprinkler", "wet"), ("rain", "wet")],
            observed=["wet"],
            classes=2,
        )
        problem = Sprinkler()
        model = GSDM.from_problem(problem, simulations=table)  # an array per node
        model.fit(max_steps=1000)
        model.sample(problem, given={"wet": 1}, num_samples=100)["rain"]
    """
    graph = nx.MultiDiGraph()
    for edge in edges:
        source, target, *kind = _check_edge(edge)
        graph.add_edge(source, target, kind=kind[0] if kind else "directed")
    given = [observed] if isinstance(observed, str) else list(observed)
    by_node = dict(classes) if isinstance(classes, Mapping) else {}
    for what, nodes in (("observed", given), ("classes", list(by_node))):
        for node in nodes:
            if node not in graph:
                known = ", ".join(map(str, graph)) or "none"
                raise ValueError(
                    f"{what} names nodes of the edges, {known} (got {node!r})."
                )
    for node, attributes in graph.nodes(data=True):
        attributes["observed"] = node in given
        attributes["classes"] = by_node.get(node) if by_node else classes
    return from_networkx(graph, name, sample_batch=sample_batch)


def _check_edge(edge: Any) -> list[Any]:
    """An edge as a list [source, target] or [source, target, kind]."""
    ends = edge.tolist() if hasattr(edge, "tolist") else edge
    if not isinstance(ends, list | tuple) or len(ends) not in (2, 3):
        raise ValueError(
            "An edge is a pair (parent, child), or a triple (a, b, 'factor') "
            f"(got {edge!r:.100})."
        )
    for node in ends[:2]:
        if not isinstance(node, Hashable) or node is None:
            raise ValueError(f"A node is a text or a number (got {node!r:.100}).")
    return list(ends)


def _method(sampler: Sampler) -> Callable[..., Any]:
    """The function as a method of a problem, if it takes the two arguments."""
    try:
        inspect.signature(sampler).bind(1, None)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "sample_batch is a function: `def sample_batch(num, generator)` "
            f"(got {sampler!r:.100})."
        ) from error

    def sample_batch(self: GraphProblem, num: int, generator: Any = None) -> Any:
        return sampler(num, generator)

    return sample_batch
