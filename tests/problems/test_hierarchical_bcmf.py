"""Hierarchical BCMF: its prior, its graph and when E identifies the rank."""

import math
from fractions import Fraction
from itertools import product

import pytest
import torch

from gsdm_pyg.evaluation import prior_metrics
from problems import HierarchicalBCMF
from tests.problems.draws import draw_batch, draw_list
from tests.problems.graph_oracle import (
    attention_links,
    product_links,
    symmetric_with_loops,
)

SIZES = [(1, 1, 1), (2, 4, 3)]


def rank(rows):
    """The rank of a matrix of whole numbers, by exact elimination."""
    rows, found = [[Fraction(v) for v in row] for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] / rows[found][column]
            rows[i] = [
                a - factor * b for a, b in zip(rows[i], rows[found], strict=True)
            ]
        found += 1
    return found


def instance(R, K):
    """A truth with the rows R and random A, and an answer of rank K."""
    R = torch.tensor(R)
    A = torch.rand(6, len(R), generator=torch.Generator().manual_seed(0))
    truth = {"A": A, "R": R, "E": A @ R.float(), "K": torch.tensor(len(R))}
    return {**truth, "K": torch.tensor(K)}, truth


# prior


def test_the_rank_is_uniform_on_1_to_k():
    K = draw_batch(HierarchicalBCMF(m=1, n=1, k=4), 2000)["K"]
    counts = K.bincount(minlength=5)
    assert counts[0] == 0
    assert (counts[1:] - 500).abs().max() < 4 * (2000 * 0.25 * 0.75) ** 0.5


def test_a_row_of_r_is_bernoulli_0_3_given_that_it_has_a_1():
    R = draw_batch(HierarchicalBCMF(m=1, n=3, k=1), 6000)["R"]  # [6000, 1, 3]
    rows = [tuple(row) for row in R[:, 0].tolist()]
    for row in product([0, 1], repeat=3):
        p = math.prod(0.3 if v else 0.7 for v in row) / (1 - 0.7**3)
        p = p if any(row) else 0
        deviation = (6000 * p * (1 - p)) ** 0.5
        assert abs(rows.count(row) - 6000 * p) <= 4 * deviation


def test_a_long_row_of_r_is_bernoulli_0_3():
    values = draw_batch(HierarchicalBCMF(m=1, n=200, k=5), 300)
    R = values["R"][values["D"].bool()].float()  # the rows that are used
    assert abs(R.mean() - 0.3) < 4 * (0.3 * 0.7 / R.numel()) ** 0.5


def test_the_columns_of_a_that_are_used_are_uniform():
    values = draw_batch(HierarchicalBCMF(m=20, n=1, k=3), 300)
    A = values["A"].mT[values["D"].bool()]
    assert abs(A.mean() - 0.5) < 4 * (1 / 12 / A.numel()) ** 0.5
    assert abs(A.var() - 1 / 12) < 0.003


# graph


def shapes(m, n, k):
    return {"A": (m, k), "R": (k, n), "C": (m, n, k), "E": (m, n), "K": (), "D": (k,)}


@pytest.mark.parametrize("m, n, k", SIZES)
def test_the_graph_adds_the_gates_to_that_of_bcmf(m, n, k):
    links = product_links(m, n, k)
    for r in range(k):
        links.add((("K",), ("D", r)))
        links |= {(("D", r), ("A", i, r)) for i in range(m)}
        links |= {(("D", r), ("R", r, j)) for j in range(n)}
    graph = HierarchicalBCMF(m=m, n=n, k=k).graphical_model()
    assert attention_links(graph) == symmetric_with_loops(shapes(m, n, k), links)


@pytest.mark.parametrize("m, n, k", SIZES)
def test_without_intermediates_the_rank_is_linked_to_both_factors(m, n, k):
    links = set()
    for i, j, r in product(range(m), range(n), range(k)):
        links |= {(("A", i, r), ("E", i, j)), (("R", r, j), ("E", i, j))}
        links |= {(("K",), ("A", i, r)), (("K",), ("R", r, j))}
    kept = {name: s for name, s in shapes(m, n, k).items() if name not in "CD"}
    graph = HierarchicalBCMF(m=m, n=n, k=k).graphical_model().without_intermediates()
    assert attention_links(graph) == symmetric_with_loops(kept, links)


