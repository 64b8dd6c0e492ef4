"""The layer instead of PyG's `TransformerConv`: same weights, same numbers."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.nn import HeteroConv, TransformerConv
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from gsdm_pyg import StructuredAttentionConv

HEADS, CHANNELS = 2, 8
EDGES = (
    torch.tensor(  # unsorted, with a duplicate and a self-loop, and no edge into node 0
        [[3, 0, 6, 1, 1, 2, 5, 0, 2], [1, 1, 2, 3, 3, 3, 1, 2, 2]]
    )
)
# in_channels, and the shapes of what the layer gets: all nodes, or sources and others
IN_CHANNELS = {"one set": 5, "pair of one width": 5, "bipartite": (5, 3)}
SHAPES = {
    "one set": [(7, 5)],
    "pair of one width": [(7, 5), (4, 5)],
    "bipartite": [(7, 5), (4, 3)],
}
OPTIONS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("concat", "beta", "bias", "root_weight")}
    | {"dropout": st.sampled_from([0.0, 0.4]), "edge_dim": st.sampled_from([None, 3])}
)


def random(*shape):
    return torch.randn(shape, dtype=torch.double, requires_grad=True)


def inputs_of(shapes, edge_dim=None, num_edges=EDGES.size(1)):
    """x as the layer takes it, and edge features if it takes any."""
    x = tuple(random(*shape) for shape in shapes)
    edge_attr = None if edge_dim is None else random(num_edges, edge_dim)
    return x[0] if len(x) == 1 else x, edge_attr


def gradients(conv, x, edge_index, edge_attr):
    """The output and the gradients of the inputs; those of weights stay in conv."""
    torch.manual_seed(0)  # of dropout
    conv.zero_grad()
    out = conv(x, edge_index, edge_attr)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    leaves = [*(x if isinstance(x, tuple) else [x]), edge_attr]
    leaves = [leaf for leaf in leaves if leaf is not None]
    for leaf in leaves:
        leaf.grad = None
    (out * weight).sum().backward()
    return [out, *(leaf.grad for leaf in leaves)]


def assert_same(conv, backend, x, edge_index, edge_attr):
    """Outputs, gradients of inputs and gradients of weights are those of PyG."""
    ours = StructuredAttentionConv.from_transformer_conv(conv, backend)
    expected = gradients(conv, x, edge_index, edge_attr)
    for value, theirs in zip(
        gradients(ours, x, edge_index, edge_attr), expected, strict=True
    ):
        assert_close(value, theirs)
    slopes = copy.deepcopy(conv)  # gradients are laid out as their weights are
    with torch.no_grad():
        for slope, weight in zip(slopes.parameters(), conv.parameters(), strict=True):
            slope.copy_(torch.zeros_like(slope) if weight.grad is None else weight.grad)
    slopes = StructuredAttentionConv.from_transformer_conv(slopes).state_dict()
    for name, weight in ours.named_parameters():
        assert_close(weight.grad, slopes[name])


@pytest.mark.parametrize("backend", ["fused", "scatter"])
@pytest.mark.parametrize("kind", SHAPES)
@settings(max_examples=20)
@given(options=OPTIONS)
def test_every_option_gives_the_numbers_of_transformer_conv(backend, kind, options):
    x, edge_attr = inputs_of(SHAPES[kind], options["edge_dim"])
    conv = TransformerConv(IN_CHANNELS[kind], CHANNELS, HEADS, **options).double()
    assert_same(conv, backend, x, EDGES, edge_attr)


@settings(max_examples=40)
@given(data=st.data())
def test_any_graph_gives_the_numbers_of_transformer_conv(data):
    num_src, num_dst = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    edge = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    pairs = data.draw(st.lists(edge, max_size=25))
    edge_index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    edge_dim = data.draw(st.sampled_from([None, 3]))
    x, edge_attr = inputs_of([(num_src, 5), (num_dst, 5)], edge_dim, len(pairs))
    conv = TransformerConv(5, CHANNELS, HEADS, edge_dim=edge_dim).double()
    for backend in ("fused", "scatter"):
        assert_same(conv, backend, x, edge_index, edge_attr)


@pytest.mark.parametrize("kind", SHAPES)
def test_attention_weights_are_those_of_transformer_conv(kind):
    x, edge_attr = inputs_of(SHAPES[kind], edge_dim=3)
    conv = TransformerConv(IN_CHANNELS[kind], CHANNELS, HEADS, dropout=0.4, edge_dim=3)
    conv.double()
    ours = StructuredAttentionConv.from_transformer_conv(conv)
    for asked in (True, False):  # both mean yes, as in PyG
        torch.manual_seed(0)
        expected, (_, weights) = conv(x, EDGES, edge_attr, asked)
        torch.manual_seed(0)
        out, (edges, found) = ours(x, EDGES, edge_attr, asked)
        assert edges is EDGES
        assert_close(found, weights)
        assert_close(out, expected)


def test_evaluation_drops_nothing():
    x, _ = inputs_of(SHAPES["one set"])
    conv = TransformerConv(5, CHANNELS, HEADS, dropout=0.4).double().eval()
    ours = StructuredAttentionConv.from_transformer_conv(conv, "fused")
    assert not ours.training
    with torch.no_grad():
        assert_close(ours(x, EDGES), conv(x, EDGES))


def test_the_layer_works_in_heterogeneous_models():
    relations = {
        ("user", "rates", "film"): TransformerConv((-1, -1), CHANNELS, HEADS),
        ("film", "rated_by", "user"): TransformerConv(-1, CHANNELS, HEADS),
    }
    x = {"user": torch.randn(7, 5), "film": torch.randn(4, 3)}
    edges = dict(zip(relations, (EDGES, EDGES.flip(0)), strict=True))
    expected = HeteroConv(relations)(x, edges)
    ours = HeteroConv(
        {
            relation: StructuredAttentionConv.from_transformer_conv(conv)
            for relation, conv in relations.items()
        }
    )
    assert_close(ours(x, edges), expected, rtol=1e-4, atol=1e-5)


# the other flow


@pytest.mark.parametrize("backend", ["fused", "scatter"])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_other_flow_gives_the_numbers_of_transformer_conv(backend, kind):
    x, edge_attr = inputs_of(SHAPES[kind], edge_dim=3)
    conv = TransformerConv(
        IN_CHANNELS[kind], CHANNELS, HEADS, edge_dim=3, flow="target_to_source"
    ).double()
    edges = EDGES.flip(0)
    assert_same(conv, backend, x, edges, edge_attr)
    size = tuple(len(part) for part in reversed(x)) if kind != "one set" else (7, 7)
    for order in ("row", "col"):
        index, perm = EdgeIndex(edges, sparse_size=size).sort_by(order, stable=True)
        ours = StructuredAttentionConv.from_transformer_conv(conv, backend)
        expected = gradients(conv, x, edges[:, perm], edge_attr)
        for _ in range(2):  # the second call finds what the first one cached
            found = gradients(ours, x, index, edge_attr)
            for value, theirs in zip(found, expected, strict=True):
                assert_close(value, theirs)


def test_a_matrix_has_one_flow():
    conv = StructuredAttentionConv(5, 8, flow="target_to_source")
    adj = torch.eye(4).to_sparse_coo()
    with pytest.raises(ValueError, match=r"got flow='target_to_source'"):
        conv(torch.randn(4, 5), adj)


# weights of PyG's layer, by their names


@settings(max_examples=20)
@given(options=OPTIONS, kind=st.sampled_from(list(SHAPES)))
def test_weights_of_transformer_conv_load_and_are_written_again(options, kind):
    x, edge_attr = inputs_of(SHAPES[kind], options["edge_dim"])
    conv = TransformerConv(IN_CHANNELS[kind], CHANNELS, HEADS, **options).double()
    model = torch.nn.Sequential(
        StructuredAttentionConv(IN_CHANNELS[kind], CHANNELS, HEADS, **options).double()
    )
    model.load_state_dict(torch.nn.Sequential(conv).state_dict())
    written = model[0].to_transformer_conv()
    expected = gradients(conv, x, EDGES, edge_attr)
    for other in (model[0], written):
        for value, theirs in zip(
            gradients(other, x, EDGES, edge_attr), expected, strict=True
        ):
            assert_close(value, theirs)


@pytest.mark.parametrize("lazy, kind", [(-1, "one set"), ((-1, -1), "bipartite")])
def test_lazy_layers_load_and_write_the_weights_of_transformer_conv(lazy, kind):
    x, _ = inputs_of(SHAPES[kind])
    conv = TransformerConv(IN_CHANNELS[kind], CHANNELS, HEADS).double()
    ours = StructuredAttentionConv(lazy, CHANNELS, HEADS).double()
    unwritten = ours.to_transformer_conv()
    assert is_uninitialized_parameter(unwritten.lin_key.weight)
    assert unwritten(x, EDGES).shape == conv(x, EDGES).shape
    ours.load_state_dict(conv.state_dict())
    assert_close(ours(x, EDGES), conv(x, EDGES))
    assert_close(ours.to_transformer_conv()(x, EDGES), conv(x, EDGES))


def test_missing_weights_are_named_as_ever():
    weights = TransformerConv(5, CHANNELS, HEADS).state_dict()
    del weights["lin_key.weight"]
    with pytest.raises(RuntimeError, match=r"Missing key.*lin_qkv\.weight"):
        StructuredAttentionConv(5, CHANNELS, HEADS).load_state_dict(weights)


# lazy weights


@pytest.mark.parametrize("lazy, kind", [(-1, "one set"), ((-1, -1), "bipartite")])
def test_lazy_layers_take_their_sizes_from_the_first_input(lazy, kind):
    x, edge_attr = inputs_of(SHAPES[kind], edge_dim=3)
    conv = StructuredAttentionConv(lazy, CHANNELS, HEADS, edge_dim=-1).double()
    twin = copy.deepcopy(conv)
    out = conv(x, EDGES, edge_attr)
    twin.load_state_dict(conv.state_dict())
    assert_close(twin(x, EDGES, edge_attr), out)
    sized = StructuredAttentionConv(IN_CHANNELS[kind], CHANNELS, HEADS, edge_dim=3)
    sized.double().load_state_dict(conv.state_dict())
    assert_close(sized(x, EDGES, edge_attr), out)


def test_a_lazy_layer_takes_a_pair_of_one_width():
    x, _ = inputs_of(SHAPES["pair of one width"])
    conv = StructuredAttentionConv(-1, CHANNELS, HEADS).double()
    assert conv(x, EDGES).shape == (4, HEADS * CHANNELS)
    assert conv.lin_qkv.weight.shape == (3 * HEADS * CHANNELS, 5)


def test_converting_a_lazy_layer_gives_a_lazy_layer():
    conv = TransformerConv(-1, CHANNELS, HEADS, edge_dim=3).double()
    ours = StructuredAttentionConv.from_transformer_conv(conv)
    assert is_uninitialized_parameter(ours.lin_qkv.weight)
    assert_close(ours.lin_edge.weight, conv.lin_edge.weight)
    x, edge_attr = inputs_of(SHAPES["one set"], edge_dim=3)
    assert ours(x, EDGES, edge_attr).dtype == torch.double


# errors


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"aggr": "mean"}, r"weights of a softmax are summed.*got aggr='mean'"),
        ({"flow": "both"}, r"flow is one of source_to_target.*got 'both'"),
        ({"node_dim": 1}, r"nodes are the rows of x \(got 1\)"),
        ({"decomposed_layers": 2}, r"no messages to decompose \(got 2\)"),
        ({"aggr_kwargs": {}}, r"a sum has no arguments"),
        ({"head": 2}, r"no argument 'head'"),
        ({"heads": 0}, r"at least 1 \(got 8 and 0\)"),
        ({"dropout": 1.5}, r"dropout must be a probability \(got 1.5\)"),
    ],
)
def test_arguments_without_a_meaning_are_rejected_with_the_reason(argument, message):
    with pytest.raises((ValueError, TypeError), match=message):
        StructuredAttentionConv(5, 8, **argument)


def test_layers_that_aggregate_otherwise_are_not_converted():
    with pytest.raises(ValueError, match=r"got aggr='mean'"):
        StructuredAttentionConv.from_transformer_conv(
            TransformerConv(5, 8, aggr="mean")
        )


def test_two_widths_need_two_in_channels():
    conv = StructuredAttentionConv(-1, CHANNELS)
    with pytest.raises(ValueError, match=r"in_channels=\(.*got 5 and 3"):
        conv((torch.randn(7, 5), torch.randn(4, 3)), EDGES)


@pytest.mark.parametrize("backend", ["fused", "scatter"])
def test_edge_features_are_given_exactly_where_they_are_projected(backend):
    x, edge_attr = torch.randn(7, 5), torch.randn(EDGES.size(1), 3)
    with pytest.raises(ValueError, match=r"pass edge_dim .*got \[9, 3\]"):
        StructuredAttentionConv(5, 8, backend=backend)(x, EDGES, edge_attr)
    with pytest.raises(ValueError, match=r"edge_dim=3 needs edge_attr"):
        StructuredAttentionConv(5, 8, edge_dim=3, backend=backend)(x, EDGES)
