"""CSR attention beside PyG's and dense attention: time, memory and growth.

    python -m benchmarks.attention
    python -m benchmarks.attention --workload sudoku --repeats 50
    python -m benchmarks.attention --plot docs/attention.png

Every line is one forward and backward pass of one layer's attention, without the
projections. The implementations take turns, and the median time counts. "Floor" is the
time that the hardware needs at least: its arithmetic, at the speed of a large matrix
product, or reading every input and writing every result once, at the speed of a large
copy, whichever takes longer; the column has multiples of it.

"Peak" is what a pass adds to the resident set at its peak, output and gradients
included, in a fresh process that has run the same code on a small graph; Linux resets
the peak on request, elsewhere it says nan. "Extra" is the peak without the output and
the gradients of q, k and v, which every implementation has to hold.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch_geometric.nn import TransformerConv

from benchmarks.measure import median_times, peak_of, print_peak
from gsdm_pyg.ops import csr_self_attention


class Workload(NamedTuple):
    """A symmetric graph with self-loops, its edges sorted by destination."""

    edge_index: Tensor  # [2, E]
    rowptr: Tensor  # [N + 1]
    num_graphs: int  # of equal size
    heads: int
    channels: int


def workload(
    edges: Tensor, num_nodes: int, num_graphs: int, heads: int, channels: int
) -> Workload:
    """Symmetrise one graph's edges [2, E], add self-loops, repeat it, sort."""
    loops = torch.arange(num_nodes).expand(2, -1)
    edges = torch.cat([edges, edges.flip(0), loops], dim=1)
    shift = num_nodes * torch.arange(num_graphs)[:, None]
    source, destination = ((end + shift).flatten() for end in edges)
    total = num_nodes * num_graphs
    key = torch.unique(destination * total + source)
    counts = torch.bincount(key // total, minlength=total)
    rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Workload(
        torch.stack([key % total, key // total]), rowptr, num_graphs, heads, channels
    )


def bcmf(m: int = 10, n: int = 16, k: int = 8, num_graphs: int = 8) -> Workload:
    """Matrix factorisation: A[m, k], R[k, n] -> C[m, n, k] -> E[m, n]."""
    sizes = [m * k, k * n, m * n * k, m * n]
    ids = torch.arange(sum(sizes)).split(sizes)
    a, r = ids[0].view(m, 1, k), ids[1].view(k, n).T.reshape(1, n, k)
    c, e = ids[2].view(m, n, k), ids[3].view(m, n, 1)
    pairs = [torch.broadcast_tensors(x, y) for x, y in ((a, c), (r, c), (c, e))]
    edges = torch.cat([torch.stack([x.flatten(), y.flatten()]) for x, y in pairs], 1)
    return workload(edges, sum(sizes), num_graphs, heads=2, channels=32)


def sudoku(num_graphs: int = 32) -> Workload:
    """9 x 9: every cell attends its row, its column, its block and itself."""
    cell = torch.arange(81)
    row, column = cell // 9, cell % 9
    block = row // 3 * 3 + column // 3
    linked = torch.zeros(81, 81, dtype=torch.bool)
    for group in (row, column, block):
        linked |= group[:, None] == group
    return workload(linked.nonzero().T, 81, num_graphs, heads=8, channels=16)


def power_law(num_nodes: int = 100_000, num_edges: int = 1_000_000) -> Workload:
    """Ends of edges drawn with probabilities rank^-0.85, in random order."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.arange(1, num_nodes + 1).double().pow(-0.85)
    draws = torch.multinomial(weight, 4 * num_edges, True, generator=generator)
    low, high = draws.view(2, -1).sort(dim=0).values
    pairs = torch.unique((low * num_nodes + high)[low < high])
    order = torch.randperm(pairs.numel(), generator=generator)
    pairs = pairs[order[: (num_edges - num_nodes) // 2]]
    names = torch.randperm(num_nodes, generator=generator)
    edges = names[torch.stack([pairs // num_nodes, pairs % num_nodes])]
    return workload(edges, num_nodes, 1, heads=4, channels=16)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "bcmf": bcmf,
    "sudoku": sudoku,
    "power_law": power_law,
}
# Smaller, and large enough for the same kernels.
SMALL: dict[str, Callable[[], Workload]] = {
    "bcmf": lambda: bcmf(2, 2, 2, 2),
    "sudoku": lambda: sudoku(4),
    "power_law": lambda: power_law(50_000, 200_000),
}


def fused(work: Workload) -> Callable[[Tensor], Tensor]:
    rowptr, col = work.rowptr, work.edge_index[0].contiguous()
    return lambda qkv: csr_self_attention(qkv, rowptr, col)


def pyg(work: Workload) -> Callable[[Tensor], Tensor]:
    conv = TransformerConv(work.heads * work.channels, work.channels, work.heads)

    def attention(qkv: Tensor) -> Tensor:
        q, k, v = qkv.unbind(1)
        return conv.propagate(work.edge_index, query=q, key=k, value=v, edge_attr=None)

    return attention


def dense(work: Workload) -> Callable[[Tensor], Tensor]:
    graphs, heads, channels = work.num_graphs, work.heads, work.channels
    nodes = (work.rowptr.numel() - 1) // graphs
    source, destination = work.edge_index
    mask = torch.zeros(graphs, 1, nodes, nodes, dtype=torch.bool)
    mask[destination // nodes, 0, destination % nodes, source % nodes] = True

    def attention(qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(graphs, nodes, 3, heads, channels).permute(2, 0, 3, 1, 4)
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).reshape(-1, heads, channels)

    return attention


IMPLEMENTATIONS = {
    "csr_attention": fused,
    "TransformerConv.propagate": pyg,
    "dense SDPA": dense,
}


def implementations(name: str) -> list[str]:
    """Dense attention needs more memory than there is on the power-law graph."""
    return [x for x in IMPLEMENTATIONS if (name, x) != ("power_law", "dense SDPA")]


def training_pass(work: Workload, implementation: str) -> Callable[[], None]:
    """Forward and backward on random q, k, v."""
    attention = IMPLEMENTATIONS[implementation](work)
    nodes = work.rowptr.numel() - 1
    qkv = torch.randn(nodes, 3, work.heads, work.channels, requires_grad=True)
    grad = torch.randn(nodes, work.heads, work.channels)

    def run() -> None:
        qkv.grad = None
        out = attention(qkv)
        out.backward(grad.view_as(out))

    return run


def floor(work: Workload, speeds: tuple[float, float]) -> float:
    """Seconds for the arithmetic or the memory of a pass, whichever takes longer.

    Per edge and channel there are two multiplications with addition forward (q k, p v)
    and five backward (q k and grad v again, dq, dk, dv). Forward reads q, k, v and
    writes out; backward reads q, k, v, out, grad and writes dq, dk, dv.
    """
    width = work.heads * work.channels
    flops = 2 * 7 * work.edge_index.size(1) * width
    size = 4 * (4 + 8) * (work.rowptr.numel() - 1) * width
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
    training_pass(SMALL[name](), implementation)()
    print_peak(training_pass(WORKLOADS[name](), implementation))


def growth(repeats: int) -> tuple[list[int], list[float], float]:
    """Edges, seconds and the exponent of time in edges, on BCMF of growing size."""
    works = [bcmf(size, size, 10, 1) for size in (12, 24, 48, 96, 192)]
    edges = [work.edge_index.size(1) for work in works]
    times = median_times([training_pass(w, "csr_attention") for w in works], repeats)
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
        times = median_times([training_pass(work, x) for x in candidates], rounds)
        nodes, edges = work.rowptr.numel() - 1, work.edge_index.size(1)
        held = 4 * 4 * nodes * work.heads * work.channels / 1e6  # out, dq, dk, dv
        module, flag = "benchmarks.attention", "--memory-of"
        peaks = [peak_of(module, flag, name, x) for x in candidates]
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
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.memory_of:
        print_peak_memory(*args.memory_of)
        return
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
