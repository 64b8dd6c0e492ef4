"""Symmetry: indices, claims about them, colors and orbits, against brute force."""

import re
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gsdm_pyg import GraphicalModel, Role
from gsdm_pyg.programs.symmetry import (
    Index,
    check_exchangeable,
    colors,
    exchangeable_indices,
    indices,
    orbits,
    permute,
)
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)

ROWS = (("A", 0), ("C", 0), ("E", 0))
TERMS = (("A", 1), ("R", 0), ("C", 2))
COLUMNS = (("R", 1), ("C", 1), ("E", 1))


def kinds_of(graph):
    """Every link (source, target) with its kinds, which no automorphism changes."""
    kinds = {}
    for kind, pairs in (("edge", graph.edges()), ("factor", graph.factor_pairs())):
        for pair in pairs.t().tolist():
            kinds.setdefault(tuple(pair), set()).add(kind)
    return kinds


def is_automorphism(graph, permutation):
    kinds = kinds_of(graph)
    image = {(permutation[a], permutation[b]): kind for (a, b), kind in kinds.items()}
    return image == kinds


def is_refinement(fine, coarse):
    """Whether two nodes of one class of `fine` are always in one class of `coarse`."""
    pairs = set(zip(fine.tolist(), coarse.tolist(), strict=True))
    return len(pairs) == len(set(fine.tolist()))


def chain(steps=4, reverse=False):
    graph = GraphicalModel()
    x = graph.add_variable("x", steps)
    y = graph.add_variable("y", steps, role=Role.OBSERVED)
    ends = (x[1:], x[:-1]) if reverse else (x[:-1], x[1:])
    graph.connect(*ends)
    graph.connect(x, y)
    return graph


@pytest.mark.parametrize("sizes", [(2, 3, 4), (2, 2, 2), (5, 5, 2), (3, 3, 3)])
def test_all_indices_of_bcmf_are_exchangeable(sizes):
    m, n, k = sizes
    graph = BCMF(m, n, k).graphical_model()
    expected = [Index(ROWS, m), Index(TERMS, k), Index(COLUMNS, n)]
    assert indices(graph) == expected
    assert exchangeable_indices(graph) == expected


def test_axes_of_size_one_have_no_index():
    graph = BCMF(1, 3, 1).graphical_model()
    assert indices(graph) == [Index(COLUMNS, 3)]
    assert check_exchangeable(graph, ROWS) is None  # there is nothing to permute


@pytest.mark.parametrize("n", [2, 3, 4])
def test_equal_sizes_of_matrix_inversion_give_three_indices(n):
    found = exchangeable_indices(MatrixInversion(n).graphical_model())
    assert [index.axes for index in found] == [ROWS, TERMS, COLUMNS]


@pytest.mark.parametrize("n", [2, 3, 6])
def test_sorting_is_exchangeable_in_j_and_not_in_i(n):
    graph = Sorting(n).graphical_model()
    j, i = indices(graph)
    assert j.axes == (("u", 0), ("P", 1), ("C", 1))
    assert i.axes == (("P", 0), ("C", 0), ("s", 0))
    assert exchangeable_indices(graph) == [j]
    assert check_exchangeable(graph, i).edge == "s[0] -> s[1]"


def test_graph_alone_does_not_know_the_order_of_a_distribution():
    """A factor on all of s, as in the paper, and the terms of hierarchical BCMF."""
    graph = Sorting(4, ordering="full").graphical_model()
    assert check_exchangeable(graph, (("P", 0), ("C", 0), ("s", 0))) is None
    graph = HierarchicalBCMF(2, 3, 4).graphical_model()
    assert check_exchangeable(graph, (*TERMS, ("D", 0))) is None
    assert check_exchangeable(graph, TERMS) is not None  # D[l] -> A[i, l]


def test_a_boolean_circuit_has_no_exchangeable_index():
    """The paper shares no embeddings in its Boolean circuit, and neither do we.

    The tree has other automorphisms, such as a swap of the two inputs of one gate.
    """
    for n in (2, 3, 4):
        graph = BooleanCircuit(n).graphical_model()
        assert exchangeable_indices(graph) == []
        assert colors(graph).unique().numel() == n + 1  # one per layer
        assert orbits(graph)[0] == orbits(graph)[1]
    graph = BooleanCircuit(1).graphical_model()  # a single gate is symmetric
    assert exchangeable_indices(graph) == [Index((("x", 0),), 2)]


@pytest.mark.parametrize("a, b", [(3, 3), (2, 3), (3, 2), (4, 4)])
def test_all_cells_of_a_sudoku_are_one_orbit(a, b):
    """The paper shares embeddings only within the same row and the same block."""
    graph = Sudoku(a, b).graphical_model()
    assert exchangeable_indices(graph) == []
    assert orbits(graph).unique().tolist() == [0]
    assert colors(graph).unique().tolist() == [0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [2, 3, 7])
def test_time_of_a_chain_is_not_exchangeable(steps, reverse):
    graph = chain(steps, reverse)
    assert indices(graph) == [Index((("x", 0), ("y", 0)), steps)]
    assert exchangeable_indices(graph) == []
    assert orbits(graph).tolist() == list(range(2 * steps))
    assert is_refinement(colors(graph), orbits(graph))


