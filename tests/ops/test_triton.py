"""The Triton kernels: their numbers by Triton's interpreter, their code for a GPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gsdm_pyg.ops import csr_self_attention

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs triton"
)

NUMBERS = """
import torch
from attention_oracle import dense_attention, gradients, graph, random_graph
from gsdm_pyg.ops import triton_gpu
from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms
from gsdm_pyg.ops.triton_gpu import launch, row_chunks


def check(on, heads, channels, dtype, symmetric, limit, *terms, features=0):
    launch.split_rows = lambda *graph: row_chunks.split_rows(*graph, limit)
    edges = on.source.numel()
    shapes = {"q": (on.num_dst, heads, channels + features)}
    shapes |= {name: (on.num_src, heads, channels) for name in "kv"}
    shapes |= {name: (edges, heads) for name in terms}
    shapes |= {"edge": (edges, features)} if features else {}
    inputs = {name: torch.randn(shapes[name]).to(dtype) for name in shapes}
    exact = {name: x.double().requires_grad_() for name, x in inputs.items()}
    q, k, v = (exact[name] for name in "qkv")
    of_edges = [exact.get(name) for name in EdgeTerms._fields]
    expected = dense_attention(q, k, v, on, of_edges[0], 0.6, *of_edges[1:])
    qkv = [inputs[name] for name in "qkv"]
    given = EdgeTerms(*(inputs.get(name) for name in EdgeTerms._fields))
    transpose = () if symmetric else on.transpose()
    arguments = AttentionInputs(qkv, *on.csr(), transpose, given, 0.6)
    out, lse = triton_gpu.forward(arguments)
    grad = torch.randn(shapes["q"]).to(dtype)
    ours = triton_gpu.backward(grad, out, lse, features > 0, arguments)
    accuracy = 1e-12 if dtype == torch.float64 else 40 * torch.finfo(dtype).eps
    wanted = [x for name, x in exact.items() if name != "factor"]
    theirs = gradients(expected, grad.double(), *wanted)
    for x, y in zip((out, *ours), (expected, *theirs), strict=True):
        torch.testing.assert_close(x.double(), y, atol=accuracy, rtol=accuracy)


torch.manual_seed(0)
check(random_graph(5, 0.4), 2, 8, torch.float32, True, 1024)
check(random_graph(5, 0.6), 1, 5, torch.float64, True, 2)
edges = [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 1), (0, 3)]
check(graph(edges, 3, 4), 2, 5, torch.float64, False, 2, "bias")
check(graph(edges, 3, 4), 1, 4, torch.float16, False, 3, "bias")
check(graph(edges, 3, 4), 2, 5, torch.float64, False, 2, "factor")
check(graph(edges, 3, 4), 2, 5, torch.float64, False, 2, features=3)
check(graph(edges, 3, 4), 2, 4, torch.float32, False, 2, "bias", "factor", features=6)
check(graph([], 2, 2), 1, 4, torch.float32, True, 1024)
check(graph([], 2, 2), 1, 4, torch.float32, False, 1024, "factor", features=2)
print("all equal")
"""

CODE = """
import inspect
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from gsdm_pyg.ops.triton_gpu import backward_kernels, forward_kernels

SIZES = {"SCALE": 0.3, "ACCUM": triton.language.float32}
SIZES |= {"BIASED": True, "FACTORED": True, "TERMS": True}
SIZES |= {"C": 12, "BLOCK_C": 16, "F": 3, "BLOCK_F": 4, "BLOCK_E": 32}
NUMBERS = "q k v bias factor edges out grad dq dk dv dedge x lse delta".split()
NUMBERS += "partials k_partials v_partials all_ds all_p".split()
INDICES = "chunk_row chunk_start chunk_end chunk_slot slot_row col perm".split()


def kind(name):
    if name in SIZES:
        return "constexpr"
    return "*fp32" if name in NUMBERS else "*i64" if name in INDICES else "i32"


for kernel in (
    forward_kernels.forward_kernel,
    forward_kernels.combine_forward_kernel,
    backward_kernels.query_kernel,
    backward_kernels.key_kernel,
    backward_kernels.edge_kernel,
    backward_kernels.combine_backward_kernel,
):
    names = list(inspect.signature(kernel.fn).parameters)
    plain = {"BIASED": False, "FACTORED": False, "TERMS": False, "F": 0, "BLOCK_F": 1}
    for chosen in (SIZES, SIZES | plain):
        sizes = {(names.index(n),): chosen[n] for n in names if n in chosen}
        source = ASTSource(kernel, {name: kind(name) for name in names}, sizes)
        assert "ptx" in triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm
print("all compiled")
"""


def run(program: str, **environment: str) -> str:
    path = [str(Path(__file__).parent), *sys.path]
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_numbers_match_dense_softmax():
    assert "all equal" in run(NUMBERS, TRITON_INTERPRET="1")


@pytest.mark.slow
def test_kernels_compile_for_a_gpu():
    assert "all compiled" in run(CODE)


def test_cpu_tensors_do_not_import_triton():
    qkv = torch.zeros(1, 3, 1, 5, dtype=torch.float64)
    csr_self_attention(qkv, torch.tensor([0, 1]), torch.tensor([0]))
    assert "gsdm_pyg.ops.triton_gpu" not in sys.modules
