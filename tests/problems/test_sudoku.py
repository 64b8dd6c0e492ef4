"""Sudoku: its grids, its graph, its clues, its metrics and its picture."""

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch

from problems import Sudoku, sudoku_grids
from problems.sudoku_search import count_solutions
from tests.problems.draws import draw_batch, draw_list, seeded
from tests.problems.graph_oracle import attention_links, symmetric_with_loops

SHAPES = [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (1, 5), (3, 3), (2, 5), (4, 4)]


def draw_grids(problem, num):
    return draw_batch(problem, num)["cells"].numpy()


def draw_puzzles(problem, num):
    """Truths and where their clues are, one by one."""
    masks = problem.observe_batch(num, seeded(1))["cells"]
    return zip(draw_list(problem, num), [{"cells": m} for m in masks], strict=True)


def groups(a, b):
    """The places of each row, column and block."""
    n = a * b
    places = list(product(range(n), repeat=2))
    rows = [[p for p in places if p[0] == i] for i in range(n)]
    columns = [[p for p in places if p[1] == i] for i in range(n)]
    blocks = [
        [(top + i, left + j) for i in range(a) for j in range(b)]
        for top in range(0, n, a)
        for left in range(0, n, b)
    ]
    return rows + columns + blocks


def all_grids(a, b):
    """Every complete grid, row by row."""
    n = a * b
    found = [()]
    for i in range(n):
        found = [
            (*grid, row)
            for grid in found
            for row in permutations(range(n))
            if all(row[j] != above[j] for above in grid for j in range(n))
            and all(
                set(row[j : j + b]).isdisjoint(above[j : j + b])
                for above in grid[i // a * a :]
                for j in range(0, n, b)
            )
        ]
    return found


def as_tuples(grids):
    return [tuple(map(tuple, grid)) for grid in grids.tolist()]


def assert_uniform(drawn, support):
    """Chi-square of draws against equal chances, within 4 standard deviations."""
    counts = dict.fromkeys(support, 0)
    for item in drawn:
        counts[item] += 1
    expected = len(drawn) / len(counts)
    chi_square = sum((c - expected) ** 2 for c in counts.values()) / expected
    freedom = len(counts) - 1
    assert abs(chi_square - freedom) < 4 * (2 * freedom) ** 0.5


# grids


@pytest.mark.parametrize("grids", ["all", "shifted"])
def test_every_group_of_a_grid_holds_each_digit_once(grids):
    for a, b in SHAPES:
        drawn = draw_grids(Sudoku(a=a, b=b, grids=grids), 20)
        for group in groups(a, b):
            rows, columns = zip(*group, strict=True)
            digits = np.sort(drawn[:, rows, columns])  # [20, N]
            assert (digits == np.arange(a * b)).all()


def test_a_grid_depends_on_its_own_seed_alone():
    seeds = np.array([5, 0, 2**62, 5])
    drawn = sudoku_grids.draw_grids(2, 3, True, seeds)
    for seed, grid in zip(seeds, drawn, strict=True):
        assert (grid == sudoku_grids.draw_grid(2, 3, True, seed)).all()
    assert (drawn[0] == drawn[3]).all() and (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("a, b, total", [(2, 2, 288), (1, 3, 12), (1, 4, 576)])
def test_small_grids_are_uniform_among_all(a, b, total):
    support = all_grids(a, b)
    assert len(support) == total
    assert_uniform(as_tuples(draw_grids(Sudoku(a=a, b=b), 50 * total)), support)


def test_6x6_grids_coincide_as_often_as_uniform_ones():
    count, total = 100_000, 28_200_960 // math.factorial(6)  # grids up to renaming
    grids = draw_grids(Sudoku(a=2, b=3), count)
    names = grids[:, 0].argsort(1)  # rename the digits so that the first row is sorted
    renamed = np.take_along_axis(names, grids.reshape(count, -1), 1)
    _, repeats = np.unique(renamed, axis=0, return_counts=True)
    pairs = (repeats * (repeats - 1) // 2).sum()
    expected = count * (count - 1) / 2 / total
    assert abs(pairs - expected) < 4 * expected**0.5


def split_again(triples, rng):
    """Two more orders of the digits in triples, the i-th ones free of each other."""
    while True:
        digits = rng.permutation(9).reshape(3, 3).tolist()
        second = [frozenset(triple) for triple in digits]
        if all(x.isdisjoint(y) for x, y in zip(triples, second, strict=True)):
            rest = zip(triples, second, strict=True)
            return second, [frozenset(range(9)) - x - y for x, y in rest]


def count_bands(columns):
    """The bands of three rows with these nine sets of digits as their columns."""
    keys = []  # a bit per digit of the first row, and one per digit of the second
    for left in (0, 3, 6):
        orders = [
            np.array([512 << x | 1 << y for x, y, _ in permutations(column)])
            for column in columns[left : left + 3]
        ]
        keys.append(orders[0][:, None, None] + orders[1][:, None] + orders[2])
    first = keys[0][0].reshape(-1, 1)  # the other orders of column 0 rename the rows
    missing = 2**18 - 1 - first - keys[1].reshape(1, -1)
    third = np.sort(keys[2], axis=None)
    found = third.searchsorted(missing, "right") - third.searchsorted(missing, "left")
    return 6 * int(found.sum())


def coinciding(blocks):
    """How many columns of two blocks of a stack have the same digits."""
    return sum(x == y for one, two in combinations(blocks, 2) for x in one for y in two)


def test_9x9_grids_agree_with_exactly_uniform_ones():
    """Importance sampling, checked against the known number of grids.

    A uniform first band determines the digits of its columns. In each stack there are
    56 ways to divide the other digits between the two bands below. Draw one of them.
    The weight of the draw is the number of ways to arrange those two bands.
    """
    rng = np.random.default_rng(0)
    weights, counts = [], []
    for _ in range(1500):
        top = [frozenset(x) for x in rng.permutation(9).reshape(3, 3).tolist()]
        rows = zip(top, *split_again(top, rng), strict=True)
        band = [[d for x in row for d in rng.permutation(list(x))] for row in rows]
        first = [frozenset(int(d) for d in c) for c in zip(*band, strict=True)]
        stacks = [first[left : left + 3] for left in (0, 3, 6)]
        below = [split_again(stack, rng) for stack in stacks]
        bands = [[c for pair in below for c in pair[k]] for k in (0, 1)]
        weights.append(count_bands(bands[0]) * count_bands(bands[1]))
        counts.append(
            sum(coinciding([s, *pair]) for s, pair in zip(stacks, below, strict=True))
        )
    weight, count = np.array(weights), np.array(counts)
    bands = math.factorial(9) * 56 * 6**6
    assert bands * 56**3 * weight.mean() == pytest.approx(6.6709e21, rel=0.05)
    expected = (weight * count).sum() / weight.sum()
    error = (weight * (count - expected)).std() / weight.mean() / len(weight) ** 0.5

    found = []
    for grid in draw_grids(Sudoku(a=3, b=3), 10_000):
        columns = [
            [
                [frozenset(grid[i : i + 3, j].tolist()) for j in range(k, k + 3)]
                for i in (0, 3, 6)
            ]
            for k in (0, 3, 6)
        ]
        found.append(sum(coinciding(stack) for stack in columns))
    assert error < 0.1  # a search without the switches is off by 0.5
    error = math.hypot(error, np.std(found) / len(found) ** 0.5)
    assert abs(np.mean(found) - expected) < 4 * error


def shifted_grids(a, b):
    """The paper's construction with each of its choices in turn, digits not renamed."""
    n = a * b
    bands = [list(permutations(range(i, i + a))) for i in range(0, n, a)]
    stacks = [list(permutations(range(j, j + b))) for j in range(0, n, b)]
    for offset, rows, columns in product(
        permutations(range(b)), product(*bands), product(*stacks)
    ):
        row_place, column_place = sum(rows, ()), sum(columns, ())
        grid = np.empty((n, n), int)
        for i, j in product(range(n), repeat=2):
            digit = (j + offset[i // a] + i % a * b) % n
            grid[row_place[i], column_place[j]] = digit
        yield grid


def with_sorted_first_row(grids):
    return as_tuples(np.stack([grid[0].argsort()[grid] for grid in grids]))


@pytest.mark.parametrize("a, b", [(2, 2), (1, 3), (2, 3), (3, 2)])
def test_shifted_grids_are_the_paper_s(a, b):
    paper = with_sorted_first_row(shifted_grids(a, b))
    drawn = with_sorted_first_row(draw_grids(Sudoku(a=a, b=b, grids="shifted"), 5000))
    chances = {grid: paper.count(grid) / len(paper) for grid in set(paper)}
    assert set(drawn) == set(chances)
    chi_square = sum(
        (drawn.count(grid) - 5000 * p) ** 2 / (5000 * p) for grid, p in chances.items()
    )
    freedom = len(chances) - 1
    assert abs(chi_square - freedom) <= 4 * (2 * freedom) ** 0.5


def test_digits_of_shifted_grids_are_renamed_at_random():
    rows = draw_grids(Sudoku(a=1, b=4, grids="shifted"), 5000)[:, 0]
    assert_uniform([tuple(row) for row in rows.tolist()], permutations(range(4)))


def cycle_lengths(order):
    lengths, seen = set(), set()
    for start in order:
        before = len(seen)
        while start not in seen:
            seen.add(start)
            start = order[start]
        lengths |= {len(seen) - before} - {0}
    return lengths


def test_large_grids_differ_from_the_shifted_ones_that_they_start_from():
    """A shift permutes a row in cycles of one length, as few permutations do."""
    alike = {}
    for grids in ("all", "shifted"):
        orders = [
            grid[0].argsort()[grid[1]].tolist()  # where row 0 has the digits of row 1
            for grid in draw_grids(Sudoku(a=4, b=4, grids=grids), 100)
        ]
        alike[grids] = sum(len(cycle_lengths(order)) == 1 for order in orders)
    assert alike["shifted"] == 100 and alike["all"] < 30


# graph


@pytest.mark.parametrize("a, b", [(1, 2), (2, 3), (3, 2), (3, 3)])
def test_cells_are_linked_that_share_a_row_a_column_or_a_block(a, b):
    n = a * b
    links = {
        (("cells", *one), ("cells", *two))
        for group in groups(a, b)
        for one, two in product(group, repeat=2)
    }
    expected = symmetric_with_loops({"cells": (n, n)}, links)
    assert attention_links(Sudoku(a=a, b=b).graphical_model()) == expected


# clues


@pytest.mark.parametrize("mode", ["roles", "mixed"])
def test_the_number_of_clues_is_uniform_from_none_to_all_except_one(mode):
    masks = Sudoku(a=2, b=2).observe_batch(3200, seeded(), mode)["cells"]
    assert_uniform(masks.sum((1, 2)).tolist(), range(16))


@pytest.mark.parametrize("clues", [0, 1, 7, 15])
def test_a_fixed_number_of_clues_is_at_random_cells(clues):
    masks = Sudoku(a=2, b=2, clues=clues).observe_batch(2000, seeded())["cells"]
    assert (masks.sum((1, 2)) == clues).all()
    p = clues / 16
    assert (masks.float().mean(0) - p).abs().max() <= 4.5 * (p * (1 - p) / 2000) ** 0.5


def test_clues_depend_on_the_generator_alone(untouched_random_state):
    problem = Sudoku(a=2, b=2)
    masks = [problem.observe_batch(5, seeded(seed))["cells"] for seed in (0, 0, 1)]
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])


# solutions


def test_solutions_of_4x4_puzzles_are_counted_as_by_brute_force():
    grids, rng = np.array(all_grids(2, 2)), np.random.default_rng(0)
    counted = []
    for _ in range(300):
        clues = np.full((4, 4), -1)
        given = rng.random((4, 4)) < rng.random()
        digits = grids[rng.integers(len(grids))] if rng.random() < 0.8 else None
        clues[given] = rng.integers(4, size=16)[: given.sum()]
        if digits is not None:
            clues[given] = digits[given]
        fits = ((grids == clues) | (clues < 0)).all((1, 2)).sum()
        before = clues.copy()
        counted.append(count_solutions(clues, 2, 2, most_tries=10_000))
        assert counted[-1] == min(fits, 2)
        assert (clues == before).all()
    assert set(counted) == {0, 1, 2}


def test_a_puzzle_of_17_clues_has_one_solution_and_many_with_16():
    text = (
        "000000010400000000020000000000050407008000300"
        "001090000300400200050100000000806000"
    )
    clues = np.array([int(digit) - 1 for digit in text]).reshape(9, 9)
    assert (clues >= 0).sum() == 17
    assert count_solutions(clues, 3, 3, most_tries=10**6) == 1
    for place in np.argwhere(clues >= 0):
        fewer = clues.copy()
        fewer[tuple(place)] = -1
        assert count_solutions(fewer, 3, 3, most_tries=10**6) == 2


def test_a_search_that_gives_up_counts_nothing():
    empty = np.full((9, 9), -1)
    assert count_solutions(empty, 3, 3, most_tries=80) == 0
    assert count_solutions(empty, 3, 3, most_tries=10_000) == 2
    assert count_solutions(np.full((64, 64), -1), 8, 8, most_tries=10) == 0


# metrics


def test_the_truth_is_valid_and_exact():
    problem = Sudoku(a=3, b=3, clues=75)
    found = [
        problem.metrics(truth, truth, observed)
        for truth, observed in draw_puzzles(problem, 20)
    ]
    assert all(f["valid"] == 1 and f["violations"] == 0 for f in found)
    assert 1.0 in [f["exact"] for f in found]
    assert all(f["exact"] == 1 or math.isnan(f["exact"]) for f in found)


@pytest.mark.parametrize("a, b", [(2, 3), (3, 3)])
def test_violations_are_the_share_of_equal_pairs(a, b):
    problem, n = Sudoku(a=a, b=b), a * b
    pairs = {frozenset(p) for g in groups(a, b) for p in combinations(g, 2)}
    assert (a, b) != (3, 3) or len(pairs) == 810
    shares = []
    for seed in range(50):
        cells = torch.randint(n, (n, n), generator=seeded(seed))
        equal = sum(bool(cells[p] == cells[q]) for p, q in pairs)
        found = problem.metrics({"cells": cells}, {"cells": cells})
        assert found["violations"] == pytest.approx(equal / len(pairs))
        assert found["valid"] == float(equal == 0)
        shares.append(found["violations"])
    assert sum(shares) / 50 == pytest.approx(1 / n, rel=0.1)  # independent digits


def test_a_valid_grid_that_changes_a_clue_is_no_solution():
    problem = Sudoku(a=2, b=3, clues=12)
    ((truth, observed),) = draw_puzzles(problem, 1)
    renamed = {"cells": (truth["cells"] + 1) % 6}
    assert problem.metrics(renamed, truth, observed)["valid"] == 0
    assert problem.metrics(renamed, truth)["valid"] == 1  # there are no clues
    nothing = {"cells": torch.zeros(6, 6, dtype=torch.bool)}
    assert problem.metrics(renamed, truth, nothing)["valid"] == 1


def test_answers_from_the_prior_break_clues():
    problem = Sudoku(a=3, b=3, clues=16)
    guesses = draw_list(problem, 20, seed=2)
    puzzles = draw_puzzles(problem, 20)
    for guess, (truth, observed) in zip(guesses, puzzles, strict=True):
        found = problem.metrics(guess, truth, observed)
        assert found["valid"] == 0 and found["violations"] == 0


def test_exact_counts_only_if_the_solution_is_unique():
    grids = torch.tensor(all_grids(2, 2))
    problem, kinds = Sudoku(a=2, b=2), set()
    for truth, observed in draw_puzzles(problem, 100):
        given = observed["cells"]
        fits = grids[((grids == truth["cells"]) | ~given).all(2).all(1)]
        for guess in (fits[0], truth["cells"], grids[0]):
            exact = problem.metrics({"cells": guess}, truth, observed)["exact"]
            if len(fits) > 1:
                assert math.isnan(exact)
            else:
                assert exact == torch.equal(guess, truth["cells"])
            kinds.add(str(exact))
    assert kinds == {"nan", "0.0", "1.0"}


def test_distinct_counts_different_valid_grids():
    problem = Sudoku(a=2, b=2)
    one, two = torch.tensor(all_grids(2, 2)[:2])
    broken = torch.zeros(4, 4, dtype=torch.long)
    samples = {"cells": torch.stack([one, two, broken, one, broken])}
    assert problem.distinct(samples) == 2
    assert problem.distinct({"cells": broken[None]}) == 0


# picture


def texts_of(ax):
    """The text in each cell, by row and column."""
    return {tuple(map(round, text.get_position()[::-1])): text for text in ax.texts}


def test_the_picture_has_bold_clues_and_red_violations():
    problem = Sudoku(a=2, b=3, clues=10)
    ((truth, observed),) = draw_puzzles(problem, 1)
    cells = truth["cells"].clone()
    hidden = tuple((~observed["cells"]).nonzero()[0].tolist())
    cells[hidden] = (cells[hidden] + 1) % 6
    wrong = {
        place
        for group in groups(2, 3)
        for pair in combinations(group, 2)
        if cells[pair[0]] == cells[pair[1]]
        for place in pair
    }
    figure = problem.plot({"cells": cells}, truth, observed)
    answer, true = figure.axes
    for place, text in texts_of(answer).items():
        assert text.get_text() == str(int(cells[place]) + 1)
        assert (text.get_weight() == "bold") == bool(observed["cells"][place])
        assert (text.get_color() == "red") == (place in wrong)
    assert len(answer.texts) == 36 and hidden in wrong
    for place, text in texts_of(true).items():
        assert text.get_text() == str(int(truth["cells"][place]) + 1)
        assert text.get_color() != "red"


def test_a_changed_clue_is_red_and_without_clues_none_is_bold():
    problem = Sudoku(a=2, b=2, clues=5)
    ((truth, observed),) = draw_puzzles(problem, 1)
    renamed = {"cells": (truth["cells"] + 1) % 4}
    texts = texts_of(problem.plot(renamed, truth, observed).axes[0])
    red = {place for place, text in texts.items() if text.get_color() == "red"}
    assert red == {tuple(place) for place in observed["cells"].nonzero().tolist()}
    for text in problem.plot(renamed, truth).axes[0].texts:
        assert text.get_weight() == "normal" and text.get_color() != "red"


# arguments


def test_a_sudoku_of_one_cell_is_rejected():
    with pytest.raises(ValueError, match=r"two cells or more.*\(got a=1, b=1\)"):
        Sudoku(a=1, b=1)


def test_an_impossible_number_of_clues_is_rejected():
    for clues in (-1, 16, 2.5, "3", True):
        with pytest.raises(ValueError, match=r"clues is .* from 0 to 15 .*\(got "):
            Sudoku(a=2, b=2, clues=clues)


# clues that contradict each other


def clues(problem, digits):
    """`values` and `known` of a grid that is blank except for {cell: digit}."""
    values = torch.zeros(problem.n, problem.n, dtype=torch.double)
    known = torch.zeros(problem.n, problem.n, dtype=torch.bool)
    for cell, digit in digits.items():
        values[cell], known[cell] = digit, True
    return {"cells": values}, {"cells": known}


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [((1, 0), (1, 7), "row"), ((0, 2), (8, 2), "column"), ((3, 4), (5, 3), "block")],
)
def test_clues_that_repeat_a_digit_are_refused_by_their_cells(first, second, shared):
    problem = Sudoku()
    problem.check_given(*clues(problem, {first: 4, second: 5}))
    with pytest.raises(ValueError) as caught:
        problem.check_given(*clues(problem, {first: 4, second: 4, (8, 8): 1}))
    message = str(caught.value)
    assert f"cells {first} and {second} share a {shared}" in message
    assert message.endswith("(got 4 in both).")


def test_zeros_for_blank_cells_are_refused_with_what_to_write_instead():
    problem = Sudoku()
    values = {"cells": torch.zeros(9, 9)}
    values["cells"][0, 0] = 5
    known = {"cells": torch.ones(9, 9, dtype=torch.bool)}
    with pytest.raises(ValueError, match=r"0\.\.8 here, NaN.*0 does not mean blank"):
        problem.check_given(values, known)


def test_blank_cells_and_complete_grids_contradict_nothing():
    problem, everywhere = Sudoku(a=2, b=3), torch.ones(6, 6, dtype=torch.bool)
    problem.check_given({}, {"cells": ~everywhere})
    problem.check_given({"cells": torch.zeros(6, 6)}, {"cells": ~everywhere})
    for _ in range(5):
        problem.check_given(problem.sample(), {"cells": everywhere})


def test_clues_of_many_puzzles_are_checked_together():
    problem = Sudoku()
    fine, wrong = clues(problem, {(0, 0): 1}), clues(problem, {(0, 0): 1, (0, 1): 1})
    values, known = (
        {"cells": torch.stack([first["cells"], second["cells"]])}
        for first, second in zip(fine, wrong, strict=True)
    )
    with pytest.raises(ValueError, match="clues of puzzle 1 contradict"):
        problem.check_given(values, known)


def test_a_sudoku_has_blocks_of_three_by_three_by_default():
    assert Sudoku() == Sudoku(a=3, b=3) and Sudoku().n == 9