def test_time_of_a_ring_can_be_shifted_but_not_permuted():
    graph = chain(6)
    graph.connect(graph.node_ids("x")[5:], graph.node_ids("x")[:1])
    assert exchangeable_indices(graph) == []
    assert orbits(graph).tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    "problem, claim",
    [
        (Sorting(4), (("P", 0), ("C", 0), ("s", 0))),
        (Sorting(4), (("u", 0), ("P", 1))),
        (StateSpace(5), (("x", 0), ("y", 0))),
        (StateSpace(5), (("y", 0),)),
        (Sudoku(2, 2), (("cells", 1),)),
        (Sudoku(2, 2), (("cells", 0), ("cells", 1))),
        (BCMF(3, 3, 3), (*ROWS, *TERMS[1:])),
        (BCMF(3, 3, 3), COLUMNS[:2]),
        (BooleanCircuit(2), (("x", 0),)),
    ],
)
def test_wrong_claims_get_a_counterexample(problem, claim):
    graph = problem.graphical_model()
    found, kinds = check_exchangeable(graph, claim), kinds_of(graph)
    assert found is not None
    moved = permute(graph, claim, found.permutation)
    image = tuple(moved[list(found.nodes)].tolist())
    kind = "edge" if "->" in found.edge else "factor"
    assert kind in kinds[found.nodes] and kind not in kinds.get(image, ())
    for nodes, text in ((found.nodes, found.edge), (image, found.image)):
        names = re.split(" -> | -- ", text)
        assert [node_id(graph, name) for name in names] == list(nodes)
        assert text in str(found)


def node_id(graph, text):
    name, *place = re.findall(r"\w+", text)
    return int(graph.node_ids(name)[tuple(int(i) for i in place)])


def test_permute_moves_a_value_along_all_axes_of_the_index():
    graph = BCMF(2, 3, 4).graphical_model()
    moved = permute(graph, Index(TERMS, 4), [1, 2, 3, 0])
    for name, axis in TERMS:
        ids = graph.node_ids(name)
        torch.testing.assert_close(moved[ids], ids.roll(-1, axis))
    assert torch.equal(moved[graph.node_ids("E")], graph.node_ids("E"))


def test_an_exchangeable_index_leaves_the_mask_as_it_is():
    """The condition M = pi M of the paper's theorem, on what attention sees."""
    for problem in (BCMF(2, 3, 4), Sorting(5), HierarchicalBCMF(2, 2, 3)):
        graph = problem.graphical_model()
        mask = graph.edge_index().to_dense()
        for index in exchangeable_indices(graph):
            moved = permute(graph, index, torch.randperm(index.size))
            assert torch.equal(mask[moved][:, moved], mask)


def test_each_entry_may_depend_on_all_others():
    graph = GraphicalModel()
    u, v = graph.add_variable("u", 4), graph.add_variable("v", 4)
    i, j = (~torch.eye(4, dtype=torch.bool)).nonzero().t()
    graph.connect(u[i], v[j])
    assert exchangeable_indices(graph) == [Index((("u", 0), ("v", 0)), 4)]


def test_two_axes_of_one_variable_are_never_one_index():
    """The diagonal of W ties z to both axes of W; a claim may permute both at once."""
    graph = GraphicalModel()
    z, W = graph.add_variable("z", 3), graph.add_variable("W", (3, 3))
    graph.connect(W.diagonal(), z)
    assert [i.axes for i in indices(graph)] == [(("z", 0), ("W", 0)), (("W", 1),)]
    assert exchangeable_indices(graph) == []
    claim = (("z", 0), ("W", 0), ("W", 1))
    assert check_exchangeable(graph, claim) is None
    graph.connect(z, W[[0, 1, 2], [1, 2, 0]])
    assert check_exchangeable(graph, claim) is not None


def test_members_of_equal_groups_are_one_orbit():
    graph = GraphicalModel()
    mu, y = graph.add_variable("mu", 4), graph.add_variable("y", 12)
    graph.connect(mu[:, None], y.view(4, 3))
    assert orbits(graph).tolist() == [0] * 4 + [1] * 12


def test_indices_and_orbits_of_a_large_graph():
    graph = BCMF(100, 100, 10).graphical_model()
    assert len(exchangeable_indices(graph)) == 3
    variable = np.repeat(range(4), [1000, 1000, 100_000, 10_000])
    assert np.array_equal(colors(graph), variable)
    assert np.array_equal(orbits(graph), variable)


def test_orbits_of_a_long_index():
    graph = GraphicalModel()
    x, y = graph.add_variable("x", 20_000), graph.add_variable("y", 20_000)
    graph.connect(x, y)
    assert orbits(graph).tolist() == [0] * 20_000 + [1] * 20_000


def test_an_empty_graph_has_no_symmetry():
    graph = GraphicalModel()
    assert indices(graph) == exchangeable_indices(graph) == []
    assert colors(graph).tolist() == orbits(graph).tolist() == []


