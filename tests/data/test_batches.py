"""Batches: a function of (seed, rank, step), within a node budget, of many sizes."""

from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch

from gsdm_pyg import GraphOptions, ProblemBatches, to_data
from gsdm_pyg.data import encode, structure
from gsdm_pyg.data.batches import to_batch
from gsdm_pyg.settings import DataSettings
from problems import BCMF
from tests.helpers import CopyTask, CountTask, seeded

FAMILY = BCMF.family(m=(1, 4), n=(1, 4), k=(1, 3))
LARGEST = FAMILY.largest().graphical_model().num_nodes


def arrays_of(batch):
    """Every attribute by name, those of the embedding rows too."""
    flat = {key: batch[key] for key in batch.keys() if key != "embedding"}  # noqa: SIM118
    return {**flat, **{f"embedding.{k}": v for k, v in batch.embedding.items()}}


def assert_same(first, second):
    """Two batches hold the same graphs, values, masks and order."""
    first_arrays, second_arrays = arrays_of(first), arrays_of(second)
    assert first_arrays.keys() == second_arrays.keys()
    for name, array in first_arrays.items():
        other = second_arrays[name]
        assert array.dtype == other.dtype, name
        assert torch.equal(torch.as_tensor(array), torch.as_tensor(other)), name
    assert first.num_graphs == second.num_graphs
    assert first.num_nodes == second.num_nodes
    one, two = first.edge_index, second.edge_index
    assert one.sparse_size() == two.sparse_size()
    assert one.is_undirected == two.is_undirected
    assert one.sort_order == two.sort_order


def sizes_of(batch):
    """Nodes of each graph of a batch."""
    return batch.ptr.diff().tolist()


def instances(batch):
    """The values of each graph, hashable."""
    return {tuple(x.flatten().tolist()) for x in batch.x.split(sizes_of(batch))}


def seen(batches, num_steps):
    """The instances of the first steps."""
    return set().union(*(instances(batches.batch(step)) for step in range(num_steps)))


# groups of one size -> one batch


