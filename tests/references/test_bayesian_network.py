"""Public Bayesian networks as problems, and exact inference in them."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from examples.programs.bayesian_network import (
    error,
    exact_marginals,
    load,
    problem_of,
    tables_of,
)
from gsdm_pyg import GSDM, Categorical
from tests.problems.draws import draw_batch
from tests.references.oracles import PriorAnswers

pytest.importorskip("pgmpy")


@pytest.fixture(scope="module", params=["asia", "alarm"])
def network(request):
    return load(request.param)


def by_enumeration(tables, evidence):
    """P(node | evidence) of all nodes, by the sum over all joint assignments."""
    sizes = {node: table.size(-1) for node, (_, table) in tables.items()}
    totals = {node: torch.zeros(k).double() for node, k in sizes.items()}
    for assignment in itertools.product(*map(range, sizes.values())):
        values = dict(zip(sizes, assignment, strict=True))
        if any(values[node] != known for node, known in evidence.items()):
            continue
        p = 1.0
        for node, (parents, table) in tables.items():
            p *= table[tuple(values[n] for n in (*parents, node))].item()
        for node, value in values.items():
            totals[node][value] += p
    return {n: t / t.sum() for n, t in totals.items() if n not in evidence}


@pytest.mark.parametrize(
    "evidence",
    [{}, {"dysp": 0}, {"xray": 0, "asia": 1}, {"dysp": 1, "smoke": 0, "bronc": 1}],
)
def test_inference_agrees_with_enumeration(evidence):
    asia = load("asia")
    expected = by_enumeration(tables_of(asia), evidence)
    found = exact_marginals(asia, evidence)
    assert found.keys() == expected.keys()
    for node in found:
        assert_close(found[node], expected[node], rtol=1e-5, atol=1e-6)


def test_the_problem_has_the_nodes_and_edges_of_the_network(network):
    graph = problem_of(network).graphical_model()
    for node in network.nodes():
        variable = graph.variables[node]
        assert variable.shape == ()
        assert variable.domain == Categorical(network.get_cardinality(node))
    assert len(graph.variables) == len(network.nodes())
    names = {v.first_node: v.name for v in graph.variables.values()}
    pairs = {(names[a], names[b]) for a, b in graph.edge_index().T.tolist()}
    links = {(a, b) for a, b in network.edges()}
    assert pairs == links | {(b, a) for a, b in links} | {
        (n, n) for n in names.values()
    }


def test_drawn_nodes_have_the_marginals_of_the_network(network):
    drawn = draw_batch(problem_of(network), 20_000)
    for node, exact in exact_marginals(network, {}).items():
        found = drawn[node].bincount(minlength=len(exact)) / 20_000
        assert_close(found.double(), exact, atol=0.016, rtol=0)


def test_drawn_nodes_depend_on_their_parents_as_in_the_network(network):
    drawn = draw_batch(problem_of(network), 20_000)
    for node, (parents, table) in tables_of(network).items():
        rows = table[tuple(drawn[parent] for parent in parents)]
        p = rows.gather(-1, drawn[node][:, None]) if parents else table[drawn[node]]
        entropy = -(rows * rows.clamp(min=1e-9).log()).sum(-1).mean()
        assert_close(-p.log().mean(), entropy, atol=0.03, rtol=0)


def test_errors_of_exact_samples_fall_with_their_number():
    asia = load("asia")
    few, many = (error(None, asia, instances=60, samples=num) for num in (100, 1600))
    for name in few:  # four times the precision
        assert many[name] == pytest.approx(few[name] / 4, rel=0.25)


@pytest.mark.slow
def test_a_trained_model_knows_asia_given_any_evidence():
    asia = load("asia")
    model = GSDM.from_problem(
        problem_of(asia), width=32, layers=6, heads=2, observe="mixed"
    )
    model.fit(max_steps=400, batch_size=128, lr=3e-3)
    prior, trained = (
        error(answers, asia, samples=100)["probability"]
        for answers in (PriorAnswers(), model)
    )
    assert trained < 0.5 * prior and trained < 0.05, (trained, prior)
