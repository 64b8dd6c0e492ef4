"""Edge features and dropout with the fused backend: same numbers, little memory."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric import EdgeIndex

from gsdm_pyg import StructuredAttentionConv
from gsdm_pyg.nn import fused_attention

NODES, CHANNELS, HEADS, FEATURES = 30, 8, 2, 3
BACKENDS = ["fused", "scatter"]


def edges_of(order="col"):
    """A random undirected graph, complete enough to have more edges than nodes."""
    linked = torch.rand(NODES, NODES, generator=torch.Generator().manual_seed(0)) < 0.3
    index = EdgeIndex(
        (linked | linked.T).nonzero().T.contiguous(),
        sparse_size=(NODES, NODES),
        is_undirected=True,
    )
    return index if order is None else index.sort_by(order).values


def layer(backend="fused", **options):
    options = {"dropout": 0.4, "edge_dim": FEATURES, **options}
    conv = StructuredAttentionConv(5, CHANNELS, HEADS, backend=backend, **options)
    return conv.double()


def inputs(edges):
    shapes = (NODES, 5), (edges.size(1), FEATURES)
    return [torch.randn(s, dtype=torch.double, requires_grad=True) for s in shapes]


def results(conv, x, edges, edge_attr):
    torch.manual_seed(0)  # of dropout
    out = conv(x, edges, edge_attr)
    leaves = [x, *conv.parameters()] + ([] if edge_attr is None else [edge_attr])
    return out, *torch.autograd.grad(out.sin().sum(), leaves)


@pytest.mark.parametrize(
    ("order", "options"),
    [
        ("col", {}),
        ("row", {}),
        (None, {}),
        ("col", {"edge_dim": None}),
        ("row", {"dropout": 0.0}),
    ],
)
def test_undirected_edges_give_the_numbers_of_the_scatter_backend(order, options):
    edges, fused = edges_of(order), layer(**options)
    x, edge_attr = inputs(edges)
    edge_attr = None if "edge_dim" in options else edge_attr
    scatter = layer("scatter", **options)
    scatter.load_state_dict(fused.state_dict())
    expected = results(scatter, x, edges, edge_attr)
    for value, theirs in zip(
        results(fused, x, edges, edge_attr), expected, strict=True
    ):
        assert_close(value, theirs)


@pytest.mark.parametrize(("dropout", "dtype"), [(0.0, torch.int32), (0.4, torch.int64)])
def test_few_edges_with_many_features_are_projected(dropout, dtype, monkeypatch):
    edges = torch.tensor([[0, 3, 3, 7, 2], [1, 1, 4, 2, 4]], dtype=dtype)
    fused, scatter = (layer(b, edge_dim=64, dropout=dropout) for b in BACKENDS)
    scatter.load_state_dict(fused.state_dict())
    x, _ = inputs(edges)
    edge_attr = torch.randn(5, 64, dtype=torch.double, requires_grad=True)
    expected = results(scatter, x, edges, edge_attr)
    monkeypatch.setattr(fused_attention, "_attend_with_features", None)  # not called
    for value, theirs in zip(
        results(fused, x, edges, edge_attr), expected, strict=True
    ):
        assert_close(value, theirs)


def test_the_edge_index_caches_the_transposed_graph(monkeypatch):
    edges = edges_of()
    x, edge_attr = inputs(edges)
    transposes, attend = [], fused_attention.csr_attention

    def record(q, k, v, rowptr, col, transpose, **terms):
        transposes.append(transpose)
        return attend(q, k, v, rowptr, col, transpose, **terms)

    monkeypatch.setattr(fused_attention, "csr_attention", record)
    for _ in range(2):
        layer()(x, edges, edge_attr)
    (_, _, perm), (_, _, again) = transposes
    assert again is perm


@pytest.mark.parametrize("options", [{}, {"edge_dim": None}])
def test_no_tensor_per_edge_and_channel_is_saved_for_the_backward_pass(options):
    edges, conv = edges_of(), layer(**options)
    x, edge_attr = inputs(edges)
    sizes = []

    def record(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        conv(x, edges, None if "edge_dim" in options else edge_attr)
    size_of_edges = edges.size(1) * max(FEATURES, HEADS)  # features, dropout
    size_of_nodes = NODES * 3 * HEADS * CHANNELS  # q, k and v
    assert (
        max(sizes)
        <= max(size_of_edges, size_of_nodes)
        < edges.size(1) * HEADS * CHANNELS
    )


def test_a_lazy_edge_dim_is_initialized_by_the_fused_backend():
    edges, conv = edges_of(), layer(edge_dim=-1)
    x, edge_attr = inputs(edges)
    conv(x, edges, edge_attr)
    assert conv.lin_edge.weight.shape == (HEADS * CHANNELS, FEATURES)


def hook(conv):
    conv.lin_edge.register_forward_hook(lambda linear, args, out: 2 * out)


def other_forward(conv):
    weight = conv.lin_edge.weight
    conv.lin_edge.forward = lambda edge: 2 * edge @ weight.T


def other_module(conv):
    class Twice(torch.nn.Module):
        def forward(self, edge):
            return 2 * edge

    conv.lin_edge = torch.nn.Sequential(Twice(), conv.lin_edge)


@pytest.mark.parametrize("change", [hook, other_forward, other_module])
def test_a_projection_that_does_more_than_multiply_is_called(change):
    edges, conv = edges_of(), layer("auto", dropout=0.0)
    x, edge_attr = inputs(edges)
    expected = conv(x, edges, 2 * edge_attr)
    change(conv)
    assert_close(conv(x, edges, edge_attr), expected)
    conv.backend = "fused"
    with pytest.raises(ValueError, match="got a lin_edge with hooks"):
        conv(x, edges, edge_attr)


def test_a_rejected_call_does_not_initialize_a_lazy_layer():
    edges, conv = edges_of(), layer(edge_dim=-1)
    x, edge_attr = inputs(edges)
    with pytest.raises(ValueError, match="edge_attr must be"):
        conv(x, edges, edge_attr[:, 0])
    conv(x, edges, edge_attr)


def test_edge_dim_zero_adds_nothing():
    edges, conv = edges_of(), layer(edge_dim=0, dropout=0.0)
    plain = layer(edge_dim=None, dropout=0.0)
    plain.load_state_dict(conv.state_dict(), strict=False)
    x, edge_attr = inputs(edges)
    assert_close(conv(x, edges, edge_attr[:, :0]), plain(x, edges))


@pytest.mark.slow
def test_compiled_layers_take_undirected_edges_with_features():
    edges, conv = edges_of(), layer(dropout=0.0)
    x, edge_attr = inputs(edges)
    edges.get_indptr()  # compiled code cannot fill the caches
    torch.compiler.reset()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    expected = results(conv, x, edges_of(), edge_attr)
    for value, theirs in zip(
        results(compiled, x, edges, edge_attr), expected, strict=True
    ):
        assert_close(value, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(FEATURES,), (7, 4)])
def test_features_of_another_size_are_rejected(backend, shape):
    edges = edges_of()
    x, _ = inputs(edges)
    with pytest.raises(ValueError, match=rf"\[E, 3\] \(got \[{shape[0]}"):
        layer(backend)(x, edges, torch.zeros(shape, dtype=torch.double))


@pytest.mark.parametrize("extra", [-1, 1])
def test_features_of_another_number_of_edges_are_rejected(extra):
    edges = edges_of(None)
    x, _ = inputs(edges)
    edge_attr = torch.zeros(edges.size(1) + extra, FEATURES).double()
    with pytest.raises(ValueError, match=r"a row per edge, \d+ \(got"):
        layer()(x, edges, edge_attr)
