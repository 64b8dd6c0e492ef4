"""Graphs of networkx and lists of edges as problems."""

from __future__ import annotations

import inspect
import io
import textwrap

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsdm_pyg import GSDM, Categorical, Continuous, GraphicalModel, Role
from gsdm_pyg.problem import graph_of
from gsdm_pyg.programs.graph_files import graphml
from gsdm_pyg.programs.specs import from_edges, from_networkx
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)

PROBLEMS = [
    BCMF(m=3, n=2, k=4),
    BooleanCircuit(n=3),
    HierarchicalBCMF(m=2, n=2, k=3),
    MatrixInversion(n=3),
    Sorting(n=4),
    StateSpace(steps=5),
    Sudoku(a=2, b=2),
]


def assert_same_graph(found: GraphicalModel, expected: GraphicalModel) -> None:
    assert found.variables == expected.variables  # shapes, roles, domains
    for name, variable in expected.variables.items():
        assert torch.equal(found.variables[name].coordinates, variable.coordinates)
    for edges in ("structured", "directed"):
        torch.testing.assert_close(
            found.edge_index(edges).as_tensor(), expected.edge_index(edges).as_tensor()
        )


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_a_graph_survives_networkx_and_graphml(problem):
    graph = problem.graphical_model()
    assert_same_graph(graph_of(from_networkx(graph.to_networkx())()), graph)
    file = io.BytesIO(graphml(graph, "g"))
    assert_same_graph(graph_of(from_networkx(nx.read_graphml(file))()), graph)
    dropped = graph.without_intermediates()
    read = from_networkx(graph.to_networkx())().graphical_model()
    assert_same_graph(read.without_intermediates(), dropped)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6),
)
def test_random_graphs_survive_networkx(directed, factors):
    graph = GraphicalModel()
    graph.add_variable("x", (2, 2), Continuous(low=-1))
    graph.add_variable("y", 2, Categorical(3), Role.OBSERVED, [torch.arange(2)])
    for a, b in directed:
        if a < b:
            graph.connect(torch.tensor([a]), torch.tensor([b]))
    for a, b in factors:
        if a != b:
            graph.factor(torch.tensor([a, b]))
    assert_same_graph(graph_of(from_networkx(graph.to_networkx())()), graph)


def test_nodes_are_scalars_unless_they_say_which_entry_they_are():
    network = nx.DiGraph([("mu", 7), ("mu", "second")])
    network.add_node(7, variable="x", position=(1,), observed=True)
    network.add_node("second", variable="x", position=0, role="observed")
    network.nodes["mu"].update(low=0.0)
    graph = graph_of(from_networkx(network)())
    mu, x = graph.variables.values()
    assert (mu.name, mu.shape, mu.domain) == ("mu", (), Continuous(low=0))
    assert (x.name, x.shape, x.role) == ("x", (2,), Role.OBSERVED)
    assert x.coordinates.tolist() == [[0], [1]]  # nothing shows that they are alike
    assert graph.edges().t().tolist() == [[0, 2], [0, 1]]


def test_edges_of_a_directed_graph_may_be_factors():
    graph = graph_of(from_edges([("a", "b"), ("b", "c", "factor")])())
    assert graph.edges().tolist() == [[0], [1]]
    assert graph.factor_pairs().t().tolist() == [[1, 2], [2, 1]]


def test_edges_of_an_undirected_graph_are_factors():
    graph = graph_of(from_networkx(nx.path_graph(3), "Path")())
    assert list(graph.variables) == ["0", "1", "2"]
    assert graph.edges().numel() == 0
    expected = nx.to_numpy_array(nx.path_graph(3)) + np.eye(3)
    found = torch.zeros(3, 3).index_put(tuple(graph.edge_index()), torch.ones(7))
    assert found.tolist() == expected.tolist()


def test_arrays_are_lists_of_edges():
    rows = torch.tensor([[0, 1], [1, 2]])
    assert list(graph_of(from_edges(rows)()).variables) == ["0", "1", "2"]
    assert list(graph_of(from_edges(rows.numpy())()).variables) == ["0", "1", "2"]


def test_classes_and_observed_nodes_of_edges():
    cls = from_edges([("z", "x")], observed="x", classes={"z": 3}, name="My mixture")
    z, x = graph_of(cls()).variables.values()
    assert cls.__name__ == "My_mixture"
    assert (z.domain, z.role) == (Categorical(3), Role.LATENT)
    assert (x.domain, x.role) == (Continuous(), Role.OBSERVED)
    both = graph_of(from_edges([("z", "x")], classes=2)()).variables.values()
    assert [v.domain for v in both] == [Categorical(2)] * 2


def test_later_changes_of_the_graph_do_not_change_the_problem():
    network = nx.DiGraph([("a", "b")])
    problem = from_networkx(network)()
    network.add_edge("b", "c")
    problem.graphical_model().add_variable("d", ())
    assert list(problem.graphical_model().variables) == ["a", "b"]


def test_a_sampler_may_be_given():
    def draw(num, generator):
        a = torch.randn(num, generator=generator)
        return {"a": a, "b": 2 * a}

    problem = from_edges([("a", "b")], sample_batch=draw)()
    drawn = problem.sample(torch.Generator().manual_seed(0))
    assert drawn["b"] == 2 * drawn["a"]
    with pytest.raises(TypeError, match="cannot draw instances"):
        from_edges([("a", "b")])().sample_batch(3)
    with pytest.raises(TypeError, match=r"def sample_batch\(num, generator\)"):
        from_edges([("a", "b")], sample_batch=lambda num: {})


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


@pytest.mark.slow
def test_the_example_of_the_docstring_trains_on_a_table():
    example = inspect.getdoc(from_edges).split("Example::")[1]
    assert "max_steps=1000" in example
    code = textwrap.dedent(example).replace("max_steps=1000", "max_steps=2")
    code = code.replace("model.sample", "rain = model.sample")
    names = ("cloudy", "sprinkler", "rain", "wet")
    generator = torch.Generator().manual_seed(0)
    table = {n: torch.randint(2, (100,), generator=generator) for n in names}
    scope = {"from_edges": from_edges, "GSDM": GSDM, "table": table}
    exec(code, scope)
    assert scope["rain"].shape == (100,)
    assert set(scope["rain"].tolist()) <= {0, 1}
