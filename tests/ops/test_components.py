"""Gradients by connected components: the same numbers, only where it is faster."""

import pytest
import torch
from attention_oracle import (
    Graph,
    assert_gradients_close,
    dense_attention,
    disjoint_union,
    gradients,
    graph,
    graphs,
    random_graph,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gsdm_pyg.ops import cpu, csr_attention, csr_self_attention
from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms
from gsdm_pyg.ops.cpu import launch
from gsdm_pyg.ops.cpu.component_kernels import packed_node_size

KINDS = [(5, torch.float64), (12, torch.float32), (16, torch.float32)]


def batches(symmetric: bool) -> st.SearchStrategy[Graph]:
    """Batches of small graphs, each within one set of nodes."""
    square = graphs(symmetric).filter(lambda on: on.num_src == on.num_dst)
    return st.lists(square, min_size=1, max_size=3).map(disjoint_union)


class Kernels:
    """Records which kernels run; components are used even where few and sparse."""

    def __init__(self, patch: pytest.MonkeyPatch, always: bool = True):
        self.names, compiled = [], launch.compiled

        def record(name, *options):
            self.names.append(name)
            return compiled(name, *options)

        patch.setattr(launch, "compiled", record)
        if always:
            patch.setattr(launch, "MIN_DEGREE", 0)
            patch.setattr(launch, "MIN_ITEMS", 1)

    def used_components(self) -> bool:
        return "backward_components" in self.names


def packed(on: Graph, heads: int, channels: int, dtype: torch.dtype) -> torch.Tensor:
    shape = (on.num_dst, 3, heads, channels)
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def assert_gradients_match(on, qkv, index=torch.int64, transpose=None):
    out = csr_self_attention(qkv, *on.csr(index), transpose, backend="cpu")
    expected = dense_attention(*qkv.unbind(1), on, None, qkv.size(-1) ** -0.5)
    assert_gradients_close(out, expected, [qkv], atol=1e-5, rtol=1e-5)


@given(
    on=batches(symmetric=True),
    heads=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    index=st.sampled_from([torch.int32, torch.int64]),
)
@settings(max_examples=30)
def test_gradients_by_components_match_dense_softmax(on, heads, kind, index):
    with pytest.MonkeyPatch.context() as patch:
        kernels = Kernels(patch)
        assert_gradients_match(on, packed(on, heads, *kind), index)
        assert kernels.used_components()


def test_components_of_strided_views_are_read_in_place(monkeypatch):
    kernels, on = Kernels(monkeypatch), batch(3, 9, 0.5)
    q = torch.randn(2, 27, 5, dtype=torch.float64).transpose(0, 1)  # heads first
    k = torch.randn(27, 4, 2, 5, dtype=torch.float64)[:, 1]
    v = torch.randn(27, 2, 7, dtype=torch.float64)[:, :, 1:6]
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = csr_attention(*inputs, *on.csr(), backend="cpu")
    expected = dense_attention(*inputs, on, None, 5**-0.5)
    assert_gradients_close(out, expected, inputs)
    assert kernels.used_components()


@given(on=batches(symmetric=False), kind=st.sampled_from(KINDS))
@settings(max_examples=30)
def test_directed_edges_into_an_earlier_component_are_not_lost(on, kind):
    with pytest.MonkeyPatch.context() as patch:
        Kernels(patch)
        assert_gradients_match(on, packed(on, 2, *kind), transpose=on.transpose())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_components_accumulate_half_precision_in_single(dtype, monkeypatch):
    kernels = Kernels(monkeypatch)
    on = disjoint_union([random_graph(n, 0.6) for n in (30, 9, 17)])
    half = packed(on, 2, 12, torch.float32).detach().to(dtype).requires_grad_()
    exact = half.detach().float().requires_grad_()
    out = csr_self_attention(half, *on.csr(), backend="cpu")
    expected = dense_attention(*exact.unbind(1), on, None, 12**-0.5)
    grad = torch.randn_like(out)
    (ours,), (theirs,) = (
        gradients(out, grad, half),
        gradients(expected, grad.float(), exact),
    )
    assert kernels.used_components()
    assert_close(ours.float(), theirs, atol=4 * torch.finfo(dtype).eps, rtol=0.02)


def batch(num_graphs: int, num_nodes: int, density: float = 1.0) -> Graph:
    return disjoint_union([random_graph(num_nodes, density) for _ in range(num_graphs)])


@pytest.mark.parametrize(
    ("on", "used"),
    [
        (batch(16, 10), True),
        (batch(15, 10), False),  # 15 components of 2 heads: too few for many threads
        (batch(16, 7), False),  # 7 edges per node
        (
            disjoint_union([batch(16, 10), random_graph(200, 1.0)]),
            False,
        ),  # 40,000 edges
    ],
    ids=["many", "few", "sparse", "long"],
)
def test_components_are_used_where_they_are_faster(on, used, monkeypatch):
    kernels = Kernels(monkeypatch, always=False)
    qkv = packed(on, 2, 5, torch.float64)
    csr_self_attention(qkv, *on.csr(), backend="cpu").sum().backward()
    assert kernels.used_components() == used


@pytest.mark.parametrize(("num_nodes", "used"), [(256, True), (257, False)])
def test_components_larger_than_half_a_mebibyte_are_not_used(
    num_nodes, used, monkeypatch
):
    kernels = Kernels(monkeypatch)
    assert packed_node_size(64, "float64") == 2048  # bytes per node
    path = [(i, i + 1) for i in range(num_nodes - 1)]
    on = graph(path + [(j, i) for i, j in path], num_nodes, num_nodes)
    assert_gradients_match(on, packed(on, 1, 64, torch.float64))
    assert kernels.used_components() == used


@pytest.mark.parametrize(
    "middle",
    [
        [2],
        [-1],
        [2**62, -(2**63), -(2**62)],  # each a step up from the one before, by overflow
    ],
)
def test_indices_outside_of_a_component_are_rejected(middle, monkeypatch):
    Kernels(monkeypatch)
    col = torch.tensor([0, *middle, 1, 0, 1])
    rowptr = torch.tensor([0, len(col) - 2, len(col)])
    qkv, out = torch.zeros(2, 3, 1, 5), torch.zeros(2, 1, 5)
    inputs = AttentionInputs([qkv], rowptr, col, (), EdgeTerms(), 1.0)
    with pytest.raises(IndexError, match="rowptr must rise"):
        cpu.backward(out, out, out[..., 0], False, inputs)
