"""The doctor on small graphs whose answers are known by hand."""

from __future__ import annotations

import json
import logging
from itertools import product

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_pyg import GSDM, GraphicalModel, GraphOptions, Problem
from gsdm_pyg.doctor.diagnosing import check_depth, diagnose
from gsdm_pyg.doctor.paths import Longest, adjacency, longest_path
from problems import BCMF, Sudoku
from tests.helpers import GroupMeans


def chain(n: int, role: str = "observed") -> GraphicalModel:
    """x[0] -> ... -> x[n - 1] -> y."""
    graph = GraphicalModel()
    x = graph.add_variable("x", (n,))
    y = graph.add_variable("y", (), role=role)
    graph.connect(x[:-1], x[1:])
    graph.connect(x[-1], y)
    return graph


def star(n: int) -> GraphicalModel:
    """One center, of which n leaves are observed."""
    graph = GraphicalModel()
    center = graph.add_variable("center", ())
    leaf = graph.add_variable("leaf", (n,), role="observed")
    graph.connect(center, leaf)
    return graph


@pytest.mark.parametrize("n", [2, 7, 300])
def test_a_chain_needs_a_layer_per_edge(n):
    found = diagnose(chain(n), layers=n - 1)
    assert (found.latent_to_observed, found.diameter, found.depth) == (n, n, n)
    assert found.exact
    assert found.problems() == [
        f"layers={n - 1} is below the longest shortest path from a latent to an "
        f"observation, {n}: a layer passes information along one edge. Use "
        f"layers={n} or more."
    ]
    assert diagnose(chain(n), layers=n).problems() == []


def test_a_star_needs_one_layer_whatever_its_size():
    found = diagnose(star(50), layers=1)
    assert (found.latent_to_observed, found.diameter) == (1, 2)
    assert found.problems() == []
    degrees = found.degrees
    assert (degrees.min, degrees.median, degrees.max) == (1, 1, 50)
    assert degrees.mean == pytest.approx(100 / 51)
    assert degrees.hub == "center"


def test_without_observations_the_diameter_counts():
    found = diagnose(chain(5, role="latent"), layers=4)
    assert found.latent_to_observed is None
    assert found.depth == 5
    (problem,) = found.problems()
    assert "between two nodes, 5" in problem


def test_components_and_latents_that_nothing_informs_are_found():
    graph = star(2)
    z = graph.add_variable("z", (2, 2))
    alone = graph.add_variable("alone", ())
    graph.connect(z[0], z[1])
    found = diagnose(graph)
    assert found.component_sizes == (3, 2, 2, 1)
    assert found.num_uninformed == 5
    assert found.uninformed == ("z[0, 0]", "z[0, 1]", "z[1, 0]", "z[1, 1]", "alone")
    assert alone.item() == 7
    posterior, isolated = found.problems()
    assert posterior.startswith("No observation reaches z[0, 0], z[0, 1],")
    assert isolated.startswith("Nodes without any edge: 1.")


def test_many_uninformed_latents_are_summarized():
    graph = star(2)
    graph.factor(graph.add_variable("z", (30,)))
    (problem,) = diagnose(graph).problems()
    assert "z[4] and 25 more" in problem


def test_it_counts_what_symmetrization_and_factors_add():
    graph = GraphicalModel()
    x = graph.add_variable("x", (4,))
    graph.connect(x[0], x[1])
    graph.connect(x[1], x[0])  # both directions are stated
    graph.connect(x[1], x[2])
    graph.factor(x[:3])  # of its six ordered pairs, two are new
    found = diagnose(graph)
    counts = found.num_stated, found.num_reversed, found.num_factor, found.num_nodes
    assert counts == (3, 1, 2, 4)
    assert found.num_edges == sum(counts) == graph.edge_index().size(1)
    assert found.density == 10 / 16
    directed = diagnose(graph, options=GraphOptions(edges="directed"))
    counts = directed.num_stated, directed.num_reversed, directed.num_factor
    assert counts == (3, 0, 3)


def test_with_directed_edges_information_does_not_flow_back():
    graph = star(3)
    found = diagnose(graph, options=GraphOptions(edges="directed"))
    assert found.uninformed == ("center",)
    assert any('Use edges="structured"' in problem for problem in found.problems())


