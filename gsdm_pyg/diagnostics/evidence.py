"""Features of the evidence: what is known of an instance, in a few numbers.

An exact sampler's ranks are uniform whatever is known. One that ignores evidence has
uniform ranks on average, too: only their dependence on what is known reveals it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel

HOPS = 2  # how far from a node its neighborhood reaches


def known_values(
    graph: GraphicalModel,
    values: Arrays,
    known: Arrays,
    moments: Mapping[str, tuple[float, float]],
) -> Tensor:
    """Standardized values of known nodes, 0 elsewhere: [V, N, B], one variable each.

    Args:
        graph: The graph that a model sees.
        values: An array [B, *shape] per variable.
        known: A boolean array [B, *shape] per variable.
        moments: Mean and standard deviation of each variable that has values.
    """
    num = len(next(iter(known.values())))
    x = torch.zeros(len(moments), graph.num_nodes, num, dtype=torch.double)
    for v, (name, (mean, std)) in enumerate(moments.items()):
        standard = (values[name].double() - mean) / std
        standard = torch.where(known[name], standard, 0.0)
        x[v, graph.variables[name].nodes] = standard.reshape(num, -1).T
    return x


def overall_features(x: Tensor) -> Tensor:
    """The sum of the known values of each variable, [B, V]."""
    return x.sum(1).T.contiguous()


class Neighborhoods:
    """Averages of known values over the nodes around a node, 1 to `HOPS` edges away."""

    def __init__(self, graph: GraphicalModel, x: Tensor) -> None:
        source, target = graph.edge_index("structured").as_tensor()
        apart = source != target
        source, target = source[apart], target[apart]
        degree = target.bincount(minlength=graph.num_nodes).clamp(min=1)
        weight = 1 / degree[target].double()
        shape = (graph.num_nodes, graph.num_nodes)
        indices = torch.stack([target, source])
        average = torch.sparse_coo_tensor(
            indices, weight, shape, check_invariants=False
        )
        num_variables, num_nodes, num = x.shape
        flat = x.permute(1, 0, 2).reshape(num_nodes, -1)  # [N, V * B]
        self._around = []
        for _ in range(HOPS):
            flat = torch.sparse.mm(average, flat)
            self._around.append(flat.reshape(num_nodes, num_variables, num))

    def features(self, nodes: Tensor) -> Tensor:
        """Averages around one node of each instance, nodes [B] -> [B, HOPS * V]."""
        each = torch.arange(len(nodes))
        return torch.cat([around[nodes, :, each] for around in self._around], 1)
