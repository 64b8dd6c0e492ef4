"""One forward pass of the denoiser on large graphs: time and memory of the process.

    python -m benchmarks.scale [--plot docs/scale.png]

12 layers, width 64, 8 heads, on BCMF with m = n and k = 10. Every size runs in a fresh
process, whose peak resident set counts whole: interpreter, graph, weights and pass.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import torch
from matplotlib.figure import Figure
from torch_geometric.data import Batch

from gsdm_pyg import GSDM
from gsdm_pyg.data import ProblemBatches
from gsdm_pyg.training.memory import keep_freed_memory
from problems import BCMF

SIZES = (50, 100, 200, 302)  # the last one has a million nodes


def measure(size: int) -> dict[str, float]:
    """Build the graph of one instance and run the denoiser on it once."""
    keep_freed_memory()
    small = BCMF(m=2, n=2, k=2)
    model = GSDM.from_problem(small, width=64, layers=12, heads=8).eval()
    forward(model, instance(small))  # loads the kernels
    start = time.perf_counter()
    batch = instance(BCMF(m=size, n=size, k=10))
    built = time.perf_counter()
    forward(model, batch)
    return {
        "nodes": batch.num_nodes,
        "edges": batch.num_edges,
        "graph": built - start,
        "forward": time.perf_counter() - built,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def instance(problem: BCMF) -> Batch:
    return ProblemBatches(problem, batch_size=1).batch(0)


@torch.no_grad()
def forward(model: GSDM, batch: Batch) -> None:
    output = model.diffusion.denoiser(
        batch.x,
        torch.tensor([500]),
        batch.observed,
        batch.edge_index,
        batch.embedding,
    )
    assert output.isfinite().all()


def plot(rows: list[dict[str, float]], path: str) -> None:
    """Seconds and GiB against nodes."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    nodes = [row["nodes"] for row in rows]
    left.loglog(nodes, [row["forward"] for row in rows], "o-")
    left.set(xlabel="nodes", ylabel="seconds", title="one forward pass, 12 layers")
    right.loglog(nodes, [row["peak"] for row in rows], "o-")
    right.set(xlabel="nodes", ylabel="GiB", title="peak memory of the process")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", help="also draw the table into this file")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    print("| m = n | nodes | edges | graph, s | forward, s | us per node | peak, GiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.scale", "--measure", str(size)]
        row = json.loads(subprocess.check_output(command))
        per_node = 1e6 * row["forward"] / row["nodes"]
        print(
            f"| {size} | {row['nodes']:,} | {row['edges']:,} | {row['graph']:.1f} "
            f"| {row['forward']:.1f} | {per_node:.1f} | {row['peak']:.2f} |",
            flush=True,
        )
        rows.append(row)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
