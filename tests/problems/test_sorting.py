"""Sorting: its samples, its graphs, its metrics and its picture."""

from itertools import product

import pytest
import torch
from torch.testing import assert_close

from problems import Sorting
from tests.problems.graph_oracle import attention_links, symmetric_with_loops

ORDERINGS = ["chain", "full", "none"]


def draws(problem, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [problem.sample(generator) for _ in range(count)]


def constraint_links(n, ordering):
    """Entries of P in one row or column, and what is linked among s."""
    links = set()
    for i, j, k in product(range(n), repeat=3):
        links.add((("P", i, j), ("P", i, k)))
        links.add((("P", j, i), ("P", k, i)))
    for i, j in product(range(n), repeat=2):
        if ordering == "full" or (ordering == "chain" and abs(i - j) == 1):
            links.add((("s", i), ("s", j)))
    return links


@pytest.mark.parametrize("n", [1, 2, 10])
def test_p_sorts_u_into_s(n):
    for values in draws(Sorting(n=n), 20):
        u, P, s = (values[name].tolist() for name in "uPs")
        assert s == sorted(u)
        for lines in (P, list(zip(*P, strict=True))):
            assert all(sorted(line) == [0] * (n - 1) + [1] for line in lines)
        assert s == [u[row.index(1)] for row in P]


def test_u_is_standard_normal():
    u = torch.cat([values["u"] for values in draws(Sorting(n=20), 500)])
    assert abs(u.mean()) < 4 / len(u) ** 0.5
    assert abs(u.var() - 1) < 4 * (2 / len(u)) ** 0.5


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_graph_is_the_paper_s(n, ordering):
    shapes = {"u": (n,), "P": (n, n), "C": (n, n), "s": (n,)}
    links = constraint_links(n, ordering)
    for i, j in product(range(n), repeat=2):
        links.add((("u", j), ("C", i, j)))
        links.add((("P", i, j), ("C", i, j)))
        links.add((("C", i, j), ("s", i)))
    graph = Sorting(n=n, ordering=ordering).graphical_model()
    assert attention_links(graph) == symmetric_with_loops(shapes, links)


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_without_intermediates_s_is_linked_to_all_of_u_and_its_row_of_p(n, ordering):
    shapes = {"u": (n,), "P": (n, n), "s": (n,)}
    links = constraint_links(n, ordering)
    for i, j in product(range(n), repeat=2):
        links.add((("u", j), ("s", i)))
        links.add((("P", i, j), ("s", i)))
    graph = Sorting(n=n, ordering=ordering).graphical_model().without_intermediates()
    assert attention_links(graph) == symmetric_with_loops(shapes, links)


def test_rmse_judges_p_and_the_given_u_alone():
    problem = Sorting(n=3)
    truth = {
        "u": torch.tensor([3.0, 1.0, 2.0]),
        "P": torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]]),
        "s": torch.tensor([1.0, 2.0, 3.0]),
    }
    swapped = truth["P"][[1, 0, 2]]  # P u = 2, 1, 3
    guess = {"u": torch.zeros(3), "P": swapped, "s": truth["s"]}
    assert problem.metrics(guess, truth) == {
        "rmse": pytest.approx((2 / 3) ** 0.5),
        "exact": 0.0,
    }
    emptied = truth["P"] * torch.tensor([[1], [0], [1]])  # P u = 1, 0, 3
    found = problem.metrics({"P": emptied}, truth)
    assert found == {"rmse": pytest.approx((4 / 3) ** 0.5), "exact": 0.0}
    assert problem.metrics(truth, truth) == {"rmse": 0.0, "exact": 1.0}


@pytest.mark.parametrize("n", [3, 10])
def test_random_permutations_score_as_chance_has_it(n):
    problem, count = Sorting(n=n), 2000
    truths, guesses = draws(problem, count, seed=0), draws(problem, count, seed=1)
    judged = [problem.metrics(*pair) for pair in zip(guesses, truths, strict=True)]
    squares = torch.tensor([j["rmse"] for j in judged]).square()
    exact = torch.tensor([j["exact"] for j in judged])
    expected = 2 * (n - 1) / n  # twice the variance within n numbers
    assert abs(squares.mean() - expected) < 4 * squares.std() / count**0.5
    chance = 1 / torch.arange(1, n + 1).double().prod().item()  # 1 / n!
    assert abs(exact.mean() - chance) < 4 * (chance / count) ** 0.5 + 1e-9


def test_the_picture_shows_u_p_p_u_and_s_and_marks_errors():
    problem = Sorting(n=4)
    truth = draws(problem, 1)[0]
    P = truth["P"][[1, 0, 2, 3]]
    P[2] = 0
    figure = problem.plot({**truth, "P": P}, truth)
    panels = [ax for ax in figure.axes if ax.images]
    images = {ax.get_title() or ax.get_xlabel(): ax.images[0] for ax in panels}
    assert set(images) == {"u", "P", "P u", "s"}
    shown = {name: torch.tensor(image.get_array()) for name, image in images.items()}
    assert_close(shown["u"], truth["u"][None])
    assert_close(shown["P u"], (P.float() @ truth["u"])[:, None])
    assert_close(shown["s"], truth["s"][:, None])
    image = images["P"]
    colours = image.cmap(image.norm(image.get_array()))[..., :3]
    for i, j in product(range(4), repeat=2):
        red, green, blue = colours[i, j]
        assert (red > green and red > blue) == bool(P[i, j] != truth["P"][i, j])
        assert (min(colours[i, j]) < 0.5) == bool(P[i, j])
