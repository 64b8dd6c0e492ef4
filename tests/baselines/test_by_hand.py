"""Methods by hand: cases worked out by hand, and what the paper says of them."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from sklearn import decomposition

from gsdm_pyg.baselines import create
from problems import BCMF, HierarchicalBCMF, Sorting, Sudoku
from problems.bcmf import multiply
from problems.by_hand.factorization import (
    _best_binary,
    _bounded_least_squares,
    _rmse,
)
from problems.sudoku_search import count_solutions
from tests.helpers import seeded


def factorize(name, E, k, **settings):
    """A and R of one matrix."""
    E = torch.as_tensor(E, dtype=torch.float32)
    problem = BCMF(m=E.size(0), n=E.size(1), k=k)
    samples = create(name, **settings).sample(problem, {"E": E}, generator=0)
    return samples["A"][0], samples["R"][0]


def rmse(name, problem, **settings):
    return create(name, **settings).evaluate(problem, 8).metrics["rmse"]


E = [
    [0.1, 0.9, 0.5],
    [0.2, 0.8, 0.7],
]  # columns have the sums 0.3, 1.7 and 1.2


def test_greedy_copies_the_largest_columns():
    A, R = factorize("greedy", E, 2)
    torch.testing.assert_close(A, torch.tensor([[0.9, 0.5], [0.8, 0.7]]))
    assert R.tolist() == [[0, 1, 0], [0, 0, 1]]
    product = A @ R.float()
    torch.testing.assert_close(product[:, 1:], torch.tensor(E)[:, 1:])
    assert (product[:, 0] == 0).all()


def test_greedy_repeats_the_last_column_where_none_is_left():
    A, R = factorize("greedy", E, 5)
    assert R.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 1]]
    product = A @ R.float()
    torch.testing.assert_close(product[:, :2], torch.tensor(E)[:, :2])
    torch.testing.assert_close(product[:, 2], 3 * torch.tensor(E)[:, 2])


def printed_algorithm(E, k):
    """The loops of the paper's appendix, with E transposed as there B is binary."""
    E = E.T
    B, C = np.zeros((E.shape[0], k)), np.zeros((k, E.shape[1]))
    for i in range(k):
        largest, row = -1, -1
        for j in range(E.shape[0]):
            if B[j].sum() == 0 and E[j].sum() > largest:
                largest, row = E[j].sum(), j
        B[row, i] = 1
        C[i] = E[B[:, i] == 1].sum(0) / (B[:, i] == 1).sum()
    return C.T, B.T


@pytest.mark.parametrize("k", [1, 3, 6, 8])
def test_greedy_is_the_algorithm_that_the_paper_prints(k):
    instance = BCMF(m=5, n=6, k=4).sample(seeded(1))["E"]
    A, R = factorize("greedy", instance, k)
    expected_A, expected_R = printed_algorithm(instance.double().numpy(), k)
    torch.testing.assert_close(A.double(), torch.from_numpy(expected_A))
    assert np.array_equal(R.numpy(), expected_R)


def test_as_many_clusters_as_columns_make_no_error():
    """The paper: K-means and its greedy algorithm are exact where k is n."""
    for name in ("kmeans", "greedy"):
        assert rmse(name, BCMF(m=4, n=6, k=6)) < 1e-6
        assert rmse(name, BCMF(m=4, n=6, k=3)) > 0.05
    assert rmse("kmeans", BCMF(m=4, n=6, k=9)) < 1e-6
    assert rmse("greedy", BCMF(m=4, n=6, k=9)) > 1  # the spike of the paper's figure


def test_kmeans_finds_clusters_that_are_apart():
    centers = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    labels = torch.tensor([0, 1, 1, 0, 1])
    A, R = factorize("kmeans", centers[:, labels], 2)
    torch.testing.assert_close(A @ R.float(), centers[:, labels])
    assert (R.sum(0) == 1).all()


def test_nmf_is_that_of_scikit_learn_with_r_rounded():
    given = BCMF(m=5, n=6, k=3).sample(seeded(1))["E"]
    A, R = factorize("nmf", given, 3)
    model = decomposition.NMF(3, random_state=0, max_iter=500)
    expected = model.fit_transform(given.double().numpy())
    assert np.allclose(expected @ model.components_, given, atol=0.02)
    torch.testing.assert_close(A.double(), torch.from_numpy(expected))
    assert np.array_equal(R.numpy(), model.components_.round().clip(0, 1))


