"""Boolean circuit (section 3.3 of the paper): a tree of AND and OR gates."""

import math
from functools import lru_cache
from typing import ClassVar

import networkx as nx
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from gsdm_pyg import (
    Categorical,
    GraphicalModel,
    Problem,
    Role,
    Size,
    graph_of,
    keyed_generator,
)

NEARLY_CONSTANT = 1 / 8  # if a gate takes one of its values less often than this
MOST_LAYERS = 24  # 2^25 nodes, gigabytes per instance


class BooleanCircuit(Problem):
    """Compute a circuit: n layers of gates, each of two nodes of the layer below.

    The gates are the same in every instance; inputs are fair coins. The variables x, h
    and y, concatenated, are the layers in order: gate i combines nodes 2i and 2i + 1.

    Args:
        n: Layers of gates above the 2^n inputs x.
        gate_seed: Chooses which gates are AND and which are OR, see `draw_gates`.
    """

    n: Size
    gate_seed: int = 0

    partial = ("accuracy_at_0", "accuracy_at_1")
    best_values: ClassVar = {
        "balanced_accuracy": 1.0,
        "accuracy": 1.0,
        "accuracy_at_0": 1.0,
        "accuracy_at_1": 1.0,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > MOST_LAYERS:
            raise ValueError(
                f"BooleanCircuit.n layers have 2^n inputs: give at most {MOST_LAYERS} "
                f"(got {self.n})."
            )
        seed = self.gate_seed
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ValueError(
                "BooleanCircuit.gate_seed chooses the gates: give a whole number of "
                f"at least 0 (got {seed!r})."
            )

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """One row per layer, from the inputs up: 1 where the gate is AND, 0 for OR."""
        return draw_gates(self.n, self.gate_seed)

    def graphical_model(self) -> GraphicalModel:
        num_inputs, binary, graph = 2**self.n, Categorical(2), GraphicalModel()
        each, role = torch.arange(num_inputs), Role.OBSERVED  # no two gates are alike
        nodes = [graph.add_variable("x", each.shape, binary, role, positions=(each,))]
        if self.n > 1:
            inner, role = each[:-2], Role.INTERMEDIATE
            h = graph.add_variable("h", inner.shape, binary, role, positions=(inner,))
            nodes.append(h)
        nodes.append(graph.add_variable("y", (), binary)[None])
        node = torch.cat(nodes)
        graph.connect(node[:-1].view(-1, 2), node[num_inputs:, None])
        return graph

    def sample_batch(self, num, generator=None):
        x = torch.randint(2, (num, 2**self.n), generator=generator)
        layers = self._layers(x)
        inner = {"h": torch.cat(layers[1:-1], dim=1)} if self.n > 1 else {}
        return {"x": layers[0], **inner, "y": layers[-1][:, 0]}

    def _layers(self, x: Tensor) -> list[Tensor]:
        """The values of each layer given the inputs [S, 2^n], from these up."""
        layers = [x]
        for is_and in self.gates:
            below = layers[-1]  # [S, 2 * gates of this layer]
            layers.append((below[:, ::2] + below[:, 1::2] > is_and).long())
        return layers

    def metrics(self, sample, truth):
        """Whether the output is right: overall, and for each of its true values.

        `accuracy_at_0` is NaN if the true output is 1, and `accuracy_at_1` if it is 0.
        """
        right, y = float(sample["y"] == truth["y"]), int(truth["y"])
        return {
            "accuracy": right,
            "accuracy_at_0": right if y == 0 else math.nan,
            "accuracy_at_1": right if y == 1 else math.nan,
        }

    def summary(self, scores):
        """Means, and the balanced accuracy: the mean over the two values of y."""
        means = super().summary(scores)
        balanced = (means["accuracy_at_0"] + means["accuracy_at_1"]) / 2
        return {**means, "balanced_accuracy": balanced}

    def violations(self, samples):
        """Whether the output is not that of the circuit."""
        return {"y": (samples["y"] != self._layers(samples["x"])[-1][:, 0]).long()}

    def polish(self, samples, known):
        """h as the inputs give it; the output stays as it was sampled."""
        layers = self._layers(samples["x"])
        return {**samples, "h": torch.cat(layers[1:-1], 1)} if self.n > 1 else samples

    def plot(self, sample, truth) -> Figure:
        """The circuit with the output at the center and the inputs around it.

        Dark nodes are 1 and light ones 0; a red outline marks what differs from the
        truth. What was not sampled is shown as in the truth.
        """
        graph = graph_of(self)
        value, true = (
            torch.cat([arrays[name].reshape(-1) for name in graph.variables])
            for arrays in ({**truth, **sample}, truth)
        )
        is_and = torch.cat(self.gates).bool()
        gate = torch.arange(2**self.n, graph.num_nodes)
        kinds = {
            "input": ("o", torch.arange(2**self.n)),
            "AND": ("s", gate[is_and]),
            "OR": ("D", gate[~is_and]),
        }
        figure = Figure(figsize=(7, 7), layout="constrained")
        ax = figure.subplots()
        tree, places = graph.to_networkx(), _rings(self.n)
        spacing = 900 / 2**self.n  # points between two inputs, roughly
        nx.draw_networkx_edges(tree, places, ax=ax, edge_color="silver", arrows=False)
        for shape, ids in kinds.values():
            nx.draw_networkx_nodes(
                tree,
                places,
                nodelist=ids.tolist(),
                node_shape=shape,
                node_size=min(20, spacing) ** 2,
                node_color=["midnightblue" if v else "white" for v in value[ids]],
                edgecolors=["red" if w else "gray" for w in (value != true)[ids]],
                linewidths=[2 if w else 1 for w in (value != true)[ids]],
                ax=ax,
            )
        marks = [
            Line2D([], [], marker=shape, ls="", mfc="white", mec="gray", label=kind)
            for kind, (shape, _) in kinds.items()
        ]
        ax.legend(handles=marks, loc="upper right", frameon=False)
        ax.set(title=f"output {sample['y']} (truth: {truth['y']})", aspect="equal")
        ax.set_axis_off()
        return figure


@lru_cache(maxsize=64)
def draw_gates(n: int, seed: int) -> tuple[Tensor, ...]:
    """Random gates, layer by layer: 1 for AND and 0 for OR, equally likely.

    A deep tree of such gates is nearly constant. So if a gate would give 0, or 1, with
    a probability below 1/8, it becomes one of the other kind if that is less biased.
    The probabilities are exact: no two gates of a layer share an input.
    """
    generator = keyed_generator("gates", n, seed)
    p = torch.full((2**n,), 0.5, dtype=torch.double)  # probability of a 1, in one layer
    layers = []
    while len(p) > 1:
        p_and = p[::2] * p[1::2]
        p_or = p[::2] + p[1::2] - p_and
        is_and = torch.rand(len(p_and), generator=generator) < 0.5
        drawn, other = (
            torch.where(is_and, p_and, p_or),
            torch.where(is_and, p_or, p_and),
        )
        biased = (drawn - 0.5).abs() > 0.5 - NEARLY_CONSTANT
        swap = biased & ((other - 0.5).abs() < (drawn - 0.5).abs())
        layers.append((is_and ^ swap).long())
        p = torch.where(swap, other, drawn)
    return tuple(layers)


def _rings(n: int) -> dict[int, tuple[float, float]]:
    """Positions of the nodes: one ring per layer, a gate between its two inputs."""
    places: list[tuple[float, float]] = []
    for layer in range(n + 1):
        size, radius = 2 ** (n - layer), (n - layer) / n
        for i in range(size):
            angle = 2 * math.pi * (i + 0.5) / size
            places.append((radius * math.cos(angle), radius * math.sin(angle)))
    return dict(enumerate(places))
