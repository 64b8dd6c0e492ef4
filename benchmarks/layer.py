"""`StructuredAttentionConv` beside `TransformerConv` of PyG: training time and memory.

    python -m benchmarks.layer [--repeats 10]
    OMP_NUM_THREADS=1 python -m benchmarks.layer

Every line is one forward and backward pass of a whole layer, 64 channels to 4 heads of
16, on a power-law graph of 20,000 nodes and 200,000 edges, "sparse" 40,000. PyG's layer
gets a tensor of edges, ours a sorted `EdgeIndex`, except in "unsorted tensor".
"Compiled" is `torch.compile` of PyG's layer with dynamic=True, one graph without
breaks. Outputs and gradients are compared first, without dropout. Then all take turns,
and the median time counts.

"Floor" is the time of the layer's own matrix products: the projections to q, k, v and
the skip term, forward and backward, and that of the edge features. "x floor" has
multiples of it. Without edge features no layer can be faster, so the multiple of a
peer is the most that any layer can be ahead of it. Edge features need not be
projected: ours projects the queries instead where that is less work.

"MB" is what a pass adds to the resident set at its peak, in a fresh process that has
run the same code on a small graph. The measured pass compiles nothing, or it fails.
"""

import argparse

import torch
from torch import Tensor
from torch_geometric.nn import TransformerConv

from benchmarks.graphs import power_law
from benchmarks.measure import median_times, parse_arguments, peak_of, print_peak
from benchmarks.passes import (
    TrainingPass,
    check_agreement,
    layer_floor,
    layer_passes,
    layers_of,
)

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
SIDES = ("ours", "PyG", "compiled PyG")


def full_size(option: str) -> tuple[int, int]:
    """Nodes and edges of the graph that an option runs on."""
    return SPARSE if option.endswith("sparse") else FULL


def build_layers(option: str, sides: tuple[str, ...]) -> dict[str, torch.nn.Module]:
    """Layers with an option, by side."""
    layers = layers_of(TransformerConv(WIDTH, CHANNELS, HEADS, **OPTIONS[option]))
    return {side: layers[side] for side in sides}


def training_passes(
    option: str, layers: dict[str, torch.nn.Module], size: tuple[int, int]
) -> list[TrainingPass]:
    """Forward and backward of the layers on random rows."""
    work = power_law(*size)
    plain: Tensor = work.edge_index
    if option == "unsorted tensor":
        plain = ours = plain[:, torch.randperm(plain.size(1))]
    else:
        ours = work.sorted_edge_index(undirected=option != "directed edges")
    features = OPTIONS[option].get("edge_dim")
    edge_attr = None if features is None else torch.randn(plain.size(1), features)
    edges = {side: ours if side == "ours" else plain for side in layers}
    return layer_passes(layers, work.num_nodes, edges, edge_attr)


def print_peak_memory(option: str, side: str) -> None:
    """In a fresh process: bytes that a pass adds to the resident set at its peak."""
    layers, (nodes, edges) = build_layers(option, (side,)), full_size(option)
    small = (nodes // 4, edges // 4)  # the same kernels, and the same compiled code
    training_passes(option, layers, small)[0]()
    full = training_passes(option, layers, (nodes, edges))[0]
    print_peak(full)


def measure(option: str, repeats: int) -> list[float]:
    """Seconds of the floor and of each side."""
    torch.compiler.reset()  # torch limits how often it compiles one function
    layers, (nodes, _) = build_layers(option, SIDES), full_size(option)
    passes = training_passes(option, layers, full_size(option))
    for layer in layers.values():
        layer.eval()  # without dropout
    check_agreement(passes)
    for layer in layers.values():
        layer.train()
    features = OPTIONS[option].get("edge_dim")
    edges = None
    if features is not None:
        edges = (power_law(*full_size(option)).num_edges, features)
    floor = layer_floor(nodes, WIDTH, HEADS * CHANNELS, edges)
    return median_times([floor, *passes], repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    args = parse_arguments(parser, print_peak_memory)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| layer | floor, ms | ours, ms | x floor | PyG, ms | ratio ", end="")
    print("| compiled, ms | ratio | x floor | ours, MB | PyG, MB | compiled, MB |")
    print("| --- |" + 11 * " ---: |")
    for option in OPTIONS:
        floor, ours, eager, compiled = measure(option, args.repeats)
        peaks = [peak_of("benchmarks.layer", option, side) for side in SIDES]
        print(
            f"| {option} | {1e3 * floor:.1f} "
            f"| {1e3 * ours:.1f} | {ours / floor:.1f} "
            f"| {1e3 * eager:.1f} | {eager / ours:.1f} "
            f"| {1e3 * compiled:.1f} | {compiled / ours:.1f} | {compiled / floor:.1f} "
            f"| {peaks[0]:.0f} | {peaks[1]:.0f} | {peaks[2]:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