def test_nmf_with_least_squares_recovers_a_separated_factorization():
    A = torch.tensor([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3], [0.2, 0.3, 0.7], [0.6, 0.5, 0]])
    R = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1]])
    found_A, found_R = factorize("nmf_least_squares", A @ R.float(), 3)
    order = [next(i for i in range(3) if (found_R[i] == row).all()) for row in R]
    torch.testing.assert_close(found_A[:, order], A, rtol=0, atol=1e-5)


@pytest.mark.parametrize("problem", [BCMF(m=8, n=8, k=4), BCMF(m=12, n=14, k=4)])
def test_nmf_with_least_squares_solves_small_instances_exactly(problem):
    result = create("nmf_least_squares").evaluate(problem, 8)
    assert result.metrics["rmse"] < 1e-4
    for sample in result.samples:
        assert sample["A"].min() >= 0 and sample["A"].max() <= 1


def test_more_restarts_are_never_worse():
    problem = BCMF(m=8, n=8, k=6)
    one, more = (rmse("nmf_least_squares", problem, restarts=n) for n in (1, 10))
    assert more < one


@pytest.mark.slow
def test_restarts_end_after_the_seconds_given():
    problem = BCMF(m=14, n=14, k=12)
    start = time.monotonic()
    found = rmse("nmf_least_squares", problem, restarts=10**6, seconds=0.2)
    assert time.monotonic() - start < 30  # 8 instances
    assert found < 0.5


def test_bounded_least_squares_is_the_constrained_optimum():
    rng = np.random.default_rng(0)
    E, R = rng.random((4, 9)) * 2, rng.integers(0, 2, (3, 9))
    A = _bounded_least_squares(E, R)
    gradient = (A @ R - E) @ R.T
    assert (A >= 0).all() and (A <= 1).all()
    inside = (A > 1e-9) & (A < 1 - 1e-9)
    assert np.allclose(gradient[inside], 0, atol=1e-8)
    assert (gradient[A <= 1e-9] >= -1e-8).all()
    assert (gradient[A >= 1 - 1e-9] <= 1e-8).all()


@pytest.mark.parametrize("k", [3, 12])
def test_columns_of_r_become_the_best_or_no_worse(k):
    rng = np.random.default_rng(1)
    A, truth = rng.random((15, k)), rng.integers(0, 2, (k, 6))
    E = A @ truth
    start = truth.copy()
    start[0] ^= 1  # one entry of each column is wrong
    found = _best_binary(E, A, start)
    assert set(np.unique(found)) <= {0, 1}
    assert _rmse(E, A, found) < 1e-9


def test_the_rank_of_a_hierarchical_answer_counts_its_terms():
    problem = HierarchicalBCMF(m=6, n=7, k=3)
    result = create("nmf_least_squares").evaluate(problem, 4)
    for sample in result.samples:
        used = sample["R"].any(1)
        assert sample["K"] == used.sum() and sample["D"].bool().equal(used)
        torch.testing.assert_close(sample["C"], multiply(sample["A"], sample["R"])["C"])


def test_sorting_sorts():
    assert create("sort").evaluate(Sorting(n=12), 8).metrics == {"rmse": 0, "exact": 1}


def test_search_solves_every_puzzle_and_finds_different_solutions():
    for problem in (Sudoku(a=2, b=3), Sudoku(clues=17), Sudoku(clues=30)):
        assert create("search").evaluate(problem, 8).metrics["valid"] == 1
    grids = create("search").sample(Sudoku(a=2, b=2), num_samples=200, generator=0)
    assert Sudoku(a=2, b=2).distinct(grids) > 120  # of the 288 grids


def test_search_finds_the_only_solution():
    problem = Sudoku(clues=40)
    result = create("search").evaluate(problem, 8)
    unique = [
        count_solutions(torch.where(o["cells"], t["cells"], -1).numpy(), 3, 3, 10**6)
        for t, o in zip(result.truths, result.observed, strict=True)
    ]
    assert 1 in unique
    for num, sample, truth in zip(unique, result.samples, result.truths, strict=True):
        assert num != 1 or torch.equal(sample["cells"], truth["cells"])


def test_a_search_that_gives_up_still_answers():
    problem = Sudoku(a=3, b=3)
    cells = create("search", tries=5, restarts=1).sample(problem)["cells"]
    assert not Sudoku.metrics(problem, {"cells": cells[0]}, {"cells": cells[0]})[
        "valid"
    ]
    assert cells.min() >= 0 and cells.max() <= 8
