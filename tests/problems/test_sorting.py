"""Sorting: its samples, its graphs, its metrics and its picture."""

from itertools import product

import pytest
import torch
from torch.testing import assert_close

from problems import Sorting
from tests.problems.draws import draw_batch, draw_list
from tests.problems.graph_oracle import attention_links, symmetric_with_loops

each_graph = pytest.mark.parametrize(
    "n, ordering", [(1, "chain"), (4, "chain"), (4, "full"), (4, "none")]
)


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


def test_p_sorts_u_into_s():
    n = 10
    for values in draw_list(Sorting(n=n), 20):
        u, P, s = (values[name].tolist() for name in "uPs")
        assert s == sorted(u)
        for lines in (P, list(zip(*P, strict=True))):
            assert all(sorted(line) == [0] * (n - 1) + [1] for line in lines)
        assert s == [u[row.index(1)] for row in P]


def test_u_is_standard_normal():
    u = draw_batch(Sorting(n=20), 500)["u"]
    assert abs(u.mean()) < 4 / u.numel() ** 0.5
    assert abs(u.var() - 1) < 4 * (2 / u.numel()) ** 0.5


@each_graph
def test_the_graph_is_the_paper_s(n, ordering):
    shapes = {"u": (n,), "P": (n, n), "C": (n, n), "s": (n,)}
    links = constraint_links(n, ordering)
    for i, j in product(range(n), repeat=2):
        links.add((("u", j), ("C", i, j)))
        links.add((("P", i, j), ("C", i, j)))
        links.add((("C", i, j), ("s", i)))
    graph = Sorting(n=n, ordering=ordering).graphical_model()
    assert attention_links(graph) == symmetric_with_loops(shapes, links)


@each_graph
def test_without_intermediates_s_is_linked_to_all_of_u_and_its_row_of_p(n, ordering):
    shapes = {"u": (n,), "P": (n, n), "s": (n,)}
    links = constraint_links(n, ordering)
    for i, j in product(range(n), repeat=2):
        links.add((("u", j), ("s", i)))
        links.add((("P", i, j), ("s", i)))
    graph = Sorting(n=n, ordering=ordering).graphical_model().without_intermediates()
    assert attention_links(graph) == symmetric_with_loops(shapes, links)


def test_rmse_scores_p_and_the_given_u_alone():
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
def test_random_permutations_score_as_expected_by_chance(n):
    problem, count = Sorting(n=n), 2000
    truths, guesses = (draw_list(problem, count, seed) for seed in (0, 1))
    scores = [problem.metrics(*pair) for pair in zip(guesses, truths, strict=True)]
    squares = torch.tensor([score["rmse"] for score in scores]).square()
    exact = torch.tensor([score["exact"] for score in scores])
    expected = 2 * (n - 1) / n  # twice the variance within n numbers
    assert abs(squares.mean() - expected) < 4 * squares.std() / count**0.5
    chance = 1 / torch.arange(1, n + 1).double().prod().item()  # 1 / n!
    assert abs(exact.mean() - chance) < 4 * (chance / count) ** 0.5 + 1e-9


def test_the_picture_shows_u_p_p_u_and_s_and_marks_errors():
    problem = Sorting(n=4)
    (truth,) = draw_list(problem, 1)
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
    colors = image.cmap(image.norm(image.get_array()))[..., :3]
    for i, j in product(range(4), repeat=2):
        red, green, blue = colors[i, j]
        assert (red > green and red > blue) == bool(P[i, j] != truth["P"][i, j])
        assert (min(colors[i, j]) < 0.5) == bool(P[i, j])


# what is given


def check(problem, **given):
    """`check_given` of arrays, NaN where unknown."""
    shapes = {"u": (problem.n,), "P": (problem.n, problem.n), "s": (problem.n,)}
    values = {name: torch.as_tensor(value).double() for name, value in given.items()}
    known = {
        name: ~values[name].isnan() if name in values else torch.zeros(shape).bool()
        for name, shape in shapes.items()
    }
    problem.check_given({n: v.nan_to_num(0) for n, v in values.items()}, known)


NAN, NUMBERS = float("nan"), [0.3, -1.0, 2.0]  # in order: -1, 0.3 and 2


@pytest.mark.parametrize(
    "given, message",
    [
        (
            {"P": [[NAN, NAN, NAN], [1, NAN, 1], [NAN, NAN, NAN]]},
            "row 1 of P, counted from 0, has one 1 (got P[1, 0] = 1 and P[1, 2] = 1).",
        ),
        (
            {"P": [[NAN, NAN, 1], [NAN, NAN, NAN], [NAN, NAN, 1]]},
            "column 2 of P, counted from 0, has one 1 "
            "(got P[0, 2] = 1 and P[2, 2] = 1).",
        ),
        (
            {"P": [[NAN, NAN, NAN], [NAN, NAN, NAN], [0, 0, 0]]},
            "row 2 of P, counted from 0, has one 1 (got zeros alone).",
        ),
        (
            {"P": [[0, NAN, NAN], [0, NAN, NAN], [0, NAN, NAN]]},
            "column 0 of P, counted from 0, has one 1 (got zeros alone).",
        ),
        (
            {"s": [0.5, NAN, 0.25]},
            "s does not decrease (got s[0] = 0.5 and s[2] = 0.25).",
        ),
        (
            {"u": NUMBERS, "s": [-1.0, 0.5, 2.0]},
            "s[1] is 0.3, entry 1 of u in order, counted from 0 (got 0.5).",
        ),
        (
            {"u": NUMBERS, "s": [NAN, NAN, 0.3]},
            "s[2] is 2, entry 2 of u in order, counted from 0 (got 0.3).",
        ),
    ],
)
def test_contradictions_are_rejected_with_their_place(given, message):
    with pytest.raises(ValueError) as caught:
        check(Sorting(3), **given)
    start = "What is given contradicts the constraints: "
    assert str(caught.value) == start + message


def test_of_many_instances_the_contradictory_one_is_named():
    s = [[-1.0, 0.3, 2.0], [-1.0, 0.3, 1.9]]
    with pytest.raises(
        ValueError, match=r"given of instance 1 contradicts.*s\[2\] is 2"
    ):
        check(Sorting(3), u=[NUMBERS, NUMBERS], s=s)


def test_what_some_permutation_satisfies_is_no_contradiction():
    problem = Sorting(3)
    for values in draw_list(problem, 5):
        check(problem, **{name: values[name] for name in "uPs"})
    check(problem)
    check(problem, u=NUMBERS, s=[-1.0005, NAN, 2.0005])  # within the tolerance
    check(problem, u=[0.3, NAN, 2.0], s=[-1.0, 0.5, 2.0])  # u is not known
    check(problem, s=[0.5, NAN, 0.4985])
    check(problem, P=[[NAN, 0, NAN], [1, NAN, NAN], [0, NAN, NAN]])


def test_the_order_is_that_of_p_u_and_not_of_an_s_within_the_tolerance():
    problem = Sorting(2)
    u = torch.tensor([[0.0, 0.0015]])
    s = torch.tensor([[0.0008, 0.0008]])  # within 0.001 of either order
    for P, sorts in (([[1, 0], [0, 1]], True), ([[0, 1], [1, 0]], False)):
        missed = problem.violations({"u": u, "s": s, "P": torch.tensor([P])})
        assert (missed["s = P u"] <= problem.tolerance).all()
        assert missed["P u does not decrease"].any() != sorts
