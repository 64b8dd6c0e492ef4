"""Instances as graphs: values, masks, edges and embedding rows in node order."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Batch

from gsdm_pyg import GraphOptions, to_data
from gsdm_pyg.data import encode, structure
from problems import BCMF
from tests.helpers import CountTask, seeded

PROBLEM = BCMF(m=2, n=3, k=2)


def instance(problem, **options):
    values = problem.sample(seeded(0))
    return to_data(problem, values, problem.observe(), GraphOptions(**options))


def test_an_instance_holds_values_masks_and_edges_in_node_order():
    graph, values = PROBLEM.graphical_model(), PROBLEM.sample(seeded(0))
    data = to_data(PROBLEM, values, PROBLEM.observe())
    assert_close(data.x, graph.encode(values))
    for name, decoded in graph.decode(data.x).items():
        assert_close(decoded, values[name])
    by_name = graph.unpack(data.variable_id[:, None])
    for number, name in enumerate(["A", "R", "C", "E"]):
        assert (by_name[name] == number).all()
        assert (graph.unpack(data.observed[:, None])[name] == (name == "E")).all()
    assert torch.equal(data.edge_index.as_tensor(), graph.edge_index().as_tensor())


def test_encoding_together_equals_one_instance_at_a_time():
    values = PROBLEM.sample_batch(4, seeded(0))
    observed = PROBLEM.observe_batch(4, seeded(1), "mixed")
    together = encode(PROBLEM, values, observed)
    assert len(together) == 4 and len(together[1:3]) == 2
    for i in range(4):
        one = to_data(
            PROBLEM,
            {name: value[i] for name, value in values.items()},
            {name: mask[i] for name, mask in observed.items()},
        )
        assert torch.equal(together.x[i], one.x)
        assert torch.equal(together.observed[i], one.observed)


def test_variables_left_out_are_zero():
    instances = encode(PROBLEM, {}, PROBLEM.observe_batch(2))
    assert instances.x.shape == (2, 4 + 6 + 12 + 6, 3) and not instances.x.any()


def test_numbers_of_instances_that_disagree_are_refused():
    with pytest.raises(ValueError, match=r"observed hold 2 instances.*\(got .*\(3,\)"):
        encode(PROBLEM, PROBLEM.sample_batch(3), PROBLEM.observe_batch(2))


def test_structure_is_computed_once_per_size_and_options():
    assert structure(BCMF(m=2, n=3, k=2)) is structure(PROBLEM)
    assert structure(BCMF(m=3, n=2, k=2)) is not structure(PROBLEM)
    first, again, other = (
        structure(PROBLEM, GraphOptions(embedding=embedding))
        for embedding in ("array", "array", "shared")
    )
    assert first is again is not other


def test_batching_leaves_the_shared_structure_as_it_was():
    before = structure(PROBLEM).edge_index.as_tensor().clone()
    rows = {key: value.clone() for key, value in structure(PROBLEM).embedding.items()}
    Batch.from_data_list([instance(PROBLEM)] * 3)
    assert torch.equal(structure(PROBLEM).edge_index.as_tensor(), before)
    for key, value in structure(PROBLEM).embedding.items():
        assert torch.equal(value, rows[key])


# embedding rows

PLACES = {  # what distinguishes x[i, j], c[i, j] and s[i] of a CountTask
    "exchangeable": lambda number, i, *j: (i,),
    "array": lambda number, i, j=0: (i, j),  # zero beyond the axes of a variable
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
def test_nodes_of_a_batch_point_to_the_embedding_rows_of_their_places(embedding):
    problems = [CountTask(n=n) for n in (2, 1, 3, 2)]
    batch = Batch.from_data_list([instance(p, embedding=embedding) for p in problems])
    expected = [
        (graph, *place)
        for graph, problem in enumerate(problems)
        for place in places(problem, embedding)
    ]
    graph, variable, position = (
        batch.embedding[key][batch.embedding["row_id"]]
        for key in ("row_graph", "row_variable", "row_position")
    )
    coordinates = map(tuple, position.tolist())
    found = zip(graph.tolist(), variable.tolist(), coordinates, strict=True)
    assert list(found) == expected
    assert len(batch.embedding["row_variable"]) == len(set(expected))  # no row twice
    assert torch.equal(batch.variable_id, variable)


def test_exchangeable_nodes_of_bcmf_have_one_row_per_variable():
    rows = structure(PROBLEM).embedding
    assert rows["row_variable"].tolist() == [0, 1, 2, 3]
    assert rows["row_position"].shape == (4, 0)
    assert torch.equal(rows["row_id"], structure(PROBLEM).variable_id)


def test_a_graph_taken_out_of_a_batch_has_its_own_rows_again():
    graph = instance(CountTask(n=2), embedding="array")
    again = Batch.from_data_list([graph, graph, graph])[2]
    for key, value in graph.embedding.items():
        assert torch.equal(again.embedding[key], value), key


# options


def test_dropped_intermediates_have_no_nodes():
    problem = CountTask(n=2)
    data = instance(problem, intermediates="drop")
    kept = problem.graphical_model().without_intermediates()
    assert data.num_nodes == kept.num_nodes == 6
    assert torch.equal(data.edge_index.as_tensor(), kept.edge_index().as_tensor())


def test_unsupervised_intermediates_have_no_values():
    problem, options = CountTask(n=2), GraphOptions(intermediates="unsupervised")
    values = problem.sample(seeded(0))
    everything = {name: torch.ones_like(v).bool() for name, v in values.items()}
    data = to_data(problem, values, everything, options)
    whole = to_data(problem, values, everything)
    without = data.variable_id == 1
    assert (data.x[without] == 0).all() and (whole.x[without] != 0).any()
    assert torch.equal(data.x[~without], whole.x[~without])
    assert torch.equal(data.observed, ~without)
    assert torch.equal(data.edge_index.as_tensor(), whole.edge_index.as_tensor())
