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
from gsdm_pyg.programs.graphs.files import graphml
from gsdm_pyg.programs.graphs.specs import from_edges, from_networkx
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
