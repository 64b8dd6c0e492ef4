"""Node classification with `StructuredAttentionConv` beside PyG's `TransformerConv`.

The data set is PyG's `ExplainerDataset`, generated in a second: a Barabasi-Albert graph
with little houses attached. The class of a node is its role: outside all houses, or the
middle, ground or roof of one. All that a model sees of a node is its degree, so it must
look at the neighbors. A random half of the nodes trains, the other half tests.

    python -m examples.node_classification
"""

import argparse
import copy
import statistics
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import EdgeIndex, seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.datasets.graph_generator import BAGraph
from torch_geometric.nn import TransformerConv
from torch_geometric.utils import degree

from gsdm_pyg.nn import StructuredAttentionConv

MAX_DEGREE = 15  # one feature per degree; larger ones share the last


class Classifier(nn.Module):
    """Three attention layers, as in any PyG model."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = TransformerConv(in_channels, 16, heads=4)
        self.conv2 = TransformerConv(64, 16, heads=4)
        self.conv3 = TransformerConv(64, num_classes, heads=4, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.relu(self.conv1(x, edge_index))
        h = F.relu(self.conv2(h, edge_index))
        return self.conv3(h, edge_index)  # [N, K]


def converted(model: nn.Module) -> nn.Module:
    """The same model with every `TransformerConv` replaced, weights kept."""
    model = copy.deepcopy(model)
    for name, module in model.named_children():
        if isinstance(module, TransformerConv):
            conv = StructuredAttentionConv.from_transformer_conv(module)
            setattr(model, name, conv)
    return model


def houses() -> Data:
    """The graph with features x, labels y and the mask of training nodes."""
    generator = BAGraph(num_nodes=2000, num_edges=2)
    graph = ExplainerDataset(generator, motif_generator="house", num_motifs=400)[0]
    size = (graph.num_nodes, graph.num_nodes)
    edges = EdgeIndex(graph.edge_index, sparse_size=size, is_undirected=True)
    degrees = degree(graph.edge_index[0], graph.num_nodes).long()
    return Data(
        x=F.one_hot(degrees.clamp(max=MAX_DEGREE), MAX_DEGREE + 1).float(),
        y=graph.y,
        edge_index=edges.sort_by("col").values,  # sorted once, not in every call
        train_mask=torch.rand(graph.num_nodes) < 0.5,
    )


def train(model: nn.Module, data: Data, epochs: int) -> tuple[float, float]:
    """Accuracy on the nodes that did not train, and seconds per epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        logits = model(data.x, data.edge_index)
        loss = F.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    with torch.no_grad():
        correct = model(data.x, data.edge_index).argmax(-1) == data.y
    accuracy = correct[~data.train_mask].float().mean().item()
    return accuracy, statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seed_everything(arguments.seed)
    data = houses()
    model = Classifier(data.num_features, int(data.y.max()) + 1)
    models = {"TransformerConv": model, "StructuredAttentionConv": converted(model)}
    common = data.y[~data.train_mask].bincount().max() / (~data.train_mask).sum()
    print(f"{data.num_nodes} nodes, {data.num_edges} edges; ", end="")
    print(f"always naming the commonest class is right for {common:.1%}")
    print(f"{'layer':24}{'test accuracy':>15}{'ms per epoch':>15}")
    for name, model in models.items():
        accuracy, seconds = train(model, data, arguments.epochs)
        print(f"{name:24}{accuracy:>15.1%}{1000 * seconds:>15.1f}")


if __name__ == "__main__":
    main()
