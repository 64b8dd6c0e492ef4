"""Bias, factor and features of edges: the numbers of the dense softmax."""

from typing import NamedTuple

import pytest
import torch
from attention_oracle import (
    Graph,
    assert_gradients_close,
    dense_attention,
    gradients,
    graph,
    graphs,
    random_graph,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

from gsdm_pyg.ops import csr_attention, csr_self_attention
from gsdm_pyg.ops.attention_inputs import EdgeTerms

BACKENDS = ["cpu", "reference"]
KINDS = [(5, torch.float64), (12, torch.float32)]
TERMS = st.sets(st.sampled_from(EdgeTerms._fields), min_size=1)
FEATURES = 3


class Inputs(NamedTuple):
    """Inputs of attention; all except the factor have gradients."""

    q: Tensor
    k: Tensor
    v: Tensor
    terms: EdgeTerms

    def leaves(self) -> list[Tensor]:
        tensors = (self.q, self.k, self.v, self.terms.bias, self.terms.edge)
        return [x for x in tensors if x is not None]

    def to(self, dtype: torch.dtype) -> "Inputs":
        """New leaves of another dtype."""
        *qkv, terms = self
        terms = [x if x is None else x.detach().to(dtype) for x in terms]
        new = Inputs(*(x.detach().to(dtype) for x in qkv), EdgeTerms(*terms))
        for leaf in new.leaves():
            leaf.requires_grad_()
        return new

    def attend(self, on: Graph, backend: str, scale=0.7, index=torch.int64) -> Tensor:
        q, k, v, (bias, factor, edge) = self
        where = (*on.csr(index), on.transpose(index))
        return csr_attention(q, k, v, *where, bias, scale, backend, factor, edge)

    def dense(self, on: Graph, scale: float = 0.7) -> Tensor:
        q, k, v, (bias, factor, edge) = self
        return dense_attention(q, k, v, on, bias, scale, factor, edge)


def draw(on, heads, channels, dtype, terms=EdgeTerms._fields) -> Inputs:
    edges, features = on.source.numel(), FEATURES if "edge" in terms else 0
    widths = {"bias": heads, "factor": heads, "edge": FEATURES}
    given = {name: torch.randn(edges, widths[name]) for name in terms}
    if "factor" in given:  # some are dropped
        given["factor"] = torch.rand(edges, heads).sub(0.3).relu()
    k, v = torch.randn(2, on.num_src, heads, channels)
    q = torch.randn(on.num_dst, heads, channels + features)
    return Inputs(q, k, v, EdgeTerms(**given)).to(dtype)


def assert_matches(out, expected, inputs, **tolerance):
    assert_close(out, expected)
    assert_gradients_close(out, expected, inputs, **tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    on=graphs(symmetric=False),
    heads=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    index=st.sampled_from([torch.int32, torch.int64]),
    terms=TERMS,
)
@settings(max_examples=40)
def test_terms_match_dense_softmax(backend, on, heads, kind, index, terms):
    inputs = draw(on, heads, *kind, terms)
    out, leaves = inputs.attend(on, backend, index=index), inputs.leaves()
    assert_matches(out, inputs.dense(on), leaves, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@given(on=graphs(symmetric=True), kind=st.sampled_from(KINDS), index=st.booleans())
@settings(max_examples=20)
def test_packed_attention_takes_factors(backend, on, kind, index):
    channels, dtype = kind
    qkv = torch.randn(on.num_dst, 3, 2, channels, dtype=dtype, requires_grad=True)
    factor = torch.rand(on.source.numel(), 2, dtype=dtype)
    csr = on.csr(torch.int32 if index else torch.int64)
    out = csr_self_attention(qkv, *csr, backend=backend, factor=factor)
    expected = dense_attention(*qkv.unbind(1), on, None, channels**-0.5, factor)
    assert_matches(out, expected, [qkv], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_match_finite_differences(backend):
    on = graph([(0, 0), (1, 0), (1, 0), (2, 1), (0, 3)], num_src=3, num_dst=4)
    inputs = draw(on, 2, 5, torch.float64)

    def attend(q, k, v, bias, edge):
        terms = EdgeTerms(bias, inputs.terms.factor, edge)
        return Inputs(q, k, v, terms).attend(on, backend)

    assert gradcheck(attend, inputs.leaves())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_accumulates_in_single(backend, dtype):
    on = random_graph(60, 0.6)
    half = draw(on, 2, 12, dtype)
    exact = half.to(torch.float32)
    out, expected = half.attend(on, backend), exact.dense(on)
    assert out.dtype == dtype
    assert_close(out, expected.to(dtype), atol=1e-5, rtol=2 * torch.finfo(dtype).eps)
    grad = torch.randn_like(out)
    ours = gradients(out, grad, *half.leaves())
    theirs = gradients(expected, grad.float(), *exact.leaves())
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == dtype
        assert_close(x.float(), y, atol=8 * torch.finfo(dtype).eps, rtol=0.02)


@pytest.mark.parametrize("terms", [["factor"], ["edge"], list(EdgeTerms._fields)])
def test_partial_results_of_hubs_on_either_side_are_combined(terms):
    into = [(i, hub) for hub in (1, 0) for i in range(1_501)]
    for on in (
        graph(into, 1_501, 3),
        graph([(hub, i) for i, hub in into], 3, 1_501),
    ):
        inputs = draw(on, 2, 5, torch.float64, terms)
        out, leaves = inputs.attend(on, "cpu"), inputs.leaves()
        expected = inputs.attend(on, "reference")
        assert_matches(out, expected, leaves)


def test_a_factor_of_zero_drops_a_weight_and_keeps_the_sum_of_others():
    on = graph([(0, 0), (1, 0)], 2, 1)
    q, k = torch.zeros(1, 1, 4), torch.zeros(2, 1, 4)
    v = torch.tensor([[[1.0, 2, 3, 4]], [[5.0, 6, 7, 8]]])
    factor = torch.tensor([[2.0], [0.0]])
    out = csr_attention(q, k, v, *on.csr(), on.transpose(), factor=factor)
    assert_close(out, v[:1])  # 2 * 1/2 of the first, nothing of the second


def test_features_replace_their_projection():
    on, heads, channels = random_graph(9, 0.5), 2, 5
    inputs = draw(on, heads, channels, torch.float64, ["edge"])
    edge, weight = inputs.terms.edge, torch.randn(heads, channels, FEATURES).double()
    q, k, v = inputs.q[..., :channels], inputs.k[on.source], inputs.v[on.source]
    projected = torch.einsum("hcf,ef->ehc", weight, edge)
    own = graph(list(enumerate(on.destination.tolist())), len(edge), on.num_dst)
    expected = dense_attention(q, k + projected, v + projected, own, None, 0.3)
    wide = torch.cat([q, torch.einsum("hcf,ihc->ihf", weight, q)], -1)
    out = inputs._replace(q=wide).attend(on, "cpu", 0.3)
    back = torch.einsum("hcf,ihf->ihc", weight, out[..., channels:])
    assert_close(out[..., :channels] + back, expected)


@pytest.mark.parametrize("wanted", [True, False])
def test_features_get_a_gradient_if_they_require_one(wanted):
    on = random_graph(6, 0.5)
    inputs = draw(on, 2, 5, torch.float64, ["edge"])
    inputs.terms.edge.requires_grad_(wanted)
    inputs.attend(on, "cpu").sum().backward()
    assert (inputs.terms.edge.grad is not None) == wanted
    assert inputs.q.grad is not None


def test_symmetric_graphs_with_terms_are_transposed():
    on = random_graph(8, 0.4)
    inputs = draw(on, 2, 5, torch.float64)
    q, k, v, (bias, factor, edge) = inputs
    out = csr_attention(
        q, k, v, *on.csr(), bias=bias, scale=0.7, factor=factor, edge=edge
    )
    leaves = inputs.leaves()
    assert_matches(out, inputs.dense(on), leaves)


def test_terms_of_any_stride_are_read():
    on = random_graph(7, 0.5)
    edges = on.source.numel()
    inputs = draw(on, 2, 5, torch.float64)
    strided = EdgeTerms(
        *(torch.randn(x.size(1), edges).double().T for x in inputs.terms)
    )
    inputs = inputs._replace(terms=strided)
    assert_close(inputs.attend(on, "cpu"), inputs.dense(on))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factor": torch.zeros(3, 2)}, r"factor must be \[E, H\] = \[2, 2\]"),
        ({"factor": torch.zeros(2, 2, requires_grad=True)}, "factor.detach"),
        ({"edge": torch.zeros(2, 4)}, r"F = 4 edge features"),
        ({"edge": None}, r"F = 0 edge features"),
        ({"edge": torch.zeros(3, 3)}, r"edge must be \[E, F\] = \[2, 3\]"),
        ({"edge": torch.zeros(2, 0), "q": torch.zeros(3, 2, 5)}, "F = 0"),
    ],
)
def test_wrong_terms_are_named(change, message):
    args = {
        "q": torch.zeros(3, 2, 8),
        "k": torch.zeros(3, 2, 5),
        "v": torch.zeros(3, 2, 5),
        "rowptr": torch.tensor([0, 1, 1, 2]),
        "col": torch.tensor([0, 1]),
        "edge": torch.zeros(2, 3),
    }
    for backend in BACKENDS:
        with pytest.raises(ValueError, match=message) as error:
            csr_attention(**{**args, **change}, backend=backend)
        assert "(got " in str(error.value)
