"""CSR attention beside PyG's and dense attention: time, memory and growth.

    python -m benchmarks.attention
    python -m benchmarks.attention --workload sudoku --repeats 50
    python -m benchmarks.attention --plot docs/attention.png

Every line is one forward and backward pass of one layer's attention, without the
projections. "PyG" is `TransformerConv.propagate`; "compiled PyG" is `torch.compile` of
the same call with dynamic=True, one graph without breaks. Dense SDPA gets a mask,
except on complete graphs. All outputs and gradients are compared first. Then the
implementations take turns, and the median time counts. "Floor" is the time that the
hardware needs at least: its arithmetic, at the speed of a large matrix product, or
reading every input and writing every result once, at the speed of a large copy,
whichever takes longer; the column has multiples of it.

"Peak" is what a pass adds to the resident set at its peak, output and gradients
included, in a fresh process that has run the same code on a small graph. The measured
pass compiles nothing, or it fails. Linux resets the peak on request, elsewhere it says
nan. "Extra" is the peak without the output and the gradients of q, k and v, which every
implementation has to hold.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.graphs import Workload, bcmf, complete, power_law, sudoku
from benchmarks.measure import median_times, parse_arguments, peak_of, print_peak
from benchmarks.passes import (
    Attention,
    TrainingPass,
    attention_passes,
    check_agreement,
    compiled,
    pyg_attention,
)
from gsdm_pyg.ops import csr_self_attention

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "bcmf": bcmf,
    "sudoku": sudoku,
    "power_law": power_law,
    "complete": complete,
}
# Smaller, and large enough for the same kernels.
SMALL: dict[str, Callable[[], Workload]] = {
    "bcmf": lambda: bcmf(2, 2, 2, 2),
    "sudoku": lambda: sudoku(4),
    "power_law": lambda: power_law(50_000, 200_000),
    "complete": lambda: complete(32, 4),
}


def fused(work: Workload) -> Attention:
    rowptr, col = work.rowptr, work.edge_index[0].contiguous()
    return lambda qkv: csr_self_attention(qkv, rowptr, col)


def pyg(work: Workload) -> Attention:
    attention = pyg_attention(work.heads, work.channels)
    return lambda q, k, v: attention(q, k, v, work.edge_index)


def compiled_pyg(work: Workload) -> Attention:
    attention = _compiled_attention(work.heads, work.channels)
    return lambda q, k, v: attention(q, k, v, work.edge_index)


@cache  # one compilation for the small and the full graph
def _compiled_attention(heads: int, channels: int) -> Callable:
    return compiled(pyg_attention(heads, channels))


def dense(work: Workload) -> Attention:
    graphs, heads, channels = work.num_graphs, work.heads, work.channels
    nodes = work.num_nodes // graphs
    source, destination = work.edge_index
    mask = torch.zeros(graphs, 1, nodes, nodes, dtype=torch.bool)
    mask[destination // nodes, 0, destination % nodes, source % nodes] = True
    mask = None if mask.all() else mask  # complete graphs need none

    def attention(qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(graphs, nodes, 3, heads, channels).permute(2, 0, 3, 1, 4)
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).reshape(-1, heads, channels)

    return attention


IMPLEMENTATIONS = {
    "csr_attention": fused,
    "PyG": pyg,
    "compiled PyG": compiled_pyg,
    "dense SDPA": dense,
}
SEPARATE = ("PyG", "compiled PyG")  # take q, k and v as three matrices


def implementations(name: str) -> list[str]:
    """Dense attention needs more memory than there is on the power-law graph."""
    return [x for x in IMPLEMENTATIONS if (name, x) != ("power_law", "dense SDPA")]


def training_passes(work: Workload, names: list[str]) -> list[TrainingPass]:
    """Forward and backward of implementations on random q, k, v, in their order."""
    packed = [name for name in names if name not in SEPARATE]
    separate = [name for name in names if name in SEPARATE]
    passes = attention_passes(
        work,
        [IMPLEMENTATIONS[name](work) for name in packed],
        [IMPLEMENTATIONS[name](work) for name in separate],
    )
    by_name = dict(zip([*packed, *separate], passes, strict=True))
    return [by_name[name] for name in names]


def floor(work: Workload, speeds: tuple[float, float]) -> float:
    """Seconds for the arithmetic or the memory of a pass, whichever takes longer.

    Per edge and channel there are two multiplications with addition forward (q k, p v)
    and five backward (q k and grad v again, dq, dk, dv). Forward reads q, k, v and
    writes out; backward reads q, k, v, out, grad and writes dq, dk, dv.
    """
    width = work.heads * work.channels
    flops = 2 * 7 * work.num_edges * width
    size = 4 * (4 + 8) * work.num_nodes * width
    return max(flops / speeds[0], size / speeds[1])


def hardware_speeds(repeats: int = 5) -> tuple[float, float]:
    """Operations per second of a matrix product, bytes per second of a copy."""
    a, b = torch.randn(2, 2048, 2048)
    source, target = torch.ones(2, 2**26)  # 256 MiB each
    runs = [lambda: torch.mm(a, b), lambda: target.copy_(source)]
    product, copy = median_times(runs, repeats)
    return 2 * 2048**3 / product, 2 * source.nbytes / copy


def print_peak_memory(name: str, implementation: str) -> None:
    """In a fresh process: bytes that a pass adds to the resident set at its peak."""
    small, full = (
        training_passes(source[name](), [implementation])[0]
        for source in (SMALL, WORKLOADS)
    )
    small()
    print_peak(full)


def growth(repeats: int) -> tuple[list[int], list[float], float]:
    """Edges, seconds and the exponent of time in edges, on BCMF of growing size."""
    works = [bcmf(size, size, 10, 1) for size in (12, 24, 48, 96, 192)]
    edges = [work.num_edges for work in works]
    passes = [training_passes(work, ["csr_attention"])[0] for work in works]
    times = median_times(passes, repeats)
    slope, _ = statistics.linear_regression(
        [math.log(e) for e in edges], [math.log(t) for t in times]
    )
    return edges, times, slope


def print_table(names: list[str], repeats: int) -> list[tuple[str, str, float]]:
    """One line per workload and implementation; returns their names and seconds."""
    speeds = hardware_speeds()
    print(f"{speeds[0] / 1e9:.0f} GFLOPS, {speeds[1] / 1e9:.0f} GB/s copied\n")
    print("| workload | implementation | ms | ratio | floor | peak MB ", end="")
    print("| extra MB | ratio |\n| --- | --- |" + 6 * " ---: |")
    rows = []
    for name in names:
        work, candidates = WORKLOADS[name](), implementations(name)
        rounds = max(3, repeats // 4) if name == "power_law" else repeats
        torch.compiler.reset()  # torch limits how often it compiles one function
        _compiled_attention.cache_clear()
        passes = training_passes(work, candidates)
        check_agreement(passes)
        times = median_times(passes, rounds)
        nodes, edges = work.num_nodes, work.num_edges
        held = 4 * 4 * nodes * work.heads * work.channels / 1e6  # out, dq, dk, dv
        peaks = [peak_of("benchmarks.attention", name, x) for x in candidates]
        extras = [max(peak - held, 0.1) for peak in peaks]  # about the resolution
        degree = int(work.rowptr.diff().max())
        label = f"{name}: {nodes:,} nodes, {edges:,} edges, largest degree {degree:,}"
        for x, t, peak, extra in zip(candidates, times, peaks, extras, strict=True):
            print(
                f"| {label} | {x} | {1e3 * t:.2f} | {t / times[0]:.1f} "
                f"| {t / floor(work, speeds):.1f} | {peak:.1f} "
                f"| {extra:.1f} | {extra / extras[0]:.1f} |"
            )
            rows.append((name, x, t))
    return rows


def plot(path: str, rows: list[tuple[str, str, float]], fit) -> None:
    """Bars of times beside the growth of time with edges."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    edges, times, slope = fit
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    labels = [f"{name}\n{implementation}" for name, implementation, _ in rows]
    colors = ["C0" if row[1] == "csr_attention" else "C7" for row in rows]
    left.barh(labels, [1e3 * row[2] for row in rows], color=colors)
    left.invert_yaxis()
    left.set(xscale="log", xlabel="forward + backward, ms")
    right.loglog(edges, [1e3 * t for t in times], "o-")
    right.set(xlabel="edges", ylabel="ms", title=f"time ~ edges^{slope:.2f} (BCMF)")
    figure.savefig(path, dpi=150)


def main() -> None:
    workloads = [*WORKLOADS, "growth", "all"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=workloads, default="all")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--plot", metavar="FILE", help="with growth or all")
    args = parse_arguments(parser, print_peak_memory)
    if args.plot and args.workload not in ("growth", "all"):
        parser.error(f"--plot needs --workload growth or all (got {args.workload})")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    chosen = [name for name in WORKLOADS if args.workload in (name, "all")]
    rows = print_table(chosen, args.repeats) if chosen else []
    if args.workload in ("growth", "all"):
        fit = growth(max(3, args.repeats // 2))
        print("\n| edges | ms | ns per edge |\n| ---: | ---: | ---: |")
        for edges, t in zip(*fit[:2], strict=True):
            print(f"| {edges:,} | {1e3 * t:.2f} | {1e9 * t / edges:.0f} |")
        print(f"\ntime ~ edges^{fit[2]:.3f}")
        if args.plot:
            plot(args.plot, rows, fit)


if __name__ == "__main__":
    main()
