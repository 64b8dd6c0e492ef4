"""Where our attention beats compiled PyG: nodes x degrees x heads and channels.

    python -m benchmarks.grid [--threads 1] [--repeats 5] [--quick]
    python -m benchmarks.grid --threads 1 --json grid.json --plot docs/grid.png

Every line is one forward and backward pass on an undirected graph whose edges have
uniform random ends: of a whole layer, from H * C channels to H heads of C, and of the
operator alone, without projections. Ours gets a sorted `EdgeIndex`, PyG the same edges
as a tensor. "Compiled" is `torch.compile` of PyG's layer, or of its `propagate`, with
dynamic=True: one graph without breaks, compiled once for each H x C. Outputs and
gradients are compared first. Then all take turns, and the median time counts.

"Floor" is the time of the layer's own matrix products (the projections to q, k, v and
the skip term, forward and backward). No layer can be faster, so "compiled / floor" is
the most that any layer can be ahead of compiled PyG.
"""

import argparse
import itertools
import json
from pathlib import Path
from statistics import median

import torch
from matplotlib.figure import Figure
from torch_geometric.nn import TransformerConv

from benchmarks.graphs import Workload, uniform
from benchmarks.measure import median_times
from benchmarks.passes import (
    attention_passes,
    check_agreement,
    compiled,
    layer_floor,
    layer_passes,
    layers_of,
    pyg_attention,
)
from gsdm_pyg.ops import csr_self_attention

NODES = (1_000, 5_000, 20_000, 100_000)
DEGREES = (2, 4, 10, 30, 100)
MAX_EDGES = 1_000_000
LARGE = 300_000  # edges from which fewer repeats do
SHAPES = ((1, 64), (4, 16), (8, 8), (4, 32))  # heads and channels
QUICK = ((1_000, 5_000, 20_000), (2, 10, 30), ((1, 64), (4, 16)))
SIDES = ("ours", "eager", "compiled", "operator", "compiled_operator", "floor")
RATIOS = {  # title -> numerator and denominator
    "compiled / ours": ("compiled", "ours"),
    "operator: compiled / ours": ("compiled_operator", "operator"),
    "eager / ours": ("eager", "ours"),
    "ours / floor": ("ours", "floor"),
    "compiled / floor": ("compiled", "floor"),
}
Row = dict[str, float]  # the cell, and the seconds of each of SIDES


class Shape:
    """The compared layers and operators of H heads of C channels, compiled once."""

    def __init__(self, heads: int, channels: int) -> None:
        torch.compiler.reset()  # torch limits how often it compiles one function
        self.heads, self.channels = heads, channels
        width = heads * channels
        self.layers = layers_of(TransformerConv(width, channels, heads))
        self.propagate = compiled(pyg_attention(heads, channels))

    def measure(self, graph: Workload, repeats: int) -> list[float]:
        """Seconds of each of SIDES on a graph."""
        work = graph._replace(heads=self.heads, channels=self.channels)
        edges = dict.fromkeys(self.layers, work.edge_index)
        edges["ours"] = work.sorted_edge_index()
        layers = layer_passes(self.layers, work.num_nodes, edges)
        col = work.edge_index[0].contiguous()
        operators = attention_passes(
            work,
            [lambda qkv: csr_self_attention(qkv, work.rowptr, col)],
            [lambda q, k, v: self.propagate(q, k, v, work.edge_index)],
        )
        check_agreement(layers)
        check_agreement(operators)
        width = self.heads * self.channels
        floor = layer_floor(work.num_nodes, width, width)
        return median_times([*layers, *operators, floor], repeats)


def ratio(row: Row, title: str) -> float:
    numerator, denominator = RATIOS[title]
    return row[numerator] / row[denominator]


def print_medians(rows: list[Row], title: str) -> None:
    """One line of medians over cells, and how many of the cells we win."""
    values = " | ".join(
        f"{median(ratio(row, name) for row in rows):.2f}" for name in RATIOS
    )
    wins = sum(ratio(row, "compiled / ours") > 1 for row in rows)
    print(f"| {title} | {wins} of {len(rows)} | {values} |")


def plot(rows: list[Row], path: str) -> None:
    """Compiled / ours of the layer in every cell, one panel per shape."""
    shapes = list(dict.fromkeys((row["heads"], row["channels"]) for row in rows))
    size = (3 * len(shapes) + 1, 3)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(shapes), squeeze=False)[0]
    nodes = sorted({row["nodes"] for row in rows})
    degrees = sorted({row["degree"] for row in rows})
    for panel, (heads, channels) in zip(panels, shapes, strict=True):
        image = torch.full((len(degrees), len(nodes)), torch.nan)
        for row in rows:
            if (row["heads"], row["channels"]) != (heads, channels):
                continue
            y, x = degrees.index(row["degree"]), nodes.index(row["nodes"])
            image[y, x] = ratio(row, "compiled / ours")
            panel.text(x, y, f"{image[y, x]:.1f}", ha="center", va="center")
        panel.imshow(image.log2(), cmap="RdBu", vmin=-3, vmax=3, origin="lower")
        panel.set_xticks(range(len(nodes)), [f"{n // 1000}k" for n in nodes])
        panel.set_yticks(range(len(degrees)), [str(d) for d in degrees])
        panel.set(xlabel="nodes", title=f"{heads} x {channels}")
    panels[0].set(ylabel="degree")
    figure.suptitle("time of compiled PyG's layer / time of ours")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small part of the grid")
    parser.add_argument("--json", metavar="FILE", help="also write all times")
    parser.add_argument("--plot", metavar="FILE", help="also draw compiled / ours")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)  # before compiling, which counts them
    torch.manual_seed(0)
    nodes, degrees, shapes = QUICK if args.quick else (NODES, DEGREES, SHAPES)
    graphs = {
        (n, degree): uniform(n, degree)
        for n, degree in itertools.product(nodes, degrees)
        if n * degree <= MAX_EDGES
    }
    print(f"{args.threads} threads, torch {torch.__version__}\n")
    print("| nodes | degree | heads x channels | ours, ms | " + " | ".join(RATIOS), "|")
    print("|" + (4 + len(RATIOS)) * " ---: |")
    rows: list[Row] = []
    for heads, channels in shapes:
        shape = Shape(heads, channels)
        for (n, degree), graph in graphs.items():
            repeats = args.repeats
            if graph.num_edges >= LARGE:
                repeats = max(3, repeats // 2)
            seconds = shape.measure(graph, repeats)
            cell = {"nodes": n, "degree": degree, "heads": heads, "channels": channels}
            rows.append(cell | dict(zip(SIDES, seconds, strict=True)))
            values = " | ".join(f"{ratio(rows[-1], name):.2f}" for name in RATIOS)
            ours = f"{1e3 * rows[-1]['ours']:.2f}"
            print(f"| {n:,} | {degree} | {heads} x {channels} | {ours} | {values} |")
    print("\n| medians | layer wins | " + " | ".join(RATIOS), "|")
    print("| --- |" + (1 + len(RATIOS)) * " ---: |")
    print_medians(rows, "all")
    sparse = [row for row in rows if row["nodes"] >= 5_000 and row["degree"] <= 10]
    print_medians(sparse, "5,000 to 100,000 nodes, degrees 2 to 10")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
