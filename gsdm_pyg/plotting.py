"""Figures that problems share: matrices side by side, attention masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.choices import Edges
from gsdm_pyg.files import atomic_writer
from gsdm_pyg.graphical_model import GraphicalModel


def matrix_figure(matrices: Mapping[str, Tensor]) -> Figure:
    """Matrices side by side with cells of one size.

    Matrices of one shape share a color scale. The label below a matrix gives the values
    of its darkest and its brightest color.
    """
    widths = [matrix.size(1) for matrix in matrices.values()]
    height = max(matrix.size(0) for matrix in matrices.values())
    cell = min(0.35, 12 / sum(widths))
    figure = Figure(
        figsize=(cell * sum(widths) + 0.3 * len(widths), cell * height + 0.9),
        layout="constrained",
    )
    axes = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    for ax, (title, matrix) in zip(axes, matrices.items(), strict=True):
        same_shape = [m for m in matrices.values() if m.shape == matrix.shape]
        low = min(0.0, *(float(m.min()) for m in same_shape))
        high = max(1.0, *(float(m.max()) for m in same_shape))
        ax.imshow(matrix.cpu(), vmin=low, vmax=high, cmap="viridis")
        ax.set(title=title, xlabel=f"{low:.3g} to {high:.3g}", xticks=[], yticks=[])
    return figure


def comparison_figure(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> Figure:
    """Two arrays per name, the truth and a sample, as matrices on one color scale.

    An array of more than two dimensions is shown as a matrix with its first one as
    rows.
    """
    matrices = {
        name: [_as_matrix(array.detach().cpu()) for array in pair]
        for name, pair in pairs.items()
    }
    heights = [min(max(0.35 * len(m[0]), 0.5), 4.0) for m in matrices.values()]
    figure = Figure(
        figsize=(8, sum(heights) + 0.6 * len(heights)), layout="constrained"
    )
    axes = figure.subplots(len(matrices), 2, height_ratios=heights, squeeze=False)
    for row, (name, pair) in zip(axes, matrices.items(), strict=True):
        both = torch.stack(pair).double()
        low, high = float(both.min()), float(both.max())
        if low == high:  # a colorbar would widen the scale of one of the two alone
            low, high = low - 0.5, high + 0.5
        for ax, title, matrix in zip(row, ("truth", "sample"), both, strict=True):
            image = ax.imshow(matrix, vmin=low, vmax=high, aspect="auto")
            ax.set(title=f"{name}, {title}", xticks=[], yticks=[])
        figure.colorbar(image, ax=row.tolist())
    return figure


def animate(figures: Sequence[Figure], path: Path, seconds: float = 6.0) -> None:
    """Write figures of one size as an animated GIF, the last one shown the longest.

    Args:
        figures: The frames.
        path: The file.
        seconds: How long all frames but the last take.
    """
    from PIL import Image  # which matplotlib needs as well

    frames = []
    for figure in figures:
        buffer = BytesIO()
        figure.savefig(buffer, format="png", dpi=70)
        image = Image.open(buffer).convert("RGB")
        frames.append(image.quantize(64, dither=Image.Dither.NONE))
    each = max(int(1000 * seconds / len(frames)), 20)  # milliseconds
    with atomic_writer(path) as file:
        frames[0].save(
            file,
            format="gif",
            save_all=True,
            append_images=frames[1:],
            duration=[each] * (len(frames) - 1) + [2500],
            loop=0,
            optimize=True,
        )


def _as_matrix(array: Tensor) -> Tensor:
    if array.dim() < 2:
        return array.reshape(1, -1)
    return array.reshape(len(array), -1)


def mask_figure(graph: GraphicalModel, edges: Edges = "structured") -> Figure:
    """The attention mask: cell (i, j) is white iff node i attends to node j.

    A variable too small for its own label shares the label of the one before it.
    """
    source, target = graph.edge_index(edges)
    side = min(max(4.5, graph.num_nodes / 60), 20)  # inches; keeps a node visible
    figure = Figure(figsize=(side, side), layout="constrained")
    ax = figure.subplots()
    mask = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    mask[target.as_tensor(), source.as_tensor()] = True
    ax.imshow(mask, cmap="gray", interpolation="nearest")
    for variable in list(graph.variables.values())[1:]:
        for draw_line in (ax.axhline, ax.axvline):
            draw_line(variable.first_node - 0.5, color="tab:red", linewidth=0.5)
    ticks: list[float] = []
    labels: list[str] = []
    for name, variable in graph.variables.items():
        center = variable.first_node + (variable.num_nodes - 1) / 2
        if ticks and center - ticks[-1] < graph.num_nodes / (8 * side):
            labels[-1] += f", {name}"
        else:
            ticks.append(center)
            labels.append(name)
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)
    return figure
