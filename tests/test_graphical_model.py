"""Graphs of hand-made and random models, compared with brute force on Python sets."""

from itertools import permutations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gsdm_pyg import Categorical, Continuous, GraphicalModel, Role
from problems import BCMF

SIZES = [(1, 1, 1), (2, 3, 1), (1, 4, 2), (3, 2, 4), (4, 5, 3)]


def pairs_of(edge_index):
    """The edges as a set of (source, target)."""
    return set(map(tuple, edge_index.as_tensor().t().tolist()))


def symmetric_with_loops(num_nodes, links):
    """The paper's rule: linked either way, or the same node."""
    loops = {(i, i) for i in range(num_nodes)}
    return links | {(b, a) for a, b in links} | loops


def cliques(factors):
    return {pair for factor in factors for pair in permutations(factor, 2)}


def bcmf_ids(m, n, k):
    """Node numbers of A, R, C and E by their indices, counted one by one."""
    names = [("A", i, r) for i, r in product(range(m), range(k))]
    names += [("R", r, j) for r, j in product(range(k), range(n))]
    names += [("C", *index) for index in product(range(m), range(n), range(k))]
    names += [("E", i, j) for i, j in product(range(m), range(n))]
    return {name: number for number, name in enumerate(names)}


def eliminate(num_nodes, dropped, edges, factors):
    """Brute force of `without_intermediates`, in the old numbering: (edges, links)."""
    parents = {v: {a for a, b in edges if b == v} for v in range(num_nodes)}

    def sources(v):
        """v itself if it is kept, else the kept nodes that it is computed from."""
        if v not in dropped:
            return {v}
        return set().union(*(sources(parent) for parent in parents[v]))

    kept_edges = {(a, v) for u, v in edges if v not in dropped for a in sources(u)}
    kept_factors = [set().union(*map(sources, factor)) for factor in factors]
    return kept_edges, cliques(kept_factors)


def renumbered(num_nodes, dropped, pairs):
    kept = [v for v in range(num_nodes) if v not in dropped]
    return {(kept.index(a), kept.index(b)) for a, b in pairs}


# edge_index


@pytest.mark.parametrize("m, n, k", SIZES)
def test_edge_index_of_bcmf_equals_brute_force(m, n, k):
    ids = bcmf_ids(m, n, k)
    links = set()
    for i, j, r in product(range(m), range(n), range(k)):
        links.add((ids["A", i, r], ids["C", i, j, r]))
        links.add((ids["R", r, j], ids["C", i, j, r]))
        links.add((ids["C", i, j, r], ids["E", i, j]))
    graph = BCMF(m=m, n=n, k=k).graphical_model()
    assert graph.num_nodes == len(ids)
    assert pairs_of(graph.edge_index()) == symmetric_with_loops(len(ids), links)


@pytest.mark.parametrize("m, n, k", SIZES)
def test_bcmf_without_intermediates_links_factors_to_matching_entries(m, n, k):
    num_a, num_r = m * k, k * n
    links = set()
    for i, j, r in product(range(m), range(n), range(k)):
        e = num_a + num_r + i * n + j
        links.add((i * k + r, e))
        links.add((num_a + r * n + j, e))
    graph = BCMF(m=m, n=n, k=k).graphical_model().without_intermediates()
    assert list(graph.variables) == ["A", "R", "E"]
    total = num_a + num_r + m * n
    assert graph.num_nodes == total
    assert pairs_of(graph.edge_index()) == symmetric_with_loops(total, links)


def test_co_parents_are_not_linked():
    graph = BCMF(m=2, n=2, k=2).graphical_model()
    a, r = graph.node_ids("A")[0, 1].item(), graph.node_ids("R")[1, 0].item()
    c = graph.node_ids("C")[0, 0, 1].item()
    links = pairs_of(graph.edge_index())
    assert {(a, c), (r, c)} <= links
    assert (a, r) not in links and (r, a) not in links


def test_a_factor_links_every_pair_of_each_row_and_nothing_across():
    graph = GraphicalModel()
    ids = graph.add_variable("x", (2, 3))
    graph.factor(ids)
    expected = symmetric_with_loops(6, cliques([[0, 1, 2], [3, 4, 5]]))
    assert pairs_of(graph.edge_index()) == expected
    graph.factor(ids.T)
    columns = cliques([[0, 3], [1, 4], [2, 5]])
    assert pairs_of(graph.edge_index()) == expected | columns


