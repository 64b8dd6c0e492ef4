"""Batches: a function of (seed, rank, step), within a node budget, of many sizes."""

from itertools import islice

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch

from gsdm_pyg import GraphView, ProblemBatches, to_data
from gsdm_pyg.data import check_given, collate, keyed_generator, structure
from problems import BCMF
from tests.runs import CountTask

FAMILY = BCMF.family(m=(1, 4), n=(1, 4), k=(1, 3))


def assert_same(first, second):
    """Two batches hold the same graphs, values, masks and order."""
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.observed, second.observed)
    assert torch.equal(first.variable_id, second.variable_id)
    assert torch.equal(first.batch, second.batch)
    assert torch.equal(first.edge_index.as_tensor(), second.edge_index.as_tensor())


def sizes_of(batch):
    """Nodes of each graph of a batch."""
    return batch.batch.bincount().tolist()


def instances(batch):
    """The values of each graph, hashable."""
    return {tuple(graph.x.flatten().tolist()) for graph in batch.to_data_list()}


# one instance


def test_an_instance_holds_values_masks_and_labels_in_node_order():
    problem = BCMF(m=2, n=3, k=2)
    graph = problem.graphical_model()
    values = problem.sample(torch.Generator().manual_seed(0))
    data = to_data(problem, values, problem.observe())
    assert_close(data.x, graph.encode(values))
    for name, decoded in graph.decode(data.x).items():
        assert_close(decoded, values[name])
    by_name = graph.unpack(data.variable_id[:, None])
    for number, name in enumerate(["A", "R", "C", "E"]):
        assert (by_name[name] == number).all()
        assert (graph.unpack(data.observed[:, None])[name] == (name == "E")).all()
    assert torch.equal(data.edge_index.as_tensor(), graph.edge_index().as_tensor())


def test_structure_is_computed_once_per_size_and_view():
    assert structure(BCMF(m=2, n=3, k=2)) is structure(BCMF(m=2, n=3, k=2))
    assert structure(BCMF(m=2, n=3, k=2)) is not structure(BCMF(m=3, n=2, k=2))
    views = [GraphView("array"), GraphView("array"), GraphView("shared")]
    first, again, other = (structure(BCMF(m=2, n=3, k=2), view) for view in views)
    assert first is again is not other


# labels

PLACES = {  # what tells apart x[i, j], c[i, j] and s[i] of a CountTask
    "exchangeable": lambda number, i, *j: (i,),
    "array": lambda number, i, j=0: (i, j),
    "independent": lambda number, *index: (number,),
    "shared": lambda number, *index: (),
}


def places(problem, embedding):
    """(variable, coordinates) of every node, one by one."""
    shapes = {v.name: v.shape for v in problem.graphical_model().variables.values()}
    nodes = [
        (v, i) for v, shape in enumerate(shapes.values()) for i in np.ndindex(shape)
    ]
    return [(v, PLACES[embedding](number, *i)) for number, (v, i) in enumerate(nodes)]


@pytest.mark.parametrize("embedding", PLACES)
def test_labels_of_a_batch_point_to_the_right_rows(embedding):
    problems = [CountTask(n=n) for n in (2, 1, 3, 2)]
    view = GraphView(embedding)
    batch = collate([to_data(p, p.sample(), p.observe(), view) for p in problems])
    expected = [
        (graph, *place)
        for graph, problem in enumerate(problems)
        for place in places(problem, embedding)
    ]
    graph, variable, position = (
        batch[key][batch.label_id]
        for key in ("label_variable_batch", "label_variable", "label_position")
    )
    coordinates = map(tuple, position.tolist())
    found = zip(graph.tolist(), variable.tolist(), coordinates, strict=True)
    assert list(found) == expected
    assert len(batch.label_variable) == len(set(expected))  # no label twice
    assert torch.equal(batch.variable_id, variable)


def test_exchangeable_labels_of_bcmf_are_its_four_variables():
    batch = ProblemBatches(FAMILY, batch_size=6).batch(0)
    assert batch.label_variable.tolist() == [0, 1, 2, 3] * 6
    assert batch.label_position.shape == (24, 0)
    assert torch.equal(batch.label_id, 4 * batch.batch + batch.variable_id)


def test_a_graph_taken_out_of_a_batch_has_its_own_labels_again():
    problem, view = CountTask(n=2), GraphView("array")
    graph = to_data(problem, problem.sample(), problem.observe(), view)
    again = collate([graph, graph, graph])[2]
    assert torch.equal(again.label_id, graph.label_id)
    assert torch.equal(again.label_position, graph.label_position)


def test_a_variable_of_fewer_axes_has_zeros_beyond_them():
    labels = structure(CountTask(n=2), GraphView("array"))
    s = labels.label_position[labels.label_variable == 2]
    assert s.tolist() == [[0, 0], [1, 0]]