OPTIONS = [
    {},
    {"embedding": "array", "edges": "complete"},
    {"embedding": "independent", "edges": "random", "intermediates": "drop"},
    {"embedding": "shared", "edges": "directed", "intermediates": "unsupervised"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("problem", [BCMF, CountTask])
def test_a_batch_is_what_pyg_makes_of_its_graphs(problem, options):
    options = GraphOptions(**options)
    sizes = [(1, 2, 1), (3, 1, 2), (2, 2, 2)] if problem is BCMF else [(2,), (1,), (3,)]
    groups, graphs = [], []
    for count, size in zip((2, 1, 3), sizes, strict=True):
        one = problem(*size)
        values = one.sample_batch(count, seeded(count))
        observed = one.observe_batch(count, seeded(count), "mixed")
        groups.append(encode(one, values, observed, options))
        for i in range(count):
            value = {name: array[i] for name, array in values.items()}
            mask = {name: array[i] for name, array in observed.items()}
            graphs.append(to_data(one, value, mask, options))
    batch, expected = to_batch(groups, options), Batch.from_data_list(graphs)
    assert batch.num_graphs == 6
    assert_same(batch, expected)
    (pointer, source), order = batch.edge_index.get_csc()
    assert order is None  # sorted by destination: nothing is sorted again
    assert torch.equal(pointer, expected.edge_index.get_csc()[0][0])
    assert torch.equal(source, batch.edge_index.as_tensor()[0])


def test_batching_leaves_the_shared_structure_as_it_was():
    problem = BCMF(m=2, n=2, k=2)
    shared = structure(problem)
    before = [shared.edge_index.as_tensor().clone(), shared.variable_id.clone()]
    rows = {key: value.clone() for key, value in shared.embedding.items()}
    group = encode(problem, problem.sample_batch(3), problem.observe_batch(3))
    to_batch([group, group])
    assert torch.equal(shared.edge_index.as_tensor(), before[0])
    assert torch.equal(shared.variable_id, before[1])
    for key, value in shared.embedding.items():
        assert torch.equal(value, rows[key]), key


@pytest.mark.parametrize("edges", ["structured", "complete", "random", "directed"])
def test_a_batch_has_the_edges_of_its_options(edges):
    batches = ProblemBatches(FAMILY, batch_size=5, options=GraphOptions(edges=edges))
    batch = batches.batch(0)
    edge_index, num_nodes = batch.edge_index, batch.num_nodes
    assert isinstance(edge_index, EdgeIndex) and edge_index.is_sorted_by_col
    assert edge_index.is_undirected == (edges in ("structured", "complete"))
    assert edge_index.sparse_size() == (num_nodes, num_nodes)
    edge_index.validate()
    (pointer, _), _ = edge_index.get_csc()
    degree = edge_index.as_tensor()[1].bincount(minlength=num_nodes)
    assert torch.equal(pointer.diff(), degree)
    same = batch.batch[:, None] == batch.batch
    if edges == "complete":
        assert torch.equal(edge_index.as_tensor(), same.nonzero().t().flip(0))


def test_dropped_intermediates_do_not_count_for_the_node_budget():
    options = GraphOptions(intermediates="drop")
    batches = ProblemBatches(CountTask(n=2), batch_size=3, max_nodes=6, options=options)
    assert batches.batch(0).num_nodes == 6


class CountedTask(CopyTask):
    """A CopyTask that writes down how many instances are drawn together."""

    def sample_batch(self, num, generator=None):
        CALLS.append((self.n, num))
        x = torch.randn(num, self.n, generator=generator)
        return {"x": x, "y": x, "z": (x > 0).long()}


CALLS: list[tuple[int, int]] = []


@pytest.mark.parametrize("max_nodes", [None, 30])
def test_instances_of_one_size_are_drawn_in_one_call(max_nodes):
    batches = ProblemBatches(
        CountedTask.family(n=(1, 3)), batch_size=20, max_nodes=max_nodes
    )
    for step in range(5):
        CALLS.clear()
        batch = batches.batch(step)
        sizes = torch.tensor(sizes_of(batch)) // 3
        assert len({n for n, _ in CALLS}) == len(CALLS)
        assert dict(CALLS) == {int(n): int((sizes == n).sum()) for n in sizes.unique()}


# (seed, rank, step)


@pytest.mark.parametrize("num_examples", [None, 7])
def test_a_step_depends_on_seed_rank_and_number_alone(
    num_examples, untouched_random_state
):
    data = {"batch_size": 4, "observe": "mixed", "num_examples": num_examples}

    def fresh():
        return ProblemBatches(FAMILY, seed=3, rank=1, **data)

    forwards, backwards = fresh(), fresh()
    first = [forwards.batch(step) for step in range(5)]
    for step in reversed(range(5)):
        assert_same(backwards.batch(step), first[step])
    for step, batch in enumerate(islice(fresh(), 5)):
        assert_same(batch, first[step])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        assert_same(forwards.batch(2), first[2])


def test_every_seed_rank_and_step_has_its_own_data():
    family = BCMF.family(m=2, n=2, k=2)
    drawn = set().union(
        *(
            seen(ProblemBatches(family, batch_size=1, seed=seed, rank=rank), 3)
            for seed in range(3)
            for rank in range(3)
        )
    )
    assert len(drawn) == 27


def test_first_step_resumes_the_sequence():
    whole = list(islice(ProblemBatches(FAMILY, batch_size=3), 6))
    resumed = list(islice(ProblemBatches(FAMILY, batch_size=3, first_step=4), 2))
    for batch, expected in zip(resumed, whole[4:], strict=True):
        assert_same(batch, expected)


@pytest.mark.slow
def test_worker_processes_yield_the_sequence_of_one_process():
    dataset = ProblemBatches(FAMILY, batch_size=3, observe="mixed", first_step=2)
    workers = DataLoader(dataset, batch_size=None, num_workers=2)
    for step, batch in enumerate(islice(workers, 5), start=2):
        assert_same(batch, dataset.batch(step))
        assert batch.edge_index.is_sorted_by_col and batch.edge_index.is_undirected


# finite data sets


def finite(num_examples, **arguments):
    arguments = {"batch_size": 8, "num_examples": num_examples, **arguments}
    return ProblemBatches(FAMILY, **arguments)


def test_a_finite_data_set_has_that_many_instances_and_is_part_of_a_larger_one():
    few, many = seen(finite(5), 20), seen(finite(9), 20)
    assert len(few) == 5 and len(many) == 9
    assert few < many


def test_every_rank_draws_from_the_same_finite_data_set():
    assert seen(finite(4), 12) == seen(finite(4, rank=1), 12)
    assert not seen(finite(4), 12) & seen(finite(4, seed=1), 12)


def test_ranks_draw_a_finite_data_set_in_different_orders():
    first, second = (finite(100, rank=rank).batch(0) for rank in (0, 1))
    assert instances(first) != instances(second)


# sizes and the node budget


def test_one_batch_holds_many_sizes_and_is_full_without_a_budget():
    dataset = ProblemBatches(FAMILY, batch_size=16)
    assert len(set(sizes_of(dataset.batch(0)))) > 5
    assert all(dataset.batch(step).num_graphs == 16 for step in range(10))


@pytest.mark.parametrize("num_examples", [None, 50])
@pytest.mark.parametrize("slack", [0, 1, 40, 200])
def test_the_node_budget_holds_and_no_batch_is_empty(slack, num_examples):
    data = {"batch_size": 9, "num_examples": num_examples}
    dataset = ProblemBatches(FAMILY, max_nodes=LARGEST + slack, **data)
    batches = [dataset.batch(step) for step in range(40)]
    assert all(1 <= b.num_graphs <= 9 for b in batches)
    assert all(b.num_nodes <= LARGEST + slack for b in batches)
    if slack >= 40:
        assert max(b.num_graphs for b in batches) > 1


def test_a_budget_below_the_largest_problem_is_refused():
    with pytest.raises(ValueError, match=rf"largest problem has {LARGEST}.*got 50\)"):
        ProblemBatches(FAMILY, batch_size=1, max_nodes=50)
    ProblemBatches(FAMILY, batch_size=1, max_nodes=LARGEST)


def test_the_budget_does_not_favor_small_problems():
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


def test_a_misspelt_argument_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="'batchsize'; did you mean 'batch_size'"):
        ProblemBatches(FAMILY, batchsize=4)


@pytest.mark.parametrize(
    ("largest", "expected"), [(1, 256), (17, 128), (128, 32), (300, 16), (9999, 16)]
)
def test_small_graphs_come_in_larger_batches_unless_told_otherwise(largest, expected):
    assert DataSettings().num_graphs(largest) == expected
    assert DataSettings(batch_size=3).num_graphs(largest) == 3


def test_the_default_batch_follows_from_the_largest_size():
    assert ProblemBatches(BCMF(m=1, n=1, k=1)).batch(0).num_graphs == 256
    assert ProblemBatches(BCMF.family(m=(1, 9), n=9, k=9)).batch(0).num_graphs == 16
