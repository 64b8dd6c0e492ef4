"""Doctor: what the attention mask of a graph means for a model (section 3.1).

A layer passes information along one edge, so that "the number of transformer layers
should be chosen to be at least as great as the maximum path length in the symmetrized
graphical model" (the paper's appendix on faithfulness). What a posterior needs is less:
every latent must hear from every observation that can reach it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gsdm_pyg.doctor.diagnosis import Degrees, Diagnosis, too_shallow
from gsdm_pyg.doctor.paths import (
    Longest,
    Mask,
    adjacency,
    longest_path,
    reached,
)
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.variables import Role

_BUDGET = 6e9  # sources times edges of an exact search, some seconds
_QUICK_BUDGET = 1e8  # the same, some milliseconds
_QUICK_NODES = 20_000  # the most nodes of a graph that `check_depth` looks at
_NAMED = 5  # entries to name, of many


def diagnose(
    graph: GraphicalModel,
    layers: int | None = None,
    options: GraphOptions = GraphOptions(),
) -> Diagnosis:
    """Examine the attention mask of a graph: its size, its parts, the depth to use.

    Path lengths are exact up to some ten thousand nodes, and beyond where a few
    searches prove them; otherwise lower bounds.

    Args:
        graph: The graph; of a problem, `graph_of(problem)`.
        layers: The depth of the model to compare with.
        options: The graph that the model sees.
    """
    graph = _check_graph(graph, options)
    if layers is not None and (type(layers) is not int or layers < 1):
        raise ValueError(f"layers must be an integer of at least 1 (got {layers!r}).")
    edge_index = graph.edge_index(options.edges)
    links, symmetric = adjacency(edge_index), bool(edge_index.is_undirected)
    n, num_edges = graph.num_nodes, edge_index.size(1)
    latent, observed = nodes_of(graph, Role.LATENT), nodes_of(graph, Role.OBSERVED)
    everything = np.ones(n, dtype=bool)
    if options.edges == "complete":
        diameter = Longest(min(n - 1, 1), True)
        path = Longest(int(latent.any() and observed.any()), True)
    else:
        diameter = longest_path(links, np.arange(n), everything, symmetric, _BUDGET)
        path = _latent_to_observed(graph, symmetric, links, _BUDGET)
    _, component = connected_components(links, directed=False)
    uninformed = latent & ~reached(edge_index, np.flatnonzero(observed))
    first = np.flatnonzero(uninformed)[:_NAMED].tolist()
    degree = np.diff(edge_index.get_csc()[0][0].numpy()) - 1  # without the self-loop
    stated, reversed_ = _stated(graph.edges(), n, options)
    from_model = options.edges in ("structured", "directed")
    return Diagnosis(
        edges=options.edges,
        variables=", ".join(
            f"{v.name}{list(v.shape)} {v.role.value}" for v in graph.variables.values()
        ),
        num_nodes=n,
        num_latent=int(latent.sum()),
        num_observed=int(observed.sum()),
        num_edges=num_edges,
        density=num_edges / n**2,
        num_stated=stated,
        num_reversed=reversed_,
        num_factor=num_edges - n - stated - reversed_ if from_model else 0,
        component_sizes=tuple(sorted(np.bincount(component).tolist(), reverse=True)),
        num_uninformed=int(uninformed.sum()),
        uninformed=tuple(entry_name(graph, node) for node in first),
        latent_to_observed=path.hops if observed.any() else None,
        diameter=diameter.hops,
        exact=diameter.exact and path.exact,
        degrees=Degrees(
            min=int(degree.min()),
            median=float(np.median(degree)),
            mean=float(degree.mean()),
            max=int(degree.max()),
            hub=entry_name(graph, int(degree.argmax())),
        ),
        layers=layers,
    )


def check_depth(
    graph: GraphicalModel, layers: int, options: GraphOptions = GraphOptions()
) -> str | None:
    """A warning if information cannot travel far enough; takes some milliseconds.

    Args:
        graph: The graph that the model sees.
        layers: The depth of the model.
        options: Which nodes attend to which.
    """
    if graph.num_nodes > _QUICK_NODES or options.edges == "complete":
        return None
    edge_index = graph.edge_index(options.edges)
    links, symmetric = adjacency(edge_index), bool(edge_index.is_undirected)
    given = nodes_of(graph, Role.OBSERVED).any()
    if given:
        path = _latent_to_observed(graph, symmetric, links, _QUICK_BUDGET)
    else:
        n = graph.num_nodes
        everything = np.ones(n, dtype=bool)
        path = longest_path(links, np.arange(n), everything, symmetric, _QUICK_BUDGET)
    if layers >= path.hops:
        return None
    return too_shallow(layers, path.hops, bool(given), path.exact)


def nodes_of(graph: GraphicalModel, role: Role) -> Mask:
    """Which nodes belong to variables of a role, [N]."""
    chosen = np.zeros(graph.num_nodes, dtype=bool)
    for variable in graph.variables.values():
        chosen[variable.nodes] = variable.role is role
    return chosen


def entry_name(graph: GraphicalModel, node: int) -> str:
    """The entry of a variable that a node is, such as "z[3]"."""
    for variable in graph.variables.values():
        if variable.nodes.start <= node < variable.nodes.stop:
            index = np.unravel_index(node - variable.first_node, variable.shape or (1,))
            return variable.name + (str([int(i) for i in index]) * bool(variable.shape))
    raise ValueError(f"A graph of {graph.num_nodes} nodes has no node {node}.")


def _latent_to_observed(
    graph: GraphicalModel, symmetric: bool, links: Any, budget: float
) -> Longest:
    """The longest shortest path from an observation to a latent that it reaches."""
    source, target = nodes_of(graph, Role.OBSERVED), nodes_of(graph, Role.LATENT)
    if symmetric and source.sum() > target.sum():  # the same paths, from fewer nodes
        source, target = target, source
    return longest_path(links, np.flatnonzero(source), target, symmetric, budget)


def _stated(edges: Tensor, num_nodes: int, options: GraphOptions) -> tuple[int, int]:
    """How many edges of the mask the graph states, and how many are their reverse."""
    if options.edges not in ("structured", "directed"):
        return 0, 0
    parent, child = edges
    stated = torch.unique(child * num_nodes + parent)
    if options.edges == "directed":
        return len(stated), 0
    both = torch.unique(torch.cat([stated, parent * num_nodes + child]))
    return len(stated), len(both) - len(stated)


def _check_graph(graph: Any, options: GraphOptions) -> GraphicalModel:
    """The graph that a model sees; anything else gets an error that says what to do."""
    if not isinstance(graph, GraphicalModel):
        raise TypeError(
            "diagnose() takes a GraphicalModel: of a problem, pass graph_of(problem) "
            f"(got {type(graph).__name__})."
        )
    roles: Iterable[Role] = (v.role for v in graph.variables.values())
    if options.intermediates == "drop" and Role.INTERMEDIATE in roles:
        graph = graph.without_intermediates()
    if not graph.num_nodes:
        raise ValueError("The graph has no nodes: add a variable (got 0 nodes).")
    return graph