# views


def test_dropped_intermediates_have_no_nodes():
    problem = CountTask(n=2)
    view, graph = GraphView(intermediates="drop"), problem.graphical_model()
    data = to_data(problem, problem.sample(), problem.observe(), view)
    kept = graph.without_intermediates()
    assert data.num_nodes == kept.num_nodes == 6
    assert torch.equal(data.edge_index.as_tensor(), kept.edge_index().as_tensor())
    batches = ProblemBatches(problem, batch_size=3, max_nodes=6, view=view)
    assert batches.batch(0).num_nodes == 6


def test_unsupervised_intermediates_carry_no_value():
    problem, view = CountTask(n=2), GraphView(intermediates="unsupervised")
    values = problem.sample(torch.Generator().manual_seed(0))
    everything = {name: torch.ones_like(v).bool() for name, v in values.items()}
    data = to_data(problem, values, everything, view)
    whole = to_data(problem, values, everything)
    silent = data.variable_id == 1
    assert (data.x[silent] == 0).all() and (whole.x[silent] != 0).any()
    assert torch.equal(data.x[~silent], whole.x[~silent])
    assert torch.equal(data.observed, ~silent)
    assert torch.equal(data.edge_index.as_tensor(), whole.edge_index.as_tensor())


@pytest.mark.parametrize("edges", ["structured", "complete", "random", "directed"])
def test_a_batch_has_the_edges_of_its_view(edges):
    batch = ProblemBatches(FAMILY, 5, view=GraphView(edges=edges)).batch(0)
    assert batch.edge_index.is_sorted_by_col
    assert batch.edge_index.is_undirected == (edges in ("structured", "complete"))
    batch.edge_index.validate()
    same = batch.batch[:, None] == batch.batch
    if edges == "complete":
        assert torch.equal(batch.edge_index.as_tensor(), same.t().nonzero().t().flip(0))


# (seed, rank, step)


def test_a_step_depends_on_seed_rank_and_number_alone(untouched_random_state):
    def fresh():
        return ProblemBatches(FAMILY, batch_size=4, observe="mixed", seed=3, rank=1)

    forwards, backwards = fresh(), fresh()
    first = [forwards.batch(step) for step in range(5)]
    for step in reversed(range(5)):
        assert_same(backwards.batch(step), first[step])
    for step, batch in enumerate(islice(fresh(), 5)):
        assert_same(batch, first[step])
    assert_same(forwards.batch(2), first[2])


def test_batches_ignore_the_global_generator():
    torch.manual_seed(1)
    first = ProblemBatches(FAMILY, 4, observe="mixed").batch(0)
    torch.manual_seed(2)
    assert_same(ProblemBatches(FAMILY, 4, observe="mixed").batch(0), first)


def test_every_seed_rank_and_step_has_its_own_data():
    family = BCMF.family(m=2, n=2, k=2)
    drawn = [
        instances(ProblemBatches(family, 1, seed=seed, rank=rank).batch(step)).pop()
        for seed in range(3)
        for rank in range(3)
        for step in range(3)
    ]
    assert len(set(drawn)) == 27


def test_streams_of_other_purposes_and_keys_differ():
    keys = [("a", 1), ("b", 1), ("a", 2), ("a", 1, 0), ("a", 0, 1), ("a",), ("a", 0)]
    draws = [torch.rand((), generator=keyed_generator(*key)).item() for key in keys]
    assert len(set(draws)) == len(keys)
    again = [torch.rand((), generator=keyed_generator(*key)).item() for key in keys]
    assert draws == again


def test_first_step_resumes_the_sequence():
    whole = list(islice(ProblemBatches(FAMILY, 3), 6))
    resumed = list(islice(ProblemBatches(FAMILY, 3, first_step=4), 2))
    for batch, expected in zip(resumed, whole[4:], strict=True):
        assert_same(batch, expected)


@pytest.mark.slow
def test_worker_processes_yield_the_sequence_of_one_process():
    dataset = ProblemBatches(FAMILY, 3, observe="mixed", first_step=2)
    workers = DataLoader(dataset, batch_size=None, num_workers=2)
    for step, batch in enumerate(islice(workers, 5), start=2):
        assert_same(batch, dataset.batch(step))
        assert batch.edge_index.is_sorted_by_col and batch.edge_index.is_undirected


# finite data sets


def test_a_finite_data_set_has_that_many_instances():
    dataset = ProblemBatches(FAMILY, batch_size=8, num_examples=5)
    seen = set().union(*(instances(dataset.batch(step)) for step in range(20)))
    assert len(seen) == 5


