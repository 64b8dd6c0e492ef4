"""`StructuredAttentionConv` beside `TransformerConv` of PyG: training time and memory.

    python -m benchmarks.layer [--repeats 10]

Every line is one forward and backward pass of a whole layer, 64 channels to 4 heads of
16, on a power-law graph of 20,000 nodes and 200,000 edges, "sparse" 40,000. PyG's layer
gets a tensor of edges, ours a sorted `EdgeIndex`, except in "unsorted tensor".
Both take turns, and the median time counts. "MB" is what a pass adds to the resident
set at its peak, in a fresh process that has run the same code on a small graph.
"""

import argparse
from collections.abc import Callable

import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import TransformerConv

from benchmarks.attention import power_law
from benchmarks.measure import median_times, peak_of, print_peak
from gsdm_pyg.nn import StructuredAttentionConv

WIDTH, CHANNELS, HEADS = 64, 16, 4
FULL, SPARSE = (20_000, 200_000), (20_000, 40_000)  # nodes and edges
OPTIONS: dict[str, dict] = {
    "plain": {},
    "unsorted tensor": {},
    "directed edges": {},
    "dropout 0.1": {"dropout": 0.1},
    "8 edge features": {"edge_dim": 8},
    "64 edge features": {"edge_dim": 64},
    "8 edge features, dropout 0.1": {"edge_dim": 8, "dropout": 0.1},
    "64 edge features, sparse": {"edge_dim": 64},
}


def full_size(option: str) -> tuple[int, int]:
    """Nodes and edges of the graph that an option runs on."""
    return SPARSE if option.endswith("sparse") else FULL


def training_pass(option: str, layer: str, size: tuple[int, int]) -> Callable[[], None]:
    """Forward and backward of one of the layers on random rows."""
    edges = power_law(*size).edge_index
    if option == "unsorted tensor":
        edges = edges[:, torch.randperm(edges.size(1))]
    nodes, options = size[0], OPTIONS[option]
    x = torch.randn(nodes, WIDTH, requires_grad=True)
    features = options.get("edge_dim")
    edge_attr = None if features is None else torch.randn(edges.size(1), features)
    conv: torch.nn.Module = TransformerConv(WIDTH, CHANNELS, HEADS, **options)
    if layer == "ours":
        conv = StructuredAttentionConv.from_transformer_conv(conv)
        if option != "unsorted tensor":
            undirected = option != "directed edges"
            edges = EdgeIndex(
                edges,
                sparse_size=(nodes, nodes),
                sort_order="col",
                is_undirected=undirected,
            )

    def run() -> None:
        conv.zero_grad()
        x.grad = None
        conv(x, edges, edge_attr).sum().backward()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.memory_of:
        nodes, edges = full_size(args.memory_of[0])
        training_pass(*args.memory_of, (nodes // 4, edges // 4))()  # the same kernels
        print_peak(training_pass(*args.memory_of, (nodes, edges)))
        return
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| layer | ours, ms | PyG, ms | ratio | ours, MB | PyG, MB | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for option in OPTIONS:
        sides = ("ours", "PyG")
        runs = [training_pass(option, side, full_size(option)) for side in sides]
        ours, theirs = median_times(runs, args.repeats)
        peaks = [
            peak_of("benchmarks.layer", "--memory-of", option, side) for side in sides
        ]
        print(
            f"| {option} | {1e3 * ours:.1f} | {1e3 * theirs:.1f} "
            f"| {theirs / ours:.1f} | {peaks[0]:.0f} | {peaks[1]:.0f} "
            f"| {peaks[1] / peaks[0]:.1f} |"
        )


if __name__ == "__main__":
    main()
