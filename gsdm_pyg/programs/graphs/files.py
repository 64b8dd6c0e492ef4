"""Graphs as files: JSON and GraphML, which networkx and other tools read too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx

from gsdm_pyg.graphical_model import GraphicalModel

GRAPHS = (".graphml", ".json")  # the formats of a graph


def graph_json(graph: GraphicalModel, name: str) -> bytes:
    """Nodes, edges with their kinds, and variables.

    `nx.node_link_graph(..., edges="edges")` reads it, and does without the variables,
    which repeat what the nodes say.

    Args:
        graph: The graph.
        name: A name of it, such as BCMF(m=2,n=2,k=1).
    """
    network = graph.to_networkx()
    variables: list[dict[str, Any]] = []
    for variable in graph.variables.values():
        shared = dict(network.nodes[variable.first_node])
        for own in ("variable", "position", "coordinates"):
            del shared[own]
        shape = {"shape": list(variable.shape), "first_node": variable.first_node}
        variables.append({"name": variable.name, **shape, **shared})
    network.graph["name"] = name
    content = nx.node_link_data(network, edges="edges")
    return _in_lines({"variables": variables, **content}).encode()


def graphml(graph: GraphicalModel, name: str) -> bytes:
    """The graph of `to_networkx`; lists are texts such as "[0, 1]".

    Args:
        graph: The graph.
        name: A name of it, such as BCMF(m=2,n=2,k=1).
    """
    network = graph.to_networkx()
    network.graph["name"] = name
    for _, attributes in network.nodes(data=True):
        for key in ("position", "coordinates"):
            attributes[key] = json.dumps(attributes[key])
    file = BytesIO()
    nx.write_graphml_xml(network, file)
    return file.getvalue()


def read_graph(path: Path) -> nx.Graph:
    """The graph of a file that ends in .graphml or .json, for `from_networkx`."""
    if not path.is_file():
        raise FileNotFoundError(f"The file of a graph is missing (got {str(path)!r}).")
    try:
        if path.suffix == ".graphml":
            return nx.read_graphml(path)
        content = json.loads(path.read_text())
        return nx.node_link_graph(content, edges="edges")
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ParseError,
        nx.NetworkXException,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{path} holds no graph (got {reason}).") from error


def _in_lines(content: Mapping[str, Any]) -> str:
    """JSON with one line per node, edge and variable."""
    parts = []
    for key, value in content.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n]"
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
