"""The denoiser: batching, relabelling of nodes, information along edges only."""

import networkx as nx
import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close
from torch_geometric.data import Batch

from gsdm_pyg import Denoiser, GraphOptions, to_data
from problems import BCMF
from tests.helpers import CountTask, seeded


@pytest.fixture(params=["fused", "scatter"])
def backend(request):
    return request.param


def denoiser_of(layers=3, backend="auto", columns=3, variables=4, **arguments):
    """A denoiser without zero weights: fresh ones pass nothing from node to node."""
    denoiser = Denoiser(
        columns, variables, 16, layers, heads=2, backend=backend, **arguments
    )
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.normal_(std=0.3)
    return denoiser


def run(denoiser, batch, t):
    return denoiser(batch.x, t, batch.observed, batch.edge_index, batch.embedding)


def instance(problem, seed=0, **options):
    """A graph with random values in all columns and a random half observed."""
    generator = seeded(seed)
    masks = {
        name: torch.rand(variable.shape, generator=generator) < 0.5
        for name, variable in problem.graphical_model().variables.items()
    }
    data = to_data(problem, {}, masks, GraphOptions(**options))
    data.x = torch.randn(data.x.shape, generator=generator)
    return data


def batch_of(*graphs):
    return Batch.from_data_list(list(graphs))


# batching