@pytest.mark.parametrize(
    "axes, message",
    [
        ((), r"one axis or more.*\(got none\)\.$"),
        (("A", 0), r"one axis or more.*\(got \('A', 0\)\)\.$"),
        ((("Q", 0),), r"variables of this graph are A, R, C, E \(got 'Q'\)\.$"),
        ((("A", 2),), r"shape \(2, 4\) has 2 axes.*\(got 2\)\.$"),
        ((("A", -1),), r"has 2 axes, counted from 0 \(got -1\)\.$"),
        ((("A", "i"),), r"has 2 axes, counted from 0 \(got 'i'\)\.$"),
        ((("A", 0), ("R", 1)), r"same size \(got .*2.*3.*\)\.$"),
    ],
)
def test_wrong_axes_are_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        check_exchangeable(BCMF(2, 3, 4).graphical_model(), axes)


@pytest.mark.parametrize("wrong", [[0, 1], [0, 1, 1], [0, 1, 3], [0.0, 1.0, 2.0]])
def test_wrong_permutations_are_refused(wrong):
    graph = BCMF(2, 3, 4).graphical_model()
    with pytest.raises(ValueError, match=r"each of 0\.\.2 once \(got \["):
        permute(graph, COLUMNS, wrong)


SHAPES = [
    [(5,)],
    [(2, 3)],
    [(2, 2), (2,)],
    [(3,), (3,), ()],
    [(2,), (4,)],
    [(2, 1), (2, 2)],
    [(1, 3), (3,)],
]


@st.composite
def small_graphs(draw):
    """Links by a rule on coordinates, so that symmetry is common, and a few more."""
    graph = GraphicalModel()
    for number, shape in enumerate(draw(st.sampled_from(SHAPES))):
        graph.add_variable(f"v{number}", shape)
    for x, y in product(graph.variables.values(), repeat=2):
        for link in draw(st.sampled_from([(), ("edge",), ("factor",)])):
            ties = list(product(range(len(x.shape)), range(len(y.shape))))
            rules = draw(st.tuples(*(st.sampled_from(["=", "!=", ""]) for _ in ties)))
            for c, d in product(np.ndindex(x.shape), np.ndindex(y.shape)):
                held = zip(ties, rules, strict=True)
                if all((c[a] == d[b]) == (r == "=") for (a, b), r in held if r):
                    add_link(graph, link, place_id(graph, x, c), place_id(graph, y, d))
    node = st.integers(0, graph.num_nodes - 1)
    for a, b in draw(st.lists(st.tuples(node, node), max_size=2)):
        add_link(graph, draw(st.sampled_from(["edge", "factor"])), a, b)
    return graph


def place_id(graph, variable, place):
    return int(graph.node_ids(variable.name)[place])


def add_link(graph, link, a, b):
    if a != b and link == "edge":
        graph.connect(torch.tensor(a), torch.tensor(b))
    elif a != b:
        graph.factor(torch.tensor([a, b]))


def true_orbits(graph):
    """Each node's least image over all automorphisms, by networkx."""
    nodes = nx.DiGraph()
    for name, variable in graph.variables.items():
        ids = range(graph.num_nodes)[variable.nodes]
        nodes.add_nodes_from(ids, variable=name)
    for (a, b), kind in kinds_of(graph).items():
        nodes.add_edge(a, b, kind=kind)
    matcher = nx.algorithms.isomorphism.DiGraphMatcher(
        nodes,
        nodes,
        node_match=lambda a, b: a["variable"] == b["variable"],
        edge_match=lambda a, b: a["kind"] == b["kind"],
    )
    least = list(range(graph.num_nodes))
    for found in matcher.isomorphisms_iter():
        least = [min(least[node], found[node]) for node in range(graph.num_nodes)]
    return torch.tensor(least)


@settings(max_examples=150)
@given(small_graphs())
def test_orbits_refine_true_orbits_which_refine_colors(graph):
    found, true, color = orbits(graph), true_orbits(graph), colors(graph)
    assert is_refinement(found, true)
    assert is_refinement(true, color)
    for index in exchangeable_indices(graph):
        moved = permute(graph, index, [*range(1, index.size), 0])
        assert torch.equal(color[moved], color)
        assert torch.equal(found[moved], found)


@settings(max_examples=150)
@given(small_graphs())
def test_claims_hold_if_all_permutations_are_automorphisms(graph):
    """And an exchangeable claim never cuts an index in two."""
    sizes = {
        (name, axis): size
        for name, variable in graph.variables.items()
        for axis, size in enumerate(variable.shape)
    }
    for number, size in product(range(1, 4), set(sizes.values())):
        for axes in combinations([a for a in sizes if sizes[a] == size], number):
            expected = all(
                is_automorphism(graph, permute(graph, axes, values).tolist())
                for values in permutations(range(size))
            )
            assert (check_exchangeable(graph, axes) is None) == expected
            one_axis_each = len(dict(axes)) == number
            if expected and one_axis_each and size > 1:
                for index in indices(graph):
                    assert len({axis in axes for axis in index.axes}) == 1
