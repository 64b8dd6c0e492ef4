"""Graphs whose components are complete: dense attention, the same numbers."""

import pytest
import torch
from attention_oracle import Graph, assert_gradients_close, disjoint_union, graph
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from gsdm_pyg.ops import csr_attention, csr_self_attention
from gsdm_pyg.ops.cpu import complete


def clique(num_nodes: int) -> Graph:
    """All edges within a set of nodes, self-loops included."""
    nodes = range(num_nodes)
    return graph([(j, i) for i in nodes for j in nodes], num_nodes, num_nodes)


def shuffled(on: Graph) -> Graph:
    """The same edges, those into a node in another order."""
    order = torch.rand(on.source.numel()).argsort()
    order = order[on.destination[order].argsort(stable=True)]
    return on._replace(source=on.source[order])


@pytest.fixture
def dense_calls(monkeypatch) -> list[int]:
    """The number of components of each call of dense attention."""
    calls, attend = [], complete.dense_attention

    def record(q, k, v, scale):
        calls.append(q.size(0))
        return attend(q, k, v, scale)

    monkeypatch.setattr(complete, "dense_attention", record)
    return calls


def packed(on: Graph, channels: int = 16, dtype=torch.float64) -> Tensor:
    shape = (on.num_dst, 3, 2, channels)
    return torch.randn(shape, dtype=dtype, requires_grad=True)


@settings(max_examples=20)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=6),
    in_order=st.booleans(),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    index=st.sampled_from([torch.int32, torch.int64]),
)
def test_complete_components_give_the_numbers_of_the_reference(
    sizes, in_order, dtype, index
):
    on = disjoint_union([clique(size) for size in sizes])
    on = on if in_order else shuffled(on)
    qkv = packed(on, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(complete, "MIN_PRODUCT", 0)
        patch.setattr(complete, "MIN_EDGES", 0)
        ours = csr_self_attention(qkv, *on.csr(index), backend="cpu")
        expected = csr_self_attention(qkv, *on.csr(index), backend="reference")
        assert_close(ours, expected)
        assert_gradients_close(ours, expected, [qkv], atol=1e-5, rtol=1e-5)


def test_large_complete_graphs_take_the_dense_path_by_themselves(dense_calls):
    on = disjoint_union([clique(130), clique(130)])
    qkv = packed(on, channels=32)
    ours = csr_self_attention(qkv, *on.csr())
    expected = csr_self_attention(qkv, *on.csr(), backend="reference")
    assert dense_calls == [2]
    assert_gradients_close(ours, expected, [qkv])


@pytest.mark.parametrize("edge", [1, 7_000, 36_099])
@pytest.mark.parametrize("change", ["removed", "repeated"])
def test_almost_complete_graphs_do_not(dense_calls, edge, change):
    on = clique(190)
    source, kept = on.source.clone(), torch.ones(on.source.numel(), dtype=torch.bool)
    if change == "repeated":
        source[edge] = source[edge - 1]
    else:
        kept[edge] = False
    on = on._replace(source=source[kept], destination=on.destination[kept])
    q, k, v = packed(on, channels=32).unbind(1)
    ours = csr_attention(q, k, v, *on.csr(), on.transpose())
    expected = csr_attention(q, k, v, *on.csr(), on.transpose(), backend="reference")
    assert_close(ours, expected)
    assert not dense_calls


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_and_infinity_spread_as_in_the_reference(dense_calls, value, place):
    on = clique(190)
    qkv = packed(on, channels=32, dtype=torch.float32)
    with torch.no_grad():
        qkv[7, place, 1, 3] = value
    ours = csr_self_attention(qkv, *on.csr())
    expected = csr_self_attention(qkv, *on.csr(), backend="reference")
    assert dense_calls == [1]
    assert torch.equal(ours.isfinite(), expected.isfinite())
    slope, oracle = (
        torch.autograd.grad(out, qkv, torch.ones_like(out))[0]
        for out in (ours, expected)
    )
    assert not (slope.isfinite() & ~oracle.isfinite()).any()
