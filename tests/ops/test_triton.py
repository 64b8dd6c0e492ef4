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
from gsdm_pyg.ops.triton_gpu import launch, parts


def check(on, heads, channels, dtype, biased, symmetric, limit):
    launch.cut_rows = lambda rowptr, edges: parts.cut_rows(rowptr, edges, limit)
    shapes = [(size, heads, channels) for size in (on.num_dst, on.num_src, on.num_src)]
    shapes += [(on.source.numel(), heads)] if biased else []
    inputs = [torch.randn(s, dtype=dtype).double().requires_grad_() for s in shapes]
    expected = dense_attention(*inputs[:3], on, inputs[3] if biased else None, 0.6)
    grad = torch.randn(shapes[0], dtype=dtype)
    q, k, v, *bias = (x.detach().to(dtype) for x in inputs)
    bias = bias[0] if biased else None
    out, lse = triton_gpu.forward((q, k, v), on.csr(), bias, 0.6)
    transpose = () if symmetric else on.transpose()
    args = (grad, (q, k, v), out, lse, on.csr(), transpose, bias, 0.6)
    ours = triton_gpu.backward(*args)
    accuracy = 1e-12 if dtype == torch.float64 else 40 * torch.finfo(dtype).eps
    theirs = gradients(expected, grad.double(), *inputs)
    for x, y in zip((out, *ours), (expected, *theirs), strict=True):
        torch.testing.assert_close(x.double(), y, atol=accuracy, rtol=accuracy)


torch.manual_seed(0)
check(random_graph(5, 0.4), 2, 8, torch.float32, False, True, 1024)
check(random_graph(5, 0.6), 1, 5, torch.float64, False, True, 2)
edges = [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 1), (0, 3)]
check(graph(edges, 3, 4), 2, 5, torch.float64, True, False, 2)
check(graph(edges, 3, 4), 1, 4, torch.float16, True, False, 3)
check(graph([], 2, 2), 1, 4, torch.float32, False, True, 1024)
print("all equal")
"""

CODE = """
import inspect
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from gsdm_pyg.ops.triton_gpu import backward_kernels, forward_kernels

SIZES = {"SCALE": 0.3, "BIASED": True, "ACCUM": triton.language.float32}
SIZES |= {"C": 12, "BLOCK_C": 16, "BLOCK_E": 32}
NUMBERS = "q k v bias out grad dq dk dv dbias x lse sums delta k_sums v_sums".split()
INDICES = "part_row part_start part_end part_slot owner col perm".split()


def kind(name):
    if name in SIZES:
        return "constexpr"
    return "*fp32" if name in NUMBERS else "*i64" if name in INDICES else "i32"


for kernel in (
    forward_kernels.forward_kernel,
    forward_kernels.combine_forward_kernel,
    backward_kernels.query_kernel,
    backward_kernels.key_kernel,
    backward_kernels.combine_backward_kernel,
):
    names = list(inspect.signature(kernel.fn).parameters)
    sizes = {(names.index(n),): SIZES[n] for n in names if n in SIZES}
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


def test_numbers_match_dense_softmax():
    assert "all equal" in run(NUMBERS, TRITON_INTERPRET="1")


@pytest.mark.slow
def test_kernels_compile_for_a_gpu():
    assert "all compiled" in run(CODE)


def test_a_cpu_does_without_triton():
    qkv = torch.zeros(1, 3, 1, 5, dtype=torch.float64)
    csr_self_attention(qkv, torch.tensor([0, 1]), torch.tensor([0]))
    assert "gsdm_pyg.ops.triton_gpu" not in sys.modules
