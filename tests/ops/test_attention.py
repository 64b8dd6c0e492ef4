"""Every implementation computes the dense masked softmax and its gradients."""

import pytest
import torch
from attention_oracle import (
    assert_gradients_close,
    dense_attention,
    gradients,
    graph,
    graphs,
    random_graph,
    star,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.testing import assert_close
from torch_geometric import Index

from gsdm_pyg.ops import csr_attention, csr_self_attention, transpose_csr
from gsdm_pyg.ops.cpu import launch, memory

BACKENDS = ["cpu", "reference"]
INDEX = [torch.int32, torch.int64]
# Odd, and wider than a vector register.
KINDS = [(5, torch.float64), (12, torch.float32)]
OPTIONS = {
    "heads": st.integers(1, 3),
    "kind": st.sampled_from(KINDS),
    "index": st.sampled_from(INDEX),
    "biased": st.booleans(),
}


def draw_inputs(on, heads, channels, dtype, biased=False):
    sizes = (on.num_dst, on.num_src, on.num_src)
    q, k, v = (
        torch.randn(size, heads, channels, dtype=dtype, requires_grad=True)
        for size in sizes
    )
    edges = on.source.numel()
    bias = (
        torch.randn(edges, heads, dtype=dtype, requires_grad=True) if biased else None
    )
    return q, k, v, bias


@pytest.mark.parametrize("backend", BACKENDS)
@given(on=graphs(symmetric=False), **OPTIONS)
@settings(max_examples=30)
def test_attention_matches_dense_softmax(backend, on, heads, kind, index, biased):
    q, k, v, bias = draw_inputs(on, heads, *kind, biased)
    args = (q, k, v, *on.csr(index), on.transpose(index), bias, 0.7, backend)
    out, expected = csr_attention(*args), dense_attention(q, k, v, on, bias, 0.7)
    assert_close(out, expected)
    assert_gradients_close(out, expected, (q, k, v, bias), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@given(on=graphs(symmetric=True), **OPTIONS)
@settings(max_examples=30)
def test_packed_attention_on_symmetric_graphs_needs_no_transpose(
    backend, on, heads, kind, index, biased
):
    channels, dtype = kind
    qkv = torch.randn(on.num_dst, 3, heads, channels, dtype=dtype, requires_grad=True)
    bias = draw_inputs(on, heads, *kind, biased)[3]
    out = csr_self_attention(qkv, *on.csr(index), bias=bias, backend=backend)
    expected = dense_attention(*qkv.unbind(1), on, bias, channels**-0.5)
    assert_close(out, expected)
    assert_gradients_close(out, expected, (qkv, bias), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_match_finite_differences(backend):
    on = graph([(0, 0), (1, 0), (1, 0), (2, 1), (0, 3)], num_src=3, num_dst=4)
    q, k, v, bias = draw_inputs(on, 2, 5, torch.float64, biased=True)
    graph_args = (*on.csr(), on.transpose())
    assert gradcheck(
        lambda *x: csr_attention(*x[:3], *graph_args, x[3], backend=backend),
        (q, k, v, bias),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_nodes", [0, 3])
def test_nodes_without_edges_get_zero(backend, num_nodes):
    on = graph([], num_nodes, num_nodes)
    qkv = torch.randn(num_nodes, 3, 2, 5, dtype=torch.float64, requires_grad=True)
    out = csr_self_attention(qkv, *on.csr(), backend=backend)
    out.sum().backward()
    assert_close(out, torch.zeros(num_nodes, 2, 5, dtype=torch.float64))
    assert_close(qkv.grad, torch.zeros_like(qkv))


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinite_bias_excludes_edges(backend):
    on = graph([(0, 0), (1, 0), (0, 1), (1, 1)], 2, 2)
    q, k, v, _ = draw_inputs(on, 1, 5, torch.float64)
    bias = torch.tensor([[0.0], [-torch.inf], [-torch.inf], [-torch.inf]]).double()
    out = csr_attention(q, k, v, *on.csr(), bias=bias, backend=backend)
    assert_close(out, torch.stack([v[0], torch.zeros_like(v[0])]))
    for gradient in gradients(out, torch.ones_like(out), q, k, v):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_logits_do_not_overflow(backend):
    on = random_graph(9, 0.5)
    q, k, v, _ = draw_inputs(on, 2, 12, torch.float32)
    out = csr_attention(q * 100, k * 100, v, *on.csr(), backend=backend)
    assert_close(out, dense_attention(q * 100, k * 100, v, on, None, 12**-0.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_accumulates_in_single(backend, dtype):
    on = random_graph(60, 0.6)
    exact = draw_inputs(on, 2, 12, torch.float32, biased=True)
    half = [x.detach().to(dtype).requires_grad_() for x in exact]
    exact = [x.detach().float().requires_grad_() for x in half]
    args = (*on.csr(), on.transpose())
    out = csr_attention(*half[:3], *args, half[3], backend=backend)
    expected = dense_attention(*exact[:3], on, exact[3], 12**-0.5)
    assert out.dtype == dtype
    # Only the final rounding separates the results.
    assert_close(out, expected.to(dtype), atol=0.0, rtol=2 * torch.finfo(dtype).eps)
    grad = torch.randn_like(out)
    ours = gradients(out, grad, *half)
    theirs = gradients(expected, grad.float(), *exact)
    for x, y in zip(ours, theirs, strict=True):
        assert_close(x.float(), y, atol=4 * torch.finfo(dtype).eps, rtol=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_edge_after_the_last_block_counts_in_half_precision(backend, dtype):
    links = [(leaf, 12 if leaf < 8 else 13) for leaf in range(12)]
    links.append((12, 13))  # the last edge of both hubs, and of no leaf
    on = graph(links + [(j, i) for i, j in links], 14, 14)
    rowptr, col = on.csr()
    assert set(rowptr.diff().tolist()) == {1, 5, 9}  # each one more than blocks of 4
    half = torch.randn(14, 3, 2, 12).to(dtype).requires_grad_()
    exact = half.detach().float().requires_grad_()
    out = csr_self_attention(half, rowptr, col, backend=backend)
    expected = dense_attention(*exact.unbind(1), on, None, 12**-0.5)
    grad = torch.randn_like(out)
    (ours,) = gradients(out, grad, half)
    (theirs,) = gradients(expected, grad.float(), exact)
    assert_close(ours.float(), theirs, atol=4 * torch.finfo(dtype).eps, rtol=0.02)


@pytest.mark.parametrize(("channels", "dtype"), KINDS)
def test_partial_results_of_hubs_are_combined(channels, dtype):
    on = star(2_001)  # several work items; in the last, one edge after the blocks
    assert_hub_gradients(on, draw_inputs(on, 2, channels, dtype), transpose=None)


def test_partial_results_of_hubs_on_either_side_are_combined():
    on = graph(
        [(i, 1) for i in range(1_500)] + [(i, 0) for i in range(1_500)], 1_500, 3
    )
    inputs = draw_inputs(on, 2, 5, torch.float64, biased=True)
    assert_hub_gradients(on, inputs, on.transpose())
    on = graph([(i % 3, i) for i in range(1_500)], 3, 1_500)  # hubs among the sources
    assert_hub_gradients(on, draw_inputs(on, 2, 5, torch.float64), on.transpose())


def assert_hub_gradients(on, inputs, transpose):
    q, k, v, bias = inputs
    out = csr_attention(q, k, v, *on.csr(), transpose, bias, backend="cpu")
    exact = [x if x is None else x.detach().double().requires_grad_() for x in inputs]
    expected = csr_attention(
        *exact[:3], *on.csr(), transpose, exact[3], backend="reference"
    )
    assert_close(out, expected.to(out.dtype))
    grad = torch.randn_like(out)
    ours = gradients(out, grad, *inputs)
    theirs = gradients(expected, grad.double(), *exact)
    # The value of a hub of 2,001 leaves has a gradient of about 45, which single
    # precision rounds by 4e-5; the weight of one edge changes dq by 3e-4.
    atol = 1e-4 if out.dtype == torch.float32 else 1e-7
    for x, y in zip(ours, theirs, strict=True):
        assert_close(x, y.to(x.dtype), atol=atol, rtol=1e-7)


def test_views_of_any_stride_are_read_in_place():
    on = random_graph(11, 0.4)
    q = torch.randn(2, 11, 5, dtype=torch.float64).transpose(0, 1)  # heads first
    k = torch.randn(11, 4, 2, 5, dtype=torch.float64)[:, 1]
    v = torch.randn(11, 2, 7, dtype=torch.float64)[:, :, 1:6]
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = csr_attention(*inputs, *on.csr(), backend="cpu")
    expected = dense_attention(*inputs, on, None, 5**-0.5)
    assert_close(out, expected)
    grad = torch.randn(2, 11, 5, dtype=torch.float64).transpose(0, 1)
    for ours, theirs in zip(
        gradients(out, grad, *inputs), gradients(expected, grad, *inputs), strict=True
    ):
        assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("channels", "dtype", "symmetric", "nontemporal"),
    [
        (5, torch.float64, True, False),
        (8, torch.float64, True, True),
        (48, torch.float32, False, True),
        (32, torch.bfloat16, True, True),
    ],
)
def test_large_results_are_the_same(
    channels, dtype, symmetric, nontemporal, monkeypatch
):
    on, kernels, compiled = random_graph(200, 0.05), [], launch.compiled
    qkv = torch.randn(200, 3, 2, channels).to(dtype).requires_grad_()
    args = (qkv, *on.csr(), None if symmetric else on.transpose())
    expected = csr_self_attention(*args, backend="cpu")
    grad = torch.randn_like(expected)
    (theirs,) = gradients(expected, grad, qkv)

    def record(*kernel):
        kernels.append(kernel)
        return compiled(*kernel)

    monkeypatch.setattr(launch, "compiled", record)
    monkeypatch.setattr(memory, "LARGE_BYTES", 4096)  # on huge pages, past the caches
    out = csr_self_attention(*args, backend="cpu")
    assert torch.equal(out, expected)
    assert torch.equal(gradients(out, grad, qkv)[0], theirs)
    assert {kernel[-1] for kernel in kernels if kernel[0] == "backward"} == {
        nontemporal
    }


def test_expanded_gradients_are_accepted():
    on = random_graph(6, 0.4)
    qkv = torch.randn(6, 3, 2, 5, dtype=torch.float64, requires_grad=True)
    csr_self_attention(qkv, *on.csr(), backend="cpu").sum().backward()
    expected = dense_attention(*qkv.unbind(1), on, None, 5**-0.5)
    (theirs,) = torch.autograd.grad(expected.sum(), qkv)
    assert_close(qkv.grad, theirs)


def test_transposing_twice_gives_the_same_edges():
    on = graph([(0, 0), (2, 0), (2, 0), (1, 3)], num_src=3, num_dst=4)
    rowptr, col = on.csr()
    t_rowptr, t_row, t_perm = transpose_csr(rowptr, col, 3)
    assert t_rowptr.tolist() == [0, 1, 2, 4]
    assert t_row.tolist() == [0, 3, 0, 0]
    assert_close(col[t_perm], torch.tensor([0, 1, 2, 2]))
    back = transpose_csr(t_rowptr, t_row, 4)
    assert_close(back[0], rowptr)
    assert_close(back[1], col)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rowptr": torch.tensor([0, 1, 1])}, "rowptr must be"),
        ({"col": torch.tensor([0, 1], dtype=torch.int32)}, "int32"),
        ({"col": torch.tensor([[0, 1]])}, "col must be"),
        ({"col": torch.arange(4)[::2]}, "contiguous"),
        ({"bias": torch.zeros(3, 2)}, "bias must be"),
        ({"backend": "gpu"}, "backend must be"),
        ({"qkv": torch.zeros(3, 2, 2, 5)}, "qkv must hold"),
        ({"qkv": torch.zeros(3, 3, 0, 5)}, "H and C > 0"),
        (
            {"transpose": (torch.tensor([0, 2]), *2 * [torch.zeros(2).long()])},
            "transpo",
        ),
    ],
)
def test_wrong_arguments_are_named(change, message):
    args = {
        "qkv": torch.zeros(3, 3, 2, 5),
        "rowptr": torch.tensor([0, 1, 1, 2]),
        "col": torch.tensor([0, 1]),
    }
    with pytest.raises((ValueError, TypeError), match=message) as error:
        csr_self_attention(**{**args, **change})
    assert "(got " in str(error.value)


def test_bipartite_graphs_need_a_transpose():
    q, k = torch.zeros(2, 1, 5), torch.zeros(3, 1, 5)
    rowptr, col = torch.tensor([0, 1, 2]), torch.tensor([2, 0])
    with pytest.raises(ValueError, match="not symmetric"):
        csr_attention(q, k, k, rowptr, col)


@pytest.mark.parametrize(
    ("rowptr", "col"),
    [
        ([0, 1, 2], [0, 2]),
        ([0, 1, 2], [-1, 0]),
        ([0, 3, 2], [0, 0]),
        ([0, 1, 1], [0, 0]),
        ([1, 1, 2], [0, 0]),
    ],
)
def test_indices_out_of_range_are_rejected(rowptr, col):
    qkv = torch.zeros(2, 3, 2, 5, dtype=torch.float64)
    with pytest.raises(IndexError, match="rowptr must rise"):
        csr_self_attention(qkv, torch.tensor(rowptr), torch.tensor(col), backend="cpu")


def test_wrapped_indices_are_rejected():
    rowptr, col = torch.tensor([0, 1, 2]), Index([0, 1], dim_size=2)
    with pytest.raises(TypeError, match=r"pass col.as_tensor\(\) \(got Index\)"):
        csr_self_attention(torch.randn(2, 3, 1, 4), rowptr, col)
