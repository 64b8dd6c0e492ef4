"""Figures show the right values, labels and color scales."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from gsdm_pyg import GraphicalModel
from gsdm_pyg.plotting import comparison_figure, mask_figure, matrix_figure
from problems import BCMF


def panels(figure):
    return [ax for ax in figure.axes if ax.images]


def test_matrices_of_one_shape_share_a_color_scale():
    low, high = torch.tensor([[-2.0, 0.5]]), torch.tensor([[0.0, 3.0]])
    figure = matrix_figure({"a": low, "b": torch.tensor([[0.2], [1.0]]), "c": high})
    assert isinstance(figure, Figure)
    assert [ax.get_title() for ax in panels(figure)] == ["a", "b", "c"]
    scales = [ax.images[0].get_clim() for ax in panels(figure)]
    assert scales == [(-2.0, 3.0), (0.0, 1.0), (-2.0, 3.0)]
    assert panels(figure)[0].get_xlabel() == "-2 to 3"


def test_the_color_scale_starts_at_zero_for_positive_matrices():
    figure = matrix_figure({"a": torch.tensor([[0.5, 3.0]])})
    assert panels(figure)[0].images[0].get_clim() == (0.0, 3.0)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (10, 16, 8), (50, 50, 5)])
def test_figures_of_any_size_can_be_saved(sizes, tmp_path):
    m, n, k = sizes
    file = tmp_path / "figure.png"
    figure = matrix_figure({"A": torch.rand(m, k), "R": torch.rand(k, n)})
    width, height = figure.get_size_inches()
    assert width < 16 and height < 20
    figure.savefig(file, dpi=40)
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("edges", ["structured", "complete", "random", "directed"])
def test_the_mask_is_white_where_a_row_attends_to_a_column(edges, tmp_path):
    graph = BCMF(m=2, n=2, k=3).graphical_model()
    figure = mask_figure(graph, edges)
    shown = np.asarray(panels(figure)[0].images[0].get_array())
    expected = np.zeros((graph.num_nodes, graph.num_nodes))
    for source, target in graph.edge_index(edges).as_tensor().t().tolist():
        expected[target, source] = 1
    np.testing.assert_array_equal(shown, expected)
    figure.savefig(tmp_path / "mask.png", dpi=40)


def test_the_mask_names_each_variable_at_the_middle_of_its_rows():
    graph = GraphicalModel()
    graph.add_variable("a", (1,))
    graph.add_variable("b", (4,))
    (ax,) = panels(mask_figure(graph))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert list(ax.get_yticks()) == [0, 2.5]  # row 0, and rows 1 to 4
    assert list(ax.get_xticks()) == [0, 2.5]


def test_variables_too_small_for_their_own_label_share_one():
    graph = GraphicalModel()
    graph.add_variable("a", (200,))
    graph.add_variable("b", (1,))
    graph.add_variable("c", (2,))
    (ax,) = panels(mask_figure(graph))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b, c"]


def test_equal_numbers_have_equal_colors_in_a_comparison():
    figure = comparison_figure({"y": (torch.tensor(0.19), torch.tensor(0.19))})
    figure.canvas.draw()
    truth, sample = (ax.images[0] for ax in figure.axes[:2])
    assert truth.norm.vmin == sample.norm.vmin and truth.norm.vmax == sample.norm.vmax
    assert truth.norm(0.19) == sample.norm(0.19)
