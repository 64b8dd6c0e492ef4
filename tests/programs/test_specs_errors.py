"""Impossible graphs and lists of edges: a sentence that names what to change."""

from __future__ import annotations

import networkx as nx
import pytest

from gsdm_pyg.programs.graphs.specs import from_edges, from_networkx


def spec(*nodes: dict, edges=()) -> nx.DiGraph:
    network = nx.DiGraph()
    for number, attributes in enumerate(nodes):
        network.add_node(f"n{number}", **attributes)
    network.add_edges_from(edges)
    return network


@pytest.mark.parametrize(
    ("network", "complaint"),
    [
        (nx.DiGraph(), "The graph has no nodes: add some (got 0 nodes)."),
        (nx.DiGraph(["ab", "bc", "ca"]), "factor' (got a -> b -> c -> a)."),
        (nx.DiGraph(["ab", "ba"]), "(got a -> b -> a)."),
        (nx.DiGraph(["aa"]), "remove the self-loop (got 'a')."),
        (nx.Graph(["aa"]), "remove the self-loop (got 'a')."),
        (spec({"role": "hidden"}), "Node 'n0': A role is one of observed, latent, "),
        (spec({"observed": "yes"}), "`observed` is True or False (got 'yes')."),
        (spec({"observed": True, "role": "latent"}), "contradict each other"),
        (spec({"classes": 1}), "Node 'n0': Categorical needs at least two classes"),
        (spec({"classes": 2, "low": 0}), "classes or bounds (got both, 2 classes)."),
        (spec({"low": 1, "high": 0}), "Continuous needs low < high"),
        (spec({"position": 1}), "(got node 'n0' without `variable`)."),
        (
            spec({"variable": "x", "position": (-1,)}),
            "`position` holds integers of at least 0, such as [0, 1] (got (-1,)).",
        ),
        (
            spec({"variable": "x", "position": "first"}),
            "`position` holds integers of at least 0, such as [0, 1] (got 'first').",
        ),
        (
            spec({"coordinates": [0.5]}),
            "`coordinates` holds integers, such as [0, 1] (got [0.5]).",
        ),
        (
            spec({"variable": "x", "position": (1, 1)}),
            "has a node for every entry: add x[0, 0] (got 1 of 4).",
        ),
        (
            spec({"variable": "x", "position": (10**9, 10**20)}),
            "add x[0, 0] (got 1 of ",
        ),
        (
            spec({"variable": "x"}, {"variable": "x"}),
            "rename one of two that are x (got 'n0' and 'n1').",
        ),
        (
            spec({"variable": "x"}, {"variable": "x", "position": (0, 1)}),
            "rename some of 'x' (got x and x[0, 1]).",
        ),
        (
            spec(
                {"variable": "x", "position": 0},
                {"variable": "x", "position": 1, "observed": True},
            ),
            "(got x[0], latent, real numbers, and x[1], observed, real numbers).",
        ),
        (
            spec(
                {"variable": "x", "position": 0},
                {"variable": "x", "position": 1, "coordinates": 0},
            ),
            "(got None of x[0] and (0,) of x[1]).",
        ),
        (nx.DiGraph([(1, 2), ("1", 2)]), "that are 1 (got 1 and '1')."),
        (
            spec({}, {}, edges=[("n0", "n1", {"kind": "causes"})]),
            "directed or factor (got 'causes' of 'n0' and 'n1').",
        ),
        (
            nx.Graph([("a", "b", {"kind": "directed"})]),
            "pass an nx.DiGraph (got a directed edge of 'a' and 'b').",
        ),
    ],
)
def test_impossible_graph_is_rejected(network, complaint):
    with pytest.raises(ValueError) as caught:
        from_networkx(network)
    assert complaint in str(caught.value)
    assert str(caught.value).endswith(").")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"edges": []}, "The graph has no nodes"),
        ({"edges": ["ab"]}, "An edge is a pair (parent, child), or a triple"),
        ({"edges": [("a",)]}, "(got ('a',))."),
        ({"edges": [("a", ["b"])]}, "A node is a text or a number (got ['b'])."),
        ({"edges": [("a", "b", "c")]}, "directed or factor (got 'c' of 'a' and 'b')."),
        ({"observed": ["c"]}, "observed names nodes of the edges, a, b (got 'c')."),
        ({"classes": {"c": 2}}, "classes names nodes of the edges, a, b (got 'c')."),
        ({"name": ""}, "name is a text that is not empty (got '')."),
    ],
)
def test_impossible_edges_are_rejected(arguments, complaint):
    with pytest.raises(ValueError) as caught:
        from_edges(**{"edges": [("a", "b")], **arguments})
    assert complaint in str(caught.value)


def test_only_graphs_of_networkx_are_taken():
    with pytest.raises(TypeError, match=r"Pass a graph of networkx.*\(got list\)\."):
        from_networkx([("a", "b")])