def test_every_rank_draws_from_the_same_finite_data_set():
    def seen(seed, rank):
        dataset = ProblemBatches(FAMILY, 8, num_examples=4, seed=seed, rank=rank)
        return set().union(*(instances(dataset.batch(step)) for step in range(12)))

    assert seen(seed=0, rank=0) == seen(seed=0, rank=1)
    assert not seen(seed=0, rank=0) & seen(seed=1, rank=0)


def test_ranks_draw_a_finite_data_set_in_different_orders():
    first = ProblemBatches(FAMILY, 8, num_examples=100, rank=0).batch(0)
    second = ProblemBatches(FAMILY, 8, num_examples=100, rank=1).batch(0)
    assert instances(first) != instances(second)


def test_a_smaller_data_set_is_part_of_a_larger_one():
    few = ProblemBatches(FAMILY, 8, num_examples=2)
    many = ProblemBatches(FAMILY, 8, num_examples=6)
    seen = [
        set().union(*(instances(d.batch(i)) for i in range(20))) for d in (few, many)
    ]
    assert seen[0] < seen[1]


# sizes and the node budget


def test_one_batch_holds_many_sizes():
    batch = ProblemBatches(FAMILY, batch_size=16).batch(0)
    assert batch.num_graphs == 16
    assert len(set(sizes_of(batch))) > 5


def test_without_a_budget_every_batch_is_full():
    dataset = ProblemBatches(FAMILY, batch_size=7)
    assert all(dataset.batch(step).num_graphs == 7 for step in range(10))


@pytest.mark.parametrize("slack", [0, 1, 40, 200])
def test_the_node_budget_holds_and_no_batch_is_empty(slack):
    largest = FAMILY.largest().graphical_model().num_nodes
    dataset = ProblemBatches(FAMILY, batch_size=9, max_nodes=largest + slack)
    batches = [dataset.batch(step) for step in range(40)]
    assert all(1 <= b.num_graphs <= 9 for b in batches)
    assert all(b.num_nodes <= largest + slack for b in batches)
    if slack >= 4:  # the smallest problem has four nodes
        assert max(b.num_graphs for b in batches) > 1


def test_a_budget_below_the_largest_problem_is_refused():
    largest = FAMILY.largest().graphical_model().num_nodes
    with pytest.raises(ValueError, match=rf"largest problem has {largest}.*got 50\)"):
        ProblemBatches(FAMILY, batch_size=1, max_nodes=50)
    ProblemBatches(FAMILY, batch_size=1, max_nodes=largest)


def test_the_budget_does_not_favour_small_problems():
    family = BCMF.family(m=(1, 20), n=1, k=1)  # 3 m + 1 nodes
    tight = ProblemBatches(family, batch_size=100, max_nodes=100)
    sizes = []
    for step in range(400):
        sizes += sizes_of(tight.batch(step))
    sizes = (torch.tensor(sizes).double() - 1) / 3
    spread = ((20**2 - 1) / 12) ** 0.5
    assert len(sizes) > 600
    assert abs(sizes.mean() - 10.5) < 3 * spread / len(sizes) ** 0.5
    assert {1.0, 20.0} <= set(sizes.tolist())


# batches


def test_a_batch_keeps_its_edges_sorted_and_undirected():
    batch = ProblemBatches(FAMILY, batch_size=6).batch(0)
    edge_index = batch.edge_index
    assert isinstance(edge_index, EdgeIndex)
    assert edge_index.is_sorted_by_col and edge_index.is_undirected
    assert edge_index.sparse_size() == (batch.num_nodes, batch.num_nodes)
    edge_index.validate()
    (pointer, source), order = edge_index.get_csc()
    assert order is None  # nothing is sorted again
    assert torch.equal(source, edge_index.as_tensor()[0])
    degree = edge_index.as_tensor()[1].bincount(minlength=batch.num_nodes)
    assert torch.equal(pointer.diff(), degree)


def test_a_batch_is_what_pyg_makes_of_its_graphs():
    problems = [BCMF(m=1, n=2, k=1), BCMF(m=3, n=1, k=2), BCMF(m=2, n=2, k=2)]
    generator = torch.Generator().manual_seed(0)
    graphs = [to_data(p, p.sample(generator), p.observe()) for p in problems]
    batch = collate(graphs)
    expected = Batch.from_data_list(graphs, follow_batch=["label_variable"])
    assert batch.num_graphs == expected.num_graphs == 3
    assert_same_arrays(batch, expected)
    (pointer, _), _ = batch.edge_index.get_csc()
    assert torch.equal(pointer, expected.edge_index.get_csc()[0][0])
    for one, other in zip(batch.to_data_list(), graphs, strict=True):
        assert_same_arrays(one, other)
    assert_same_arrays(batch[1], graphs[1])