def test_directed_edges_and_factors_combine():
    graph = GraphicalModel()
    u = graph.add_variable("u", (2,), role=Role.OBSERVED)
    p = graph.add_variable("p", (2, 2), Categorical(2))
    graph.connect(u, p)  # u[j] -> p[i, j]
    graph.factor(p)
    links = {(0, 2), (1, 3), (0, 4), (1, 5)} | cliques([[2, 3], [4, 5]])
    assert pairs_of(graph.edge_index()) == symmetric_with_loops(6, links)
    assert graph.edges().t().tolist() == [[0, 2], [1, 3], [0, 4], [1, 5]]


def test_edges_stated_twice_appear_once():
    graph = GraphicalModel()
    a, b = graph.add_variable("a", (2,)), graph.add_variable("b", (2,))
    graph.connect(a, b)
    graph.connect(a, b)
    graph.connect(b, a)
    graph.factor(torch.stack([a, b], dim=-1))
    graph.factor(torch.stack([a, a, b], dim=-1))  # a repeated node counts once
    edges = graph.edge_index().as_tensor().t().tolist()
    assert edges == [[0, 0], [2, 0], [1, 1], [3, 1], [0, 2], [2, 2], [1, 3], [3, 3]]


def test_a_scalar_variable_is_one_node_that_broadcasts():
    graph = GraphicalModel()
    s, x = graph.add_variable("s", ()), graph.add_variable("x", (3,))
    graph.connect(s, x)
    assert pairs_of(graph.edge_index()) == symmetric_with_loops(
        4, {(0, 1), (0, 2), (0, 3)}
    )


def test_a_model_without_edges_keeps_its_self_loops():
    graph = GraphicalModel()
    x = graph.add_variable("x", (1,))
    graph.connect(x[:-1], x[1:])  # a chain of one node has no edges
    assert graph.edge_index().as_tensor().tolist() == [[0], [0]]
    assert graph.without_intermediates().edge_index().as_tensor().tolist() == [[0], [0]]
    assert GraphicalModel().edge_index().shape == (2, 0)


@st.composite
def models(draw):
    """A random model: its nodes, which are dropped, edges along the order, factors."""
    rng = draw(st.randoms(use_true_random=True))  # else most models are tiny
    nodes = range(rng.randint(1, 10))
    dropped = {v for v in nodes if rng.random() < 0.5}
    every = [(a, b) for a in nodes for b in nodes if a < b]
    edges = rng.choices(every, k=rng.randrange(2 * len(nodes))) if every else []
    factors = [rng.choices(nodes, k=rng.randint(1, 3)) for _ in range(rng.randrange(4))]
    return len(nodes), dropped, edges, factors


def build(num_nodes, dropped, edges, factors):
    graph = GraphicalModel()
    for v in range(num_nodes):
        role = Role.INTERMEDIATE if v in dropped else Role.LATENT
        graph.add_variable(f"v{v}", (), role=role)
    for a, b in edges:
        graph.connect(torch.tensor(a), torch.tensor(b))
    for factor in factors:
        graph.factor(torch.tensor(factor))
    return graph


@given(models())
def test_edge_index_of_random_models_equals_brute_force(model):
    num_nodes, _, edges, factors = model
    edge_index = build(*model).edge_index()
    links = set(edges) | cliques(map(set, factors))
    assert pairs_of(edge_index) == symmetric_with_loops(num_nodes, links)
    listed = edge_index.as_tensor().t().tolist()
    assert listed == sorted(listed, key=lambda edge: (edge[1], edge[0]))
    assert len(listed) == len(set(map(tuple, listed)))


@given(models())
def test_edge_index_is_symmetric_and_declares_it(model):
    edge_index = build(*model).edge_index()
    assert {(b, a) for a, b in pairs_of(edge_index)} == pairs_of(edge_index)
    assert edge_index.is_sorted_by_col and edge_index.is_undirected
    assert edge_index.sparse_size() == (model[0], model[0])
    edge_index.validate()


@given(models())
def test_directed_edges_lead_from_parents_and_within_factors(model):
    num_nodes, _, edges, factors = model
    edge_index = build(*model).edge_index("directed")
    loops = {(i, i) for i in range(num_nodes)}
    assert pairs_of(edge_index) == set(edges) | cliques(map(set, factors)) | loops
    assert edge_index.is_sorted_by_col and not edge_index.is_undirected
    edge_index.validate()


