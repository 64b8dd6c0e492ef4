"""Edges in every form that PyG accepts give the numbers of the plain tensor."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from gsdm_pyg import StructuredAttentionConv
from gsdm_pyg.nn.adjacency import incoming_edges, outgoing_edges
from gsdm_pyg.ops.csr import row_of_edge

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

NODES = 6  # node 5 has no edges
DIRECTED = torch.tensor([[4, 0, 3, 1, 1, 2, 2], [1, 1, 0, 2, 0, 2, 3]])
EDGE_ATTR = torch.randn(7, 3, generator=torch.Generator().manual_seed(0)).double()
UNDIRECTED = torch.cat([DIRECTED, DIRECTED.flip(0)], 1)
BACKENDS = ["fused", "scatter"]


def layer(backend="fused", **arguments):
    return StructuredAttentionConv(5, 8, 2, backend=backend, **arguments).double()


def nodes(num_nodes=NODES):
    return torch.randn(num_nodes, 5, dtype=torch.double, requires_grad=True)


def results(conv, x, *edges):
    """The output and the gradients of a random projection of it."""
    out = conv(x, *edges)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return out, *torch.autograd.grad((out * weight).sum(), [x, *conv.parameters()])


def assert_same(computed, expected):
    for value, oracle in zip(computed, expected, strict=True):
        assert_close(value, oracle)


def sorted_by(order, edges=DIRECTED, size=(NODES, NODES), **arguments):
    """An `EdgeIndex`, and the position of each of its edges in `edges`."""
    index = EdgeIndex(edges, sparse_size=size, **arguments)
    index, perm = index.sort_by(order, stable=True) if order else (index, None)
    return index, torch.arange(edges.size(1)) if perm is None else perm


# sparse matrices


def matrix(values):
    """The adjacency in COO layout, destinations by sources, and its edges in order."""
    order = (DIRECTED[1] * NODES + DIRECTED[0]).argsort()
    edges, values = DIRECTED[:, order], values[order]
    size = (NODES, NODES, *values.shape[1:])
    adj = torch.sparse_coo_tensor(edges.flip(0), values, size, check_invariants=True)
    return adj.coalesce(), edges


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("convert", [torch.clone, torch.Tensor.to_sparse_csr])
def test_sparse_matrices_have_a_row_per_destination(convert, backend):
    adj, edges = matrix(torch.ones(7))
    conv, x, edge_attr = layer(backend, edge_dim=3), nodes(), EDGE_ATTR
    expected = results(conv, x, edges, edge_attr)
    assert_same(results(conv, x, convert(adj), edge_attr), expected)
    conv = layer(backend)
    assert_same(results(conv, x, convert(adj)), results(conv, x, edges))


@pytest.mark.parametrize("backend", BACKENDS)
def test_edge_features_may_be_values_of_the_sparse_matrix(backend):
    adj, edges = matrix(EDGE_ATTR)
    conv, x = layer(backend, edge_dim=3), nodes()
    assert_same(results(conv, x, adj), results(conv, x, edges, adj.values()))


class SparseRows(SparseTensor):
    """The methods of `torch_sparse.SparseTensor` that the layer uses."""

    def __init__(self, adj):
        self.adj = adj.to_sparse_csr()

    def csr(self):
        return self.adj.crow_indices(), self.adj.col_indices(), None

    def size(self, dim):
        return self.adj.size(dim)


def test_torch_sparse_is_read_by_its_rows():
    adj, edges = matrix(torch.ones(7))
    conv, x = layer(), nodes()
    assert_same(results(conv, x, SparseRows(adj)), results(conv, x, edges))


# EdgeIndex


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ["row", "col", None])
@settings(max_examples=8)
@given(
    undirected=st.booleans(),
    sized=st.booleans(),
    dtype=st.sampled_from([torch.int64, torch.int32]),
    edge_dim=st.sampled_from([None, 3]),
)
def test_an_edge_index_of_any_order_gives_the_same(
    order, backend, undirected, sized, dtype, edge_dim
):
    conv, x = layer(backend, edge_dim=edge_dim), nodes()
    plain = UNDIRECTED if undirected else DIRECTED
    sized = sized or undirected  # PyG guesses the size of an undirected one by sorting
    size = (NODES, NODES) if sized else (None, None)
    edges, perm = sorted_by(order, plain.to(dtype), size, is_undirected=undirected)
    edge_attr = torch.randn(plain.size(1), 3, dtype=torch.double)
    given, moved = ([], []) if edge_dim is None else ([edge_attr], [edge_attr[perm]])
    expected = results(conv, x, plain, *given)
    for _ in range(2):  # the second call finds what the first one cached
        assert_same(results(conv, x, edges, *moved), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_int32_edges_give_the_same(backend):
    conv, x = layer(backend), nodes()
    assert_same(results(conv, x, DIRECTED.int()), results(conv, x, DIRECTED))


@pytest.mark.parametrize("order", ["row", "col"])
def test_the_edge_index_caches_transposed_pointers(order):
    edges, _ = sorted_by(order)
    pointers = []
    for _ in range(2):
        incoming = incoming_edges(edges, NODES)
        pointers.append([incoming.rowptr, outgoing_edges(edges, incoming, NODES)[0]])
    assert all(first is again for first, again in zip(*pointers, strict=True))


@given(data=st.data())
def test_edges_by_source_are_the_edges_by_destination(data):
    num_src, num_dst = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    edge = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    pairs = data.draw(st.lists(edge, max_size=25))
    given = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t().contiguous()
    for order in ("row", "col", None):
        edges, _ = sorted_by(order, given, (num_src, num_dst))
        incoming = incoming_edges(edges, num_dst)
        rowptr, row, perm = outgoing_edges(edges, incoming, num_src)
        positions = torch.arange(len(pairs)) if incoming.perm is None else incoming.perm
        destinations = row_of_edge(incoming.rowptr, incoming.col.numel())
        ends = torch.stack([incoming.col, destinations])
        assert torch.equal(edges[:, positions], ends)
        source = torch.arange(num_src).repeat_interleave(rowptr.diff())
        assert torch.equal(incoming.col[perm], source)
        assert torch.equal(destinations[perm], row)


# compiled


def cached():
    return sorted_by("col", UNDIRECTED, is_undirected=True)[0].fill_cache_()


def not_cached():
    return sorted_by("col", UNDIRECTED, is_undirected=True)[0]


def directed():
    return sorted_by("row")[0].fill_cache_()


def unsized():
    return sorted_by("col", size=(None, None))[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "backend"),
    [
        *((make, "fused") for make in (DIRECTED.clone, cached, directed, unsized)),
        *((make, "scatter") for make in (DIRECTED.clone, cached, not_cached)),
    ],
)
def test_compiled_layers_give_the_same(make, backend):
    conv, x = layer(backend), nodes()
    torch.compiler.reset()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    assert_same(results(compiled, x, make()), results(conv, x, make()))


@pytest.mark.slow
def test_compiled_layers_take_edge_features():
    conv, x = layer(edge_dim=3), nodes()
    torch.compiler.reset()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    expected = results(conv, x, DIRECTED, EDGE_ATTR)
    assert_same(results(compiled, x, DIRECTED, EDGE_ATTR), expected)


# errors


def test_an_edge_index_without_a_size_gets_the_number_of_nodes():
    edges, _ = sorted_by("col", size=(None, None))
    layer()(nodes(), edges)
    assert edges.sparse_size() == (NODES, NODES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_edges_of_another_number_of_nodes_are_rejected(backend):
    for size in [(5, 5), (7, None), (7, 7)]:
        edges, _ = sorted_by("col", size=size)
        with pytest.raises(ValueError, match=rf"got \({size[0]}, .* for 6 and 6 rows"):
            layer(backend)(nodes(), edges)
    with pytest.raises(ValueError, match=r"got \(6, 6\) for 7 and 7 rows"):
        layer(backend)(nodes(7), matrix(torch.ones(7))[0])


@pytest.mark.parametrize(
    ("end", "node", "edge_dim"),
    [(0, -1, None), (0, NODES, 3), (1, -1, 3), (1, 6, None)],
)
def test_nodes_without_a_row_are_rejected(end, node, edge_dim):
    edges = DIRECTED.clone()
    edges[end, 3] = node
    conv, given = layer(edge_dim=edge_dim), [] if edge_dim is None else [EDGE_ATTR]
    name = ("sources", "destinations")[end]
    with pytest.raises(IndexError, match=rf"hold {name} .* 0 to 5 \(got .*{node}"):
        conv(nodes(), edges, *given)


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_tensors_are_rejected_as_edge_index(backend):
    by_columns = matrix(torch.ones(7))[0].to_sparse_csc()
    for edges, message in [
        (DIRECTED.t(), r"shape \[2, E\].*got torch\.int64 of shape \[7, 2\]"),
        (DIRECTED[0], r"shape \[2, E\].*got torch\.int64 of shape \[7\]"),
        (DIRECTED.float(), "int32 or int64.*got torch.float32"),
        (by_columns, r"COO or CSR.*got torch\.sparse_csc"),
    ]:
        with pytest.raises(ValueError, match=message):
            layer(backend)(nodes(), edges)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_nodes", [0, 3])
def test_graphs_without_edges_leave_the_skip_term(num_nodes, backend):
    conv, x = layer(backend), nodes(num_nodes)
    out, *_ = results(conv, x, torch.empty(2, 0, dtype=torch.long))
    assert_close(out, conv.lin_skip(x))