OPTIONS = [
    {},
    {"embedding": "array"},
    {"edges": "complete"},
    {"edges": "random"},
    {"embedding": "array", "edges": "directed"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_batching_equals_one_graph_at_a_time(options, backend):
    denoiser = denoiser_of(backend=backend)
    sizes = [(1, 1, 1), (3, 2, 4), (2, 5, 1), (1, 1, 1), (4, 4, 2)]
    graphs = [
        instance(BCMF(m=m, n=n, k=k), i, **options) for i, (m, n, k) in enumerate(sizes)
    ]
    t = torch.tensor([0, 999, 412, 3, 250])
    for order in ([0, 1, 2, 3, 4], [4, 2, 0], [3, 3, 1, 1]):
        together = run(denoiser, batch_of(*(graphs[i] for i in order)), t[order])
        parts = together.split([graphs[i].num_nodes for i in order])
        for i, part in zip(order, parts, strict=True):
            alone = run(denoiser, batch_of(graphs[i]), t[i : i + 1])
            assert_close(part, alone, rtol=1e-5, atol=1e-5)


def test_backends_agree():
    fused, scatter = denoiser_of(backend="fused"), denoiser_of(backend="scatter")
    scatter.load_state_dict(fused.state_dict())
    problems = BCMF(m=3, n=2, k=4), BCMF(m=1, n=4, k=2)
    t = torch.tensor([10, 700])
    for edges in ("structured", "complete", "random", "directed"):
        batch = batch_of(*(instance(problem, edges=edges) for problem in problems))
        assert_close(run(fused, batch, t), run(scatter, batch, t), rtol=1e-4, atol=1e-5)


def dense_attention(conv, x, sizes):
    """softmax(q k^T / sqrt(C)) v over all the nodes of each graph."""
    qkv = (x @ conv.lin_qkv.weight.T).view(len(x), 3, conv.heads, conv.out_channels)
    outputs = [
        F.scaled_dot_product_attention(*part.permute(1, 2, 0, 3))  # [H, n, C]
        for part in qkv.split(sizes)
    ]
    return torch.cat([out.transpose(0, 1).flatten(1) for out in outputs])


def test_a_complete_graph_is_dense_attention(backend):
    problems = BCMF(m=3, n=2, k=4), BCMF(m=1, n=4, k=2)
    graphs = [instance(problem, edges="complete") for problem in problems]
    denoiser, batch = denoiser_of(backend=backend), batch_of(*graphs)
    t, sizes = torch.tensor([10, 700]), [graph.num_nodes for graph in graphs]
    found = run(denoiser, batch, t)
    for block in denoiser.attention:
        conv = block.attention
        conv.forward = lambda x, *_, conv=conv, **__: dense_attention(conv, x, sizes)
    assert_close(found, run(denoiser, batch, t), rtol=1e-4, atol=1e-5)


# invariance


PROBLEM = BCMF(m=3, n=4, k=2)


def relabelled(i, j, r):
    """The permutation of BCMF's nodes that relabels its three plates."""
    ids = {name: PROBLEM.graphical_model().node_ids(name) for name in "ARCE"}
    permuted = {
        "A": ids["A"][i][:, r],
        "R": ids["R"][r][:, j],
        "C": ids["C"][i][:, j][:, :, r],
        "E": ids["E"][i][:, j],
    }
    return torch.cat([permuted[name].flatten() for name in "ARCE"])


def permuted_inputs_and_outputs(order, backend):
    """Outputs for permuted inputs, and permuted outputs."""
    denoiser, data = denoiser_of(backend=backend), instance(PROBLEM)
    t = torch.tensor([500])
    moved = data.clone()
    moved.x, moved.observed = data.x[order], data.observed[order]
    before, after = (run(denoiser, batch_of(graph), t) for graph in (data, moved))
    return after, before[order]


@pytest.mark.parametrize(
    "i, j, r",
    [
        ([2, 0, 1], [0, 1, 2, 3], [0, 1]),
        ([0, 1, 2], [3, 1, 0, 2], [0, 1]),
        ([0, 1, 2], [0, 1, 2, 3], [1, 0]),
        ([1, 0, 2], [2, 3, 1, 0], [1, 0]),
    ],
    ids=["i", "j", "l", "all"],
)
def test_relabelling_plates_permutes_the_output(i, j, r, backend):
    order = relabelled(i, j, r)
    assert not torch.equal(order, torch.arange(len(order)))
    after, before = permuted_inputs_and_outputs(order, backend)
    assert_close(after, before, rtol=1e-4, atol=1e-5)


def test_swapping_two_entries_of_one_matrix_changes_the_output(backend):
    order = torch.arange(PROBLEM.graphical_model().num_nodes)
    order[[0, 3]] = order[[3, 0]]  # A[0, 0] and A[1, 1], without their rows
    after, before = permuted_inputs_and_outputs(order, backend)
    assert (after - before).abs().max() > 1e-2


TABLE = CountTask(n=3)


def moved_by(embedding, order_of):
    """How far relabelling x, c and s moves the output of each node, up to its name."""
    graph = TABLE.graphical_model()
    order = torch.cat([order_of(graph.node_ids(name)).flatten() for name in "xcs"])
    data = instance(TABLE, embedding=embedding)
    other = data.clone()
    other.x, other.observed = data.x[order], data.observed[order]
    nodes = graph.num_nodes if embedding == "independent" else None
    denoiser = denoiser_of(variables=3, num_nodes=nodes)
    before, after = (
        run(denoiser, batch_of(d), torch.tensor([500])) for d in (data, other)
    )
    return (after - before[order]).abs().max()


@pytest.mark.parametrize(
    "embedding, rows_exchange, columns_exchange",
    [
        ("shared", True, True),
        ("exchangeable", False, True),
        ("array", False, False),
        ("independent", False, False),
    ],
)
def test_embeddings_keep_the_symmetries_that_they_should(
    embedding, rows_exchange, columns_exchange
):
    order = torch.tensor([2, 0, 1])
    rows = moved_by(embedding, lambda ids: ids[order])
    columns = moved_by(embedding, lambda ids: ids[:, order] if ids.dim() == 2 else ids)
    for moved, exchange in [(rows, rows_exchange), (columns, columns_exchange)]:
        assert moved < 1e-4 if exchange else moved > 1e-2


def test_independent_embeddings_refuse_another_size():
    denoiser = denoiser_of(variables=3, num_nodes=TABLE.graphical_model().num_nodes)
    graphs = [instance(CountTask(n=n), embedding="independent") for n in (3, 2, 3)]
    run(denoiser, batch_of(*graphs[::2]), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"the 21 nodes.*array.*\(got 10 nodes\)"):
        run(denoiser, batch_of(*graphs), torch.tensor([1, 2, 3]))


# information flow


def gradients(denoiser, batch, t):
    """Which inputs [N] each node's output [N] depends on, as |gradient|."""
    batch.x.requires_grad_()
    out = run(denoiser, batch, t)
    weight = torch.randn(out.size(1))
    rows = [
        torch.autograd.grad(row @ weight, batch.x, retain_graph=True)[0] for row in out
    ]
    return torch.stack(rows).abs().sum(-1)  # [N, N], outputs by inputs


def hops(network):
    """Distances [N, N] to each node from others, infinite where there is no path."""
    lengths = dict(nx.all_pairs_shortest_path_length(network))
    nodes = range(network.number_of_nodes())
    return torch.tensor([[lengths[b].get(a, torch.inf) for b in nodes] for a in nodes])


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_information_travels_one_edge_per_layer(layers, backend):
    problem = BCMF(m=2, n=2, k=2)
    batch = batch_of(instance(problem))
    gradient = gradients(denoiser_of(layers, backend), batch, torch.tensor([100]))
    distance = hops(problem.graphical_model().to_networkx().to_undirected())
    assert distance.max() > layers  # there is something out of reach
    assert (gradient[distance > layers] == 0).all()
    assert (gradient[distance <= layers] > 0).all()


@pytest.mark.parametrize("layers", [1, 4])
def test_directed_edges_pass_no_information_upwards(layers, backend):
    problem = BCMF(m=2, n=2, k=2)
    batch = batch_of(instance(problem, edges="directed"))
    gradient = gradients(denoiser_of(layers, backend), batch, torch.tensor([100]))
    distance = hops(problem.graphical_model().to_networkx())
    assert (gradient[distance > layers] == 0).all()
    assert (gradient[distance <= layers] > 0).all()
    assert (gradient[:8, 8:] == 0).all()  # neither C nor E reaches A and R


def test_no_information_passes_between_graphs_of_a_batch(backend):
    batch = batch_of(instance(BCMF(m=1, n=2, k=1)), instance(BCMF(m=2, n=1, k=1)))
    gradient = gradients(denoiser_of(8, backend), batch, torch.tensor([5, 800]))
    same = batch.batch[:, None] == batch.batch
    assert (gradient[~same] == 0).all()
    assert (gradient[same] > 0).all()


def test_fresh_blocks_are_the_identity():
    denoiser = Denoiser(3, 4, width=16, layers=2, heads=2)
    batch = batch_of(instance(BCMF(m=2, n=2, k=1)))
    gradient = gradients(denoiser, batch, torch.tensor([5]))
    assert (gradient - gradient.diag().diag() == 0).all()


# conditioning


def changed(**replaced):
    """How far each node's output moves when an input is replaced, [N]."""
    denoiser = denoiser_of(layers=2)
    batch = batch_of(instance(PROBLEM))
    before = run(denoiser, batch, torch.tensor([100]))
    t = torch.tensor([replaced.pop("t", 100)])
    for name, value in replaced.items():
        holder = batch.embedding if name.startswith("row_") else batch
        holder[name] = value(holder[name])
    return (run(denoiser, batch, t) - before).abs().amax(-1)


def test_time_variable_and_observation_change_the_output_of_every_node():
    assert (changed(t=600) > 1e-4).all()
    assert (changed(observed=torch.logical_not) > 1e-4).all()
    assert (changed(row_variable=lambda v: (v + 1) % 4) > 1e-4).all()


def test_a_width_that_heads_do_not_divide_is_refused():
    for width, heads in [(16, 3), (2, 1), (0, 1), (15, 3), (16, 0), (16, -2)]:
        with pytest.raises(ValueError, match=rf"got width={width}, heads={heads}"):
            Denoiser(3, 4, width=width, heads=heads)