def test_a_complete_graph_links_all_pairs():
    edge_index = BCMF(m=2, n=1, k=2).graphical_model().edge_index("complete")
    assert pairs_of(edge_index) == set(product(range(12), repeat=2))
    assert edge_index.size(1) == 144
    assert edge_index.is_sorted_by_col and edge_index.is_undirected
    edge_index.validate()


def random_edges(num_nodes):
    graph = GraphicalModel()
    graph.add_variable("x", (num_nodes,))
    return graph.edge_index("random")


@pytest.mark.parametrize("num_nodes", [1, 2, 20, 21, 22, 300])
def test_random_edges_give_each_node_20_others_and_itself(num_nodes):
    edge_index = random_edges(num_nodes)
    sources = {node: set() for node in range(num_nodes)}
    for source, target in edge_index.as_tensor().t().tolist():
        assert source not in sources[target]
        sources[target].add(source)
    assert all(node in found for node, found in sources.items())
    assert {len(found) for found in sources.values()} == {min(num_nodes, 21)}
    assert edge_index.is_sorted_by_col and not edge_index.is_undirected
    edge_index.validate()


def test_random_edges_are_the_same_for_the_same_number_of_nodes():
    first = BCMF(m=2, n=3, k=4).graphical_model().edge_index("random")
    again = BCMF(m=3, n=2, k=4).graphical_model().edge_index("random")
    assert pairs_of(first) == pairs_of(again)
    torch.manual_seed(7)
    assert pairs_of(random_edges(50)) == pairs_of(first)
    largest = {pair for pair in pairs_of(random_edges(60)) if max(pair) < 50}
    assert largest != pairs_of(first)


def test_unknown_edges_are_rejected():
    with pytest.raises(ValueError, match=r"edges is one of structured.*got 'dense'"):
        GraphicalModel().edge_index("dense")


# without_intermediates


@settings(max_examples=200)
@given(models())
def test_eliminating_intermediates_equals_brute_force_on_random_models(model):
    num_nodes, dropped, _, _ = model
    kept_edges, kept_links = eliminate(*model)
    graph = build(*model).without_intermediates()
    directed = set(map(tuple, graph.edges().t().tolist()))
    assert directed == renumbered(num_nodes, dropped, kept_edges)
    links = renumbered(num_nodes, dropped, kept_edges | kept_links)
    expected = symmetric_with_loops(num_nodes - len(dropped), links)
    assert pairs_of(graph.edge_index()) == expected


def test_a_chain_of_intermediates_becomes_one_edge():
    graph = build(5, {1, 2, 3}, [(0, 1), (1, 2), (2, 3), (3, 4)], [])
    assert graph.without_intermediates().edges().tolist() == [[0], [1]]


def test_a_chain_of_intermediates_survives_an_edge_stated_twice():
    graph = build(4, {1, 2}, [(0, 1), (0, 1), (1, 2), (2, 3)], [])
    assert graph.without_intermediates().edges().tolist() == [[0], [1]]


def test_branching_intermediates_link_all_ancestors_to_all_descendants():
    # 0 -> 2, 1 -> 3; 2 and 3 -> 4 and 5; 4 -> 6, 5 -> 7; 2..5 are dropped
    middle = [(2, 4), (2, 5), (3, 4), (3, 5)]
    graph = build(8, {2, 3, 4, 5}, [(0, 2), (1, 3), *middle, (4, 6), (5, 7)], [])
    edges = set(map(tuple, graph.without_intermediates().edges().t().tolist()))
    assert edges == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_a_factor_with_an_intermediate_passes_to_its_parents():
    # c = f(p, q) and x share a factor, so p, q and x share one after c is dropped
    graph = build(4, {2}, [(0, 2), (1, 2)], [[2, 3]]).without_intermediates()
    assert graph.edges().numel() == 0
    expected = symmetric_with_loops(3, cliques([[0, 1, 2]]))
    assert pairs_of(graph.edge_index()) == expected


def test_a_factor_between_two_intermediates_links_their_parents():
    # each of the two has one parent, and they share a third
    edges = [(0, 3), (1, 4), (2, 3), (2, 4)]
    graph = build(5, {3, 4}, edges, [[3, 4]]).without_intermediates()
    expected = symmetric_with_loops(3, cliques([[0, 1, 2]]))
    assert pairs_of(graph.edge_index()) == expected


