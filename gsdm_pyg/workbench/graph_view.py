"""The graph on the page: nodes and edges of a small one, the mask of any."""

from __future__ import annotations

import base64
from typing import Any

import networkx as nx
import numpy as np

from gsdm_pyg.data import structure
from gsdm_pyg.doctor.pictures import mask_shares, place_nodes
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.workbench.subject import Subject

DRAWABLE_NODES, DRAWABLE_EDGES = 120, 400  # the most that are drawn one by one
MASK_CELLS = 200  # the most rows of the picture of a mask


def view_graph(subject: Subject) -> dict[str, Any]:
    """The graph that a model sees as JSON: a drawing if it is small, and its mask."""
    graph = subject.graph
    edge_index = structure(subject.problem, subject.settings.graph).edge_index
    num_edges = edge_index.size(1)
    shares = mask_shares(edge_index.as_tensor().numpy(), graph.num_nodes, MASK_CELLS)
    # The root makes single edges of a large graph visible.
    gray = np.sqrt(shares / shares.max()) * 255
    return {
        "nodes": graph.num_nodes,
        "edges": num_edges,
        "density": num_edges / graph.num_nodes**2,
        "degree": num_edges / graph.num_nodes,
        "firsts": {v.name: v.first_node for v in graph.variables.values()},
        "mask": {
            "cells": len(shares),
            "gray": base64.b64encode(gray.round().astype(np.uint8).tobytes()).decode(),
        },
        "drawing": _draw(graph),
    }


def _draw(graph: GraphicalModel) -> dict[str, Any] | None:
    """Where nodes are, in a box of width 1, and which of them are linked."""
    if graph.num_nodes > DRAWABLE_NODES:
        return None
    network = graph.to_networkx()
    if network.number_of_edges() > DRAWABLE_EDGES:
        return None
    places = place_nodes(network.to_undirected())
    at = np.array([places[node] for node in range(graph.num_nodes)])  # [N, 2]
    at -= at.min(0)
    at /= max(float(at.max()), 1e-9)
    kinds = nx.get_edge_attributes(network, "kind")
    return {
        "at": at.round(4).tolist(),
        "directed": [list(edge) for edge, kind in kinds.items() if kind == "directed"],
        "factors": [
            list(edge)
            for edge, kind in kinds.items()
            if kind == "factor" and edge[0] < edge[1]
        ],
        "variables": [
            v.name for v in graph.variables.values() for _ in range(v.num_nodes)
        ],
    }
