"""Pictures of graphs: nodes colored by variable, and the attention mask."""

from __future__ import annotations

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gsdm_pyg.choices import Edges
from gsdm_pyg.graphical_model import GraphicalModel

_DRAWABLE = 200  # nodes, the most that are drawn one by one
_CELLS = 400  # the most rows of the picture of a mask
_MARKERS = {"observed": "s", "latent": "o", "intermediate": "D"}  # by role


def graph_figure(graph: GraphicalModel, edges: Edges = "structured") -> Figure:
    """The graph beside its attention mask; of a large graph, the mask alone.

    Args:
        graph: The graph.
        edges: Which mask, see `GraphicalModel.edge_index`.
    """
    small = graph.num_nodes <= _DRAWABLE
    figure = Figure(figsize=(12 if small else 6.5, 6.8), layout="constrained")
    axes = figure.subplots(1, 1 + small, squeeze=False)[0]
    if small:
        _draw_graph(axes[0], graph)
    _draw_mask(figure, axes[-1], graph, edges)
    return figure


def _draw_graph(ax: Axes, graph: GraphicalModel) -> None:
    """Arrows from parents to children, dashed lines between nodes of a factor."""
    network = graph.to_networkx()
    place = place_nodes(network.to_undirected())
    kinds = nx.get_edge_attributes(network, "kind")
    directed = [edge for edge, kind in kinds.items() if kind == "directed"]
    factors = [edge for edge, kind in kinds.items() if kind == "factor"]
    pairs = {(min(edge), max(edge)) for edge in factors}
    faint = float(np.clip(6 / np.sqrt(len(pairs) + 1), 0.1, 0.5))
    size = float(np.clip(8000 / graph.num_nodes, 30, 300))
    nx.draw_networkx_edges(
        nx.Graph(network), place, sorted(pairs), style="dashed", alpha=faint, ax=ax
    )
    nx.draw_networkx_edges(
        network, place, directed, node_size=size, alpha=0.4, arrowsize=8, ax=ax
    )
    legend = []
    for number, variable in enumerate(graph.variables.values()):
        color, marker = colormaps["tab10"](number % 10), _MARKERS[variable.role.value]
        nodes = range(variable.nodes.start, variable.nodes.stop)
        at = np.array([place[node] for node in nodes]).reshape(-1, 2)
        ax.scatter(at[:, 0], at[:, 1], s=size, color=[color], marker=marker, zorder=3)
        label = f"{variable.name}, {variable.role.value}"
        handle = Line2D([], [], color=color, marker=marker, linestyle="", label=label)
        legend.append(handle)
    ax.legend(handles=legend, loc="best", fontsize="small")
    ax.set_axis_off()


def place_nodes(network: nx.Graph) -> dict[int, np.ndarray]:
    """Where to draw each node: each component in a cell of its own, by distances."""
    place: dict[int, np.ndarray] = {}
    parts = sorted(nx.connected_components(network), key=len, reverse=True)
    columns = int(np.ceil(np.sqrt(len(parts))))
    for number, part in enumerate(parts):
        cell = np.array([number % columns, -(number // columns)])
        inside = nx.kamada_kawai_layout(network.subgraph(part), weight=None)
        place |= {node: cell + 0.42 * at for node, at in inside.items()}
    return place


def mask_shares(edge_index: np.ndarray, num_nodes: int, cells: int) -> np.ndarray:
    """The attention mask as at most [cells, cells] shares of pairs that are linked.

    Row i has a mark at j where node i attends to j.

    Args:
        edge_index: Edges [2, E], source over target.
        num_nodes: The nodes of the graph.
        cells: The most rows of the result.
    """
    source, target = edge_index
    cells = min(num_nodes, cells)
    extent = (-0.5, num_nodes - 0.5)
    counts, _, _ = np.histogram2d(target, source, cells, [extent, extent])
    return counts / (num_nodes / cells) ** 2


def _draw_mask(figure: Figure, ax: Axes, graph: GraphicalModel, edges: Edges) -> None:
    """The attention mask; that of a large graph as a density."""
    edge_index = graph.edge_index(edges).as_tensor().numpy()
    num_nodes, num_edges = graph.num_nodes, edge_index.shape[1]
    share = mask_shares(edge_index, num_nodes, _CELLS)
    cells, extent = len(share), (-0.5, num_nodes - 0.5)
    box = (*extent, *extent[::-1])
    if cells == num_nodes:
        ax.imshow(share, cmap="gray", interpolation="nearest", extent=box)
    else:
        least, most = share[share > 0].min(), share.max()
        image = ax.imshow(
            np.maximum(share, least / 10),  # empty cells are black
            cmap="inferno",
            norm=LogNorm(least / 10, most),
            interpolation="nearest",
            extent=box,
        )
        figure.colorbar(image, ax=ax, shrink=0.7, label="share of pairs")
    for variable in list(graph.variables.values())[1:]:
        for draw_line in (ax.axhline, ax.axvline):
            draw_line(variable.first_node - 0.5, color="tab:red", linewidth=0.5)
    names: dict[float, str] = {}
    for variable in graph.variables.values():
        center, last = (
            variable.first_node + variable.num_nodes / 2 - 0.5,
            max(names, default=-num_nodes),
        )
        if center - last < num_nodes / 25:  # too small for a label of its own
            names[last] += f", {variable.name}"
        else:
            names[center] = variable.name
    ax.set_xticks(list(names), list(names.values()))
    ax.set_yticks(list(names), list(names.values()))
    ax.set(title=f"{num_edges:,} edges, {100 * num_edges / num_nodes**2:.2g}%")