def test_eliminating_intermediates_keeps_positions():
    graph = GraphicalModel()
    graph.add_variable("c", (2,), role=Role.INTERMEDIATE)
    graph.add_variable("x", (2, 2), positions=(torch.tensor([4, 5]),))
    kept = graph.without_intermediates().variables["x"]
    assert kept.coordinates.tolist() == [[4], [5], [4], [5]]


def test_eliminating_intermediates_keeps_names_shapes_domains_and_roles():
    graph = BCMF(m=2, n=3, k=4).graphical_model()
    kept = graph.without_intermediates().variables
    for name in ("A", "R", "E"):
        before = graph.variables[name]
        assert kept[name].shape == before.shape
        assert kept[name].domain == before.domain
        assert kept[name].role is before.role
    assert graph.num_nodes == 2 * 4 + 4 * 3 + 2 * 3 * 4 + 2 * 3  # not changed


# to_networkx, repr


def test_to_networkx_labels_nodes_and_edges():
    graph = GraphicalModel()
    a = graph.add_variable("a", (1, 2), Categorical(3), role=Role.OBSERVED)
    rank = (torch.arange(2),)
    b = graph.add_variable("b", (2,), Continuous(0), Role.INTERMEDIATE, rank)
    graph.connect(a[0], b)
    graph.factor(b)
    graph.factor(a[0])
    network = graph.to_networkx()
    a_node = {"variable": "a", "role": "observed", "classes": 3, "coordinates": ()}
    b_node = {"variable": "b", "role": "intermediate", "classes": 0, "low": 0.0}
    assert dict(network.nodes(data=True)) == {
        0: {**a_node, "position": (0, 0)},
        1: {**a_node, "position": (0, 1)},
        2: {**b_node, "position": (0,), "coordinates": (0,)},
        3: {**b_node, "position": (1,), "coordinates": (1,)},
    }
    assert {(u, v): kind for u, v, kind in network.edges(data="kind")} == {
        (0, 2): "directed",
        (1, 3): "directed",
        (2, 3): "factor",
        (3, 2): "factor",
        (0, 1): "factor",
        (1, 0): "factor",
    }


def test_to_networkx_of_bcmf_is_the_program_as_a_dag():
    network = BCMF(m=2, n=2, k=2).graphical_model().to_networkx()
    assert network.number_of_nodes() == 20 and network.number_of_edges() == 24
    assert all(kind == "directed" for _, _, kind in network.edges(data="kind"))
    node = network.nodes[8 + 5]
    assert node["variable"] == "C" and node["position"] == (1, 0, 1)


def test_repr_lists_variables_sizes_and_density():
    text = repr(BCMF(m=2, n=3, k=4).graphical_model())
    num_nodes, num_edges = 8 + 12 + 24 + 6, 50 + 2 * 3 * 24
    for part in (
        "A[2, 4] latent",
        "R[4, 3] latent",
        "C[2, 3, 4] intermediate",
        "E[2, 3] observed",
        f"{num_nodes} nodes",
        f"{num_edges} edges",
        f"density {num_edges / num_nodes**2:.2%}",
    ):
        assert part in text
    assert "0 nodes" in repr(GraphicalModel())


def test_a_summary_counts_the_edges_of_the_kind_asked_for():
    graph = BCMF(m=2, n=3, k=4).graphical_model()
    assert graph.summary() == repr(graph)
    assert "2,500 edges, density 100.00%" in graph.summary("complete")
    assert f"{50 + 3 * 24} edges" in graph.summary("directed")


# encode, unpack


def test_encode_sees_variables_added_after_its_first_use():
    graph = GraphicalModel()
    graph.add_variable("x", (2,))
    assert graph.encode({}).shape == (2, 1)
    graph.add_variable("bit", (), Categorical(2))
    x = graph.encode({"x": torch.tensor([0.5, 2.0]), "bit": torch.tensor(1)})
    assert_close(x, torch.tensor([[0.5, 0, 0], [2.0, 0, 0], [0, 0, 1]]))


def test_unpack_gives_each_variable_its_rows_in_its_shape():
    graph = GraphicalModel()
    for name, shape in {"square": (2, 2), "number": (), "row": (3,)}.items():
        graph.add_variable(name, shape)
    rows = torch.arange(2 * 8 * 3).view(2, 8, 3)
    named = graph.unpack(rows)
    assert torch.equal(named["square"], rows[:, 0:4].reshape(2, 2, 2, 3))
    assert torch.equal(named["number"], rows[:, 4])
    assert torch.equal(named["row"], rows[:, 5:8])