# metrics


@pytest.mark.parametrize("K, accuracy", [(2, 1.0), (1, 0.0), (3, 0.0)])
def test_rank_accuracy_counts_if_the_rows_are_independent(K, accuracy):
    sample, truth = instance([[1, 1, 0], [0, 1, 1]], K)
    problem = HierarchicalBCMF(m=6, n=3, k=3)
    assert problem.metrics(sample, truth)["rank_accuracy"] == accuracy


@pytest.mark.parametrize(
    "R",
    [
        [[1, 1, 0], [1, 1, 0]],  # two equal rows could be one
        [[1, 0, 0], [0, 1, 1], [1, 1, 1]],  # the third could be left out
        [[1, 0], [0, 1], [1, 1]],  # more rows than columns
    ],
)
def test_rank_accuracy_is_nan_if_fewer_terms_might_suffice(R):
    sample, truth = instance(R, len(R))
    problem = HierarchicalBCMF(m=6, n=len(R[0]), k=3)
    assert math.isnan(problem.metrics(sample, truth)["rank_accuracy"])


def test_rank_accuracy_is_nan_if_e_has_too_few_rows():
    problem = HierarchicalBCMF(m=2, n=8, k=4)
    for truth in draw_list(problem, 50):
        found = problem.metrics(truth, truth)["rank_accuracy"]
        assert truth["K"] <= 2 or math.isnan(found)


def test_the_rank_is_identified_iff_the_rows_of_r_are_independent():
    problem, seen = HierarchicalBCMF(m=6, n=4, k=4), set()
    for truth in draw_list(problem, 300):
        independent = rank(truth["R"].tolist()) == truth["K"].item()
        found = problem.metrics(truth, truth)["rank_accuracy"]
        assert math.isnan(found) != independent
        seen.add(independent)
    assert seen == {True, False}


def test_most_instances_of_8_by_8_identify_their_rank():
    problem = HierarchicalBCMF(m=8, n=8, k=4)
    found = [problem.metrics(t, t)["rank_accuracy"] for t in draw_list(problem, 200)]
    assert sum(not math.isnan(v) for v in found) > 180


def test_given_nothing_there_is_no_right_rank():
    problem = HierarchicalBCMF(m=6, n=3, k=3, given="nothing")
    sample, truth = instance([[1, 1, 0], [0, 1, 1]], 2)
    assert math.isnan(problem.metrics(sample, truth)["rank_accuracy"])


def test_independent_answers_have_the_right_rank_once_in_k_times():
    # E identifies low ranks more often, but an answer's K is uniform whatever the
    # truth. A quarter of these truths do not count; counted as wrong, they give 0.18.
    found = prior_metrics(HierarchicalBCMF(m=6, n=4, k=4), 2000)
    assert found["rank_accuracy"] == pytest.approx(1 / 4, abs=0.04)


def test_independent_answers_miss_by_the_spread_of_two_products():
    n, k = 5, 3
    problem = HierarchicalBCMF(m=6, n=n, k=k)
    truths, guesses = (draw_list(problem, 2000, seed) for seed in (0, 1))
    squares = [
        problem.metrics(guess, truth)["rmse"] ** 2
        for guess, truth in zip(guesses, truths, strict=True)
    ]
    p = 0.3 / (1 - 0.7**n)  # the probability of a 1 in a row that has one
    of_a_term = p / 3 - (p / 2) ** 2  # E[A^2] = 1/3, E[A] = 1/2
    variance = (k + 1) / 2 * of_a_term + (p / 2) ** 2 * (k**2 - 1) / 12
    assert sum(squares) / 2000 == pytest.approx(2 * variance, rel=0.06)


def test_the_picture_names_the_sampled_and_the_true_rank():
    sample, truth = instance([[1, 1, 0], [0, 1, 1]], 1)
    figure = HierarchicalBCMF(m=6, n=3, k=2).plot(sample, truth)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["A", "R", "A R, K = 1", "E, K = 2"]
