"""Pictures shared by problems: matrices side by side, attention masks."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel


def matrix_figure(matrices: Mapping[str, Tensor]) -> Figure:
    """Matrices side by side, one colour scale and one size of cell for all."""
    widths = [matrix.size(1) for matrix in matrices.values()]
    height = max(matrix.size(0) for matrix in matrices.values())
    cell = min(0.35, 12 / sum(widths))
    figure = Figure(
        figsize=(cell * sum(widths) + 0.6 * len(widths) + 0.8, cell * height + 0.8),
        layout="constrained",
    )
    axes = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    high = max(float(matrix.max()) for matrix in matrices.values())
    low = min(0.0, *(float(matrix.min()) for matrix in matrices.values()))
    for ax, (title, matrix) in zip(axes, matrices.items(), strict=True):
        image = ax.imshow(matrix.cpu(), vmin=low, vmax=high, cmap="viridis")
        ax.set(title=title, xticks=[], yticks=[])
    figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    return figure


def mask_figure(graph: GraphicalModel) -> Figure:
    """The attention mask: cell (i, j) is white iff node i attends to node j."""
    source, target = graph.edge_index()
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    ax = figure.subplots()
    mask = source.new_zeros(graph.num_nodes, graph.num_nodes)
    mask[target.as_tensor(), source.as_tensor()] = 1
    ax.imshow(mask, cmap="gray", interpolation="nearest")
    centres = [v.first_node + (v.num_nodes - 1) / 2 for v in graph.variables.values()]
    for variable in list(graph.variables.values())[1:]:
        ax.axhline(variable.first_node - 0.5, color="tab:red", linewidth=0.5)
        ax.axvline(variable.first_node - 0.5, color="tab:red", linewidth=0.5)
    ax.set_xticks(centres, list(graph.variables))
    ax.set_yticks(centres, list(graph.variables))
    return figure