# errors


def test_a_second_variable_of_one_name_is_rejected():
    graph = GraphicalModel()
    graph.add_variable("x", (2,))
    with pytest.raises(ValueError, match=r"unique.*got 'x'"):
        graph.add_variable("x", (3,))


def test_an_empty_name_is_rejected():
    with pytest.raises(ValueError, match="name that is not empty"):
        GraphicalModel().add_variable("", (2,))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (-1,)])
def test_a_size_below_one_is_rejected(shape):
    with pytest.raises(ValueError, match="size of variable 'x' must be at least 1"):
        GraphicalModel().add_variable("x", shape)


def test_a_rejected_variable_leaves_the_model_unchanged():
    graph = GraphicalModel()
    with pytest.raises(ValueError):
        graph.add_variable("x", (0,))
    assert graph.num_nodes == 0 and not graph.variables


@pytest.mark.parametrize("shape", [(2,), (3, 2), (1, 2, 3), (2, 2), (0,)])
def test_positions_that_do_not_broadcast_to_the_shape_are_rejected(shape):
    graph, position = GraphicalModel(), torch.zeros(shape, dtype=torch.long)
    with pytest.raises(ValueError, match=r"'x' must broadcast .*\(2, 3\).*got \("):
        graph.add_variable("x", (2, 3), positions=(position,))
    assert not graph.variables


@pytest.mark.parametrize(
    "positions",
    [
        torch.arange(3),
        (torch.tensor([0.0, 1.0, 2.0]),),
        (torch.tensor([True, False, True]),),
        ([0, 1, 2],),
        (0,),
    ],
    ids=["bare tensor", "float", "bool", "list", "number"],
)
def test_positions_must_be_integer_tensors(positions):
    with pytest.raises(TypeError, match=r"positions of variable 'x'.*\(got "):
        GraphicalModel().add_variable("x", (3,), positions=positions)


def test_connect_names_shapes_that_do_not_broadcast():
    graph = GraphicalModel()
    a, b = graph.add_variable("a", (2,)), graph.add_variable("b", (3, 4))
    with pytest.raises(ValueError, match=r"\[:, None\].*got \(2,\) and \(3, 4\)"):
        graph.connect(a, b)


@pytest.mark.parametrize("ids", [[0, 1], 0, torch.tensor([0.0, 1.0]), "x"])
def test_only_node_ids_are_accepted(ids):
    graph = GraphicalModel()
    x = graph.add_variable("x", (2,))
    for call in (
        lambda: graph.connect(ids, x),
        lambda: graph.connect(x, ids),
        lambda: graph.factor(ids),
    ):
        with pytest.raises(TypeError, match="node ids as add_variable"):
            call()


@pytest.mark.parametrize("node", [-1, 2])
def test_ids_outside_of_the_model_are_rejected(node):
    graph = GraphicalModel()
    x = graph.add_variable("x", (2,))
    with pytest.raises(ValueError, match=rf"0\.\.1 \(got {node}\.\.{node}\)"):
        graph.connect(torch.tensor([node]), x[:1])
    with pytest.raises(ValueError, match=r"0\.\.1"):
        graph.factor(torch.tensor([0, node]))


def test_a_node_cannot_be_its_own_parent():
    graph = GraphicalModel()
    x = graph.add_variable("x", (3,))
    with pytest.raises(ValueError, match=r"own parent.*got node 0"):
        graph.connect(x[:, None], x)
    assert graph.edges().numel() == 0


def test_a_factor_needs_ids_along_its_last_dimension():
    graph = GraphicalModel()
    x = graph.add_variable("x", ())
    with pytest.raises(ValueError, match=r"last dimension.*got shape \(\)"):
        graph.factor(x)
    with pytest.raises(ValueError, match=r"got shape \(1, 0\)"):
        graph.factor(x.view(1, 1)[:, :0])


def test_unpack_rejects_rows_that_are_not_one_per_node():
    graph = GraphicalModel()
    graph.add_variable("x", (2,))
    with pytest.raises(ValueError, match=r"one row per node.*got shape \(3, 12\)"):
        graph.unpack(torch.zeros(3, 12))


def test_encode_of_a_model_without_variables_asks_for_one():
    with pytest.raises(ValueError, match=r"at least one variable.*\(got none\)"):
        GraphicalModel().encode({})
