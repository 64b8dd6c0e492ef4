"""Matrix inversion: its prior, its graph, its metric and its picture."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg.evaluation import prior_metrics
from problems import MatrixInversion
from tests.problems.draws import draw_batch, draw_list
from tests.problems.graph_oracle import (
    attention_links,
    product_links,
    symmetric_with_loops,
)


def test_a_and_r_are_standard_normal():
    values = draw_batch(MatrixInversion(n=20), 20)
    for entries in (values["A"], values["R"]):
        assert abs(entries.mean()) < 4 / entries.numel() ** 0.5
        assert abs(entries.var() - 1) < 4 * (2 / entries.numel()) ** 0.5


def test_if_e_is_the_identity_r_is_the_inverse():
    values = draw_batch(MatrixInversion(n=5, target="identity"), 20)
    assert torch.equal(values["E"], torch.eye(5).repeat(20, 1, 1))
    inverse = np.linalg.inv(values["A"].double().numpy())
    assert_close(values["R"].double().numpy(), inverse, rtol=1e-3, atol=1e-3)


def test_both_targets_have_the_same_graph():
    random, identity = (
        MatrixInversion(n=3, target=target).graphical_model()
        for target in ("random", "identity")
    )
    assert random.variables == identity.variables
    assert attention_links(random) == attention_links(identity)


@pytest.mark.parametrize("n", [1, 4])
def test_the_graph_links_products_to_their_terms_and_sums(n):
    shapes = {"A": (n, n), "R": (n, n), "C": (n, n, n), "E": (n, n)}
    expected = symmetric_with_loops(shapes, product_links(n, n, n))
    assert attention_links(MatrixInversion(n=n).graphical_model()) == expected


@pytest.mark.parametrize("n", [1, 4])
def test_without_intermediates_e_is_linked_to_its_row_and_column(n):
    links = set()
    for i, j, r in product(range(n), repeat=3):
        links |= {(("A", i, r), ("E", i, j)), (("R", r, j), ("E", i, j))}
    shapes = {"A": (n, n), "R": (n, n), "E": (n, n)}
    graph = MatrixInversion(n=n).graphical_model().without_intermediates()
    assert attention_links(graph) == symmetric_with_loops(shapes, links)


def test_a_and_e_are_given():
    observed = MatrixInversion(n=2).observe()
    assert {name for name, mask in observed.items() if mask.all()} == {"A", "E"}
    assert not observed["R"].any() and not observed["C"].any()


def test_rmse_is_of_a_times_the_sampled_r_against_e():
    problem = MatrixInversion(n=2, target="identity")
    (truth,) = draw_list(problem, 1)
    nothing = {**truth, "R": torch.zeros(2, 2)}
    assert problem.metrics(nothing, truth)["rmse"] == pytest.approx(0.5**0.5)
    twice = {**truth, "R": 2 * truth["R"]}
    assert problem.metrics(twice, truth)["rmse"] == pytest.approx(0.5**0.5, rel=1e-4)


def test_answers_from_the_prior_miss_by_the_spread_of_two_products():
    problem = MatrixInversion(n=5)
    truths, guesses = (draw_list(problem, 300, seed) for seed in (0, 1))
    squares = [
        problem.metrics(guess, truth)["rmse"] ** 2
        for guess, truth in zip(guesses, truths, strict=True)
    ]
    # A (R' - R): each entry is a sum of 5 terms of variance 2
    assert sum(squares) / 300 == pytest.approx(10, rel=0.1)


def test_inverses_of_other_numbers_miss_by_a_median_of_the_root_of_two():
    found = prior_metrics(MatrixInversion(n=1, target="identity"), 2000)
    # a / a' - 1 with a Cauchy ratio: |ratio - 1| < r has probability 1/2 for r^2 = 2
    assert found["median_rmse"] == pytest.approx(2**0.5, abs=0.1)


@pytest.mark.parametrize(
    ("rmse", "mean", "median"),
    [([0.2, 1000.0, 0.1], 1000.3 / 3, 0.2), ([1000.0, 0.1, 0.4, 0.2], 250.175, 0.3)],
)
def test_a_nearly_singular_matrix_hardly_changes_the_median(rmse, mean, median):
    found = MatrixInversion(n=2).summary([{"rmse": value} for value in rmse])
    assert found == pytest.approx({"rmse": mean, "median_rmse": median})


def test_the_picture_shows_a_r_and_e_in_the_same_colors():
    problem = MatrixInversion(n=3, target="identity")
    sample, truth = draw_list(problem, 2)
    axes = problem.plot(sample, truth).axes
    assert [ax.get_title() for ax in axes] == ["A", "R", "A R", "E"]
    shown = [torch.tensor(ax.images[0].get_array()) for ax in axes]
    A, R = truth["A"], sample["R"]
    for matrix, expected in zip(shown, [A, R, A @ R, torch.eye(3)], strict=True):
        assert_close(matrix, expected)
    limits = [ax.images[0].get_clim() for ax in axes]
    assert limits[2] == limits[3]
