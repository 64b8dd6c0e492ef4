"""The CPU kernels among threads and processes."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from attention_oracle import disjoint_union, random_graph, star
from torch.testing import assert_close
from torch.utils.data import DataLoader

from gsdm_pyg.ops import csr_attention, csr_self_attention
from gsdm_pyg.ops.cpu import threads


@pytest.fixture
def several_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def attend(qkv, on):
    """Output and gradient, from a leaf of its own."""
    qkv = qkv.detach().requires_grad_()
    out = csr_self_attention(qkv, *on.csr(), backend="cpu")
    (grad,) = torch.autograd.grad(out, qkv, torch.ones_like(out) + out.detach())
    return out.detach(), grad


def example(num_nodes=300):
    on = random_graph(num_nodes, 0.1)  # more than one work item
    return torch.randn(num_nodes, 3, 2, 12), on


@pytest.mark.parametrize(
    "on",
    [
        random_graph(300, 0.1),
        star(3_000),
        disjoint_union([random_graph(n, 1.0) for n in range(10, 30)]),
    ],
    ids=["even", "hub", "components"],
)
def test_results_do_not_depend_on_the_number_of_threads(on, several_threads):
    qkv = torch.randn(on.num_dst, 3, 2, 12)
    results = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        results.append(attend(qkv, on))
    for other in results[1:]:
        assert_close(other, results[0], atol=0.0, rtol=0.0)


def test_edge_terms_do_not_depend_on_the_number_of_threads(several_threads):
    on, results = star(3_000), []
    factor, edge = torch.rand(6_000, 2), torch.randn(6_000, 3, requires_grad=True)
    q, k, v = (torch.randn(3_001, 2, c, requires_grad=True) for c in (15, 12, 12))
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        out = csr_attention(q, k, v, *on.csr(), factor=factor, edge=edge)
        grads = torch.autograd.grad(out.sin().sum(), (q, k, v, edge))
        results.append([out.detach(), *grads])
    for other in results[1:]:
        assert_close(other, results[0], atol=0.0, rtol=0.0)


def test_python_threads_can_call_at_the_same_time(several_threads):
    examples = [example(100 + 40 * n) for n in range(4)]
    expected = [attend(*x) for x in examples]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for ours, theirs in zip(
                pool.map(lambda x: attend(*x), examples), expected, strict=True
            ):
                assert_close(ours, theirs, atol=0.0, rtol=0.0)


def test_python_threads_replace_openmp(several_threads, monkeypatch):
    qkv, on = example()
    expected = attend(qkv, on)
    monkeypatch.setattr(threads, "_gomp_parallel", None)
    assert_close(attend(qkv, on), expected, atol=0.0, rtol=0.0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_can_call(several_threads):
    qkv, on = example()
    expected = attend(qkv, on)  # the parent's threads exist before the fork
    graph, packed = on.csr(), qkv.contiguous()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            out = csr_self_attention(packed, *graph, backend="cpu")
            code = 0 if torch.equal(out, expected[0]) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_close(attend(qkv, on), expected, atol=0.0, rtol=0.0)


class Attended(torch.utils.data.Dataset):
    """Attention computed while loading data."""

    def __init__(self):
        self.qkv, on = example()
        self.graph = on.csr()

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return csr_self_attention(self.qkv * index, *self.graph, backend="cpu")


@pytest.mark.slow
def test_data_loader_workers_can_call(several_threads):
    data = Attended()
    expected = torch.stack([data[index] for index in range(4)])
    loader = DataLoader(
        data, batch_size=2, num_workers=2, multiprocessing_context="fork"
    )
    assert_close(torch.cat(list(loader)), expected)


USE = """
import sys, torch
from gsdm_pyg.ops import csr_self_attention
from gsdm_pyg.ops.cpu import compile
if sys.argv[1:]:
    compile._source_digest = lambda: sys.argv[1]  # as if the kernels were new
qkv = torch.randn(2, 3, 1, 12, requires_grad=True)
for _ in range(2):
    out = csr_self_attention(qkv, torch.tensor([0, 1, 2]), torch.tensor([1, 0]))
    out.sum().backward()
kernels = compile.LOADED_KERNELS
print(len(kernels), sum(kernel.cache_hits for kernel in kernels))
"""


def use_in_another_process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", USE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )


@pytest.mark.slow
def test_another_process_uses_the_cache_and_logs_nothing():
    attend(*example())
    result = use_in_another_process()
    assert result.stdout.split() == ["3", "3"]  # forward, stats, backward: all cached
    assert result.stderr == ""


@pytest.mark.slow
def test_a_process_that_compiles_logs_it_once(tmp_path):
    result = use_in_another_process("new", NUMBA_CACHE_DIR=str(tmp_path))
    assert result.stdout.split() == ["3", "0"]
    assert result.stderr.count("Compiling the CPU kernels") == 1
