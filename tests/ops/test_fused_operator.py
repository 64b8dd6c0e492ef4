"""The operator inside torch: registration, compiled graphs, and its fallbacks."""

import subprocess
import sys

import pytest
import torch
from attention_oracle import assert_gradients_close, random_graph
from torch.testing import assert_close

from gsdm_pyg.ops import csr_attention, csr_self_attention


def test_registration_passes_torchs_checks():
    on = random_graph(6, 0.3)
    rowptr, col = on.csr()
    packed = torch.randn(6, 3, 2, 5, dtype=torch.float64, requires_grad=True)
    q, k, v = (x.detach().clone().requires_grad_() for x in packed.unbind(1))
    bias = torch.randn(col.numel(), 2, dtype=torch.float64, requires_grad=True)
    operator, transpose = torch.ops.gsdm_pyg.csr_attention, list(on.transpose())
    none, terms = (None, None, None), (bias, bias.detach().exp(), None)
    torch.library.opcheck(operator, ([packed], rowptr, col, [], *none, 0.3))
    torch.library.opcheck(operator, ([q, k, v], rowptr, col, transpose, *terms, 0.3))
    wide = torch.randn(6, 2, 8, dtype=torch.float64, requires_grad=True)
    for wanted in (True, False):
        edge = torch.randn(col.numel(), 3, dtype=torch.float64, requires_grad=wanted)
        terms = (None, None, edge)
        torch.library.opcheck(operator, ([wide, k, v], rowptr, col, [], *terms, 0.3))


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_compiled_graphs_contain_the_operator(backend):
    def layer(x, weight, rowptr, col):
        qkv = (x @ weight).view(x.size(0), 3, 2, 5)
        return csr_self_attention(qkv, rowptr, col, backend=backend).sin()

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (5, 8):
        on = random_graph(num_nodes, 0.4)
        x = torch.randn(num_nodes, 4, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(4, 30, dtype=torch.float64, requires_grad=True)
        out, expected = (f(x, weight, *on.csr()) for f in (compiled, layer))
        assert_close(out, expected)
        assert_gradients_close(out, expected, (x, weight))


@pytest.mark.slow
def test_inductor_compiles_the_operator():
    on = random_graph(7, 0.4)
    x = torch.randn(7, 3, 2, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(on.source.numel(), 2, dtype=torch.float64, requires_grad=True)

    def layer(x, bias, rowptr, col):
        return csr_self_attention(x * 2, rowptr, col, bias=bias).exp()

    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    out, expected = (f(x, bias, *on.csr()) for f in (compiled, layer))
    assert_close(out, expected)
    assert_gradients_close(out, expected, (x, bias))


def test_the_bias_is_cast_to_the_dtype_of_the_queries():
    on = random_graph(5, 0.5)
    qkv = torch.randn(5, 3, 2, 12).bfloat16()
    bias = torch.randn(on.source.numel(), 2, requires_grad=True)
    out = csr_self_attention(qkv, *on.csr(), bias=bias)
    out.sum().backward()
    assert out.dtype == torch.bfloat16
    assert bias.grad.dtype == torch.float32


def test_requiring_an_absent_backend_fails():
    on = random_graph(3, 0.5)
    qkv = torch.zeros(3, 3, 1, 5)
    with pytest.raises(RuntimeError, match="needs Triton"):
        csr_self_attention(qkv, *on.csr(), backend="triton")


@pytest.mark.slow
def test_without_numba_the_reference_is_used():
    program = """
import sys
sys.modules["numba"] = None
import torch
from gsdm_pyg.ops import csr_self_attention, fused_operator
assert fused_operator.FUSED_BACKENDS == {}
qkv = torch.randn(2, 3, 1, 4, requires_grad=True)
rowptr, col = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
out = csr_self_attention(qkv, rowptr, col)
out.sum().backward()
torch.testing.assert_close(out, qkv[[1, 0], 2])
print("used")
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "used" in result.stdout, result.stderr


def test_inputs_without_requires_grad_get_no_gradient():
    on = random_graph(4, 0.5)
    q, k, v = torch.randn(3, 4, 2, 5, dtype=torch.float64).unbind(0)
    assert not csr_attention(q, k, v, *on.csr()).requires_grad
    out = csr_attention(q.requires_grad_(), k, v, *on.csr())
    out.sum().backward()
    assert q.grad is not None and k.grad is None