def assert_same_arrays(one, other):
    keys = set(one.keys())
    assert keys == set(other.keys())
    for key in keys:
        assert torch.equal(torch.as_tensor(one[key]), torch.as_tensor(other[key])), key


def test_collating_leaves_the_shared_structure_as_it_was():
    problem = BCMF(m=2, n=2, k=2)
    before = structure(problem).edge_index.as_tensor().clone()
    graph = to_data(problem, problem.sample(), problem.observe())
    collate([graph, graph, graph])
    assert torch.equal(structure(problem).edge_index.as_tensor(), before)


# given


GRAPH = BCMF(m=2, n=3, k=2).graphical_model()


def test_given_nothing_means_nothing_is_known():
    values, known = check_given(GRAPH, {})
    assert values == {}
    assert {name: mask.any().item() for name, mask in known.items()} == dict.fromkeys(
        "ARCE", False
    )
    assert known["C"].shape == (2, 3, 2)


def test_nan_marks_the_entries_that_are_unknown():
    R = np.array([[0, np.nan, 1], [np.nan, 1, 0]])
    values, known = check_given(GRAPH, {"R": R, "E": torch.ones(2, 3)})
    assert torch.equal(known["R"], torch.tensor(~np.isnan(R)))
    assert known["E"].all() and not known["A"].any() and not known["C"].any()
    assert values["R"].tolist() == [[0, 0, 1], [0, 1, 0]]
    data = to_data(BCMF(m=2, n=3, k=2), values, known)
    assert data.x.isfinite().all()
    assert data.observed.sum() == 4 + 6


@pytest.mark.parametrize(
    "value",
    [
        [[0, 1, 1], [1, 0, 0]],
        np.array([[0, 1, 1], [1, 0, 0]], dtype=np.uint8),
        np.array([[False, True, True], [True, False, False]]),
        np.array([[1, 0, 0], [0, 1, 1]])[::-1],
        torch.tensor([[0.0, 1, 1], [1, 0, 0]], dtype=torch.float64),
        torch.tensor([[0.0, 1, 1], [1, 0, 0]], requires_grad=True),
    ],
    ids=["list", "uint8", "bool", "reversed view", "float64", "requires grad"],
)
def test_given_takes_arrays_of_any_kind(value):
    values, known = check_given(GRAPH, {"R": value})
    assert known["R"].all()
    encoded = GRAPH.decode(GRAPH.encode(values))["R"]
    assert encoded.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_unsupervised_intermediates_cannot_be_given():
    view = GraphView(intermediates="unsupervised")
    with pytest.raises(ValueError, match=r"variables A, R, E \(got 'C'\)"):
        check_given(GRAPH, {"C": torch.ones(2, 3, 2)}, view)
    _, known = check_given(GRAPH, {"E": torch.ones(2, 3)}, view)
    assert known["E"].all() and not known["C"].any()


def test_given_an_unknown_name_lists_the_variables():
    with pytest.raises(ValueError, match=r"variables A, R, C, E \(got 'B'\)"):
        check_given(GRAPH, {"B": torch.ones(2, 2)})


@pytest.mark.parametrize("shape", [(3, 2), (2,), (1, 2, 3), (6,), ()])
def test_given_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"given\['E'\].*shape \(2, 3\) \(got \("):
        check_given(GRAPH, {"E": torch.ones(shape)})


@pytest.mark.parametrize("value", [2, -1, 0.5, float("inf")])
def test_given_a_class_that_does_not_exist_is_refused(value):
    R = torch.zeros(2, 3, dtype=torch.float64)
    R[1, 2] = value
    with pytest.raises(ValueError, match=rf"given\['R'\].*classes 0..1.*got {value}"):
        check_given(GRAPH, {"R": R})


@pytest.mark.parametrize("value", [-0.25, 1.5, float("inf"), -float("inf")])
def test_given_a_number_out_of_bounds_is_refused(value):
    A = torch.full((2, 2), 0.5)
    A[0, 1] = value
    with pytest.raises(ValueError, match=rf"given\['A'\].*in \[0, 1\].*got {value}"):
        check_given(GRAPH, {"A": A})


def test_given_an_infinite_number_is_refused_without_bounds():
    with pytest.raises(ValueError, match=r"given\['E'\] takes real numbers.*got inf"):
        check_given(GRAPH, {"E": torch.full((2, 3), float("inf"))})


@pytest.mark.parametrize(
    "value", [[[None, 1, 0], [1, 1, 1]], [["a", "b", "c"]] * 2, [[1], [1, 2]]]
)
def test_given_what_is_no_array_of_numbers_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"given\['R'\]"):
        check_given(GRAPH, {"R": value})