def test_options_decide_which_graph_is_examined():
    graph = BCMF(m=3, n=4, k=2).graphical_model()
    assert diagnose(graph).latent_to_observed == 4
    assert (
        diagnose(graph, options=GraphOptions(intermediates="drop")).latent_to_observed
        == 3
    )
    complete = diagnose(graph, options=GraphOptions(edges="complete"))
    assert (complete.latent_to_observed, complete.diameter, complete.density) == (
        1,
        1,
        1,
    )


def test_findings_are_plain_values_and_the_report_names_them():
    found = diagnose(chain(3), layers=2)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["depth"] == 3
    assert values["problems"] == found.problems()
    assert values["degrees"]["hub"] == "x[1]"
    report = str(found)
    assert "3 from a latent to an observation, 3 between any two nodes" in report
    assert report.endswith(found.problems()[0])
    assert str(diagnose(chain(3), layers=3)).endswith("- Nothing to change.")


@pytest.mark.parametrize("layers", [0, -1, 2.0, True, "4"])
def test_layers_that_are_no_count_are_rejected(layers):
    with pytest.raises(ValueError, match="layers must be an integer of at least 1"):
        diagnose(chain(3), layers=layers)


def test_what_is_no_graph_is_rejected():
    with pytest.raises(TypeError, match=r"pass graph_of\(problem\) \(got BCMF\)"):
        diagnose(BCMF(m=2, n=2, k=2))
    with pytest.raises(ValueError, match="The graph has no nodes"):
        diagnose(GraphicalModel())


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 2**31), st.booleans())
def test_longest_path_is_that_of_all_searches(num_nodes, num_edges, seed, symmetric):
    random = np.random.default_rng(seed)
    graph = GraphicalModel()
    x = graph.add_variable("x", (num_nodes,))
    parents, children = random.integers(num_nodes, size=(2, num_edges))
    different = torch.tensor(parents != children)
    graph.connect(x[parents][different], x[children][different])
    mask = graph.edge_index("structured" if symmetric else "directed")
    sources = np.flatnonzero(random.random(num_nodes) < 0.5)
    targets = random.random(num_nodes) < 0.5
    links = adjacency(mask)
    found = longest_path(links, sources, targets, symmetric, budget=1e9)
    network = nx.DiGraph(mask.as_tensor().t().tolist())
    hops = dict(nx.all_pairs_shortest_path_length(network))
    pairs = product(sources, np.flatnonzero(targets))
    assert found == Longest(max((hops[s].get(t, 0) for s, t in pairs), default=0), True)


def test_without_a_budget_a_path_is_a_lower_bound_unless_sweeps_prove_it():
    def longest(graph: GraphicalModel) -> Longest:
        n = graph.num_nodes
        links, every = adjacency(graph.edge_index()), np.ones(n, dtype=bool)
        return longest_path(links, np.arange(n), every, True, budget=0)

    assert longest(chain(5000)) == Longest(5000, True)
    assert longest(Sudoku().graphical_model()) == Longest(2, False)


# `from_problem` warns.


class Chain(Problem):
    def graphical_model(self) -> GraphicalModel:
        return chain(4)

    def sample(self, generator=None):
        x = torch.randn(4, generator=generator)
        return {"x": x, "y": x[-1]}


@pytest.mark.parametrize(("layers", "warned"), [(3, True), (4, False)])
def test_a_model_that_is_too_shallow_is_warned_about(layers, warned, caplog):
    with caplog.at_level(logging.WARNING, "gsdm_pyg"):
        GSDM.from_problem(Chain(), layers=layers, width=8)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == diagnose(chain(4), layers=layers).problems()
    assert bool(messages) == warned


def test_the_largest_problem_of_a_family_is_examined(caplog):
    family = GroupMeans.family(groups={"length": (1, 2), "each": (1, 2)})
    GSDM.from_problem(family, layers=2, width=8)
    assert "observation, 3" in caplog.text  # x[0] -> m -> x[1] -> y


def test_the_quick_check_skips_what_would_take_long():
    assert check_depth(chain(30_000), layers=1) is None
    assert check_depth(chain(5), 1, GraphOptions(edges="complete")) is None
    quick = check_depth(chain(5, role="latent"), layers=1)
    assert quick == diagnose(chain(5, role="latent"), layers=1).problems()[0]
