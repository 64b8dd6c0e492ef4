"""Complete Sudoku grids, drawn at random.

A grid has N = a b rows in b bands of a, and N columns in a stacks of b. In this module
it is a flat array of N^2 digits 0..N-1; its rows, columns and blocks are 3 N groups.
"""

import numpy as np
from numba import njit

from problems.sudoku_search import NO_LIMIT, below, groups_of, permutation, search

SEARCHED = 9  # the largest side for which a search from an empty grid is fast
SWITCHES = 8  # per pair of rows of a band, or of columns of a stack


@njit(cache=True)
def draw_grids(a: int, b: int, from_all: bool, seeds: np.ndarray) -> np.ndarray:
    """Complete grids [num, N, N], one for each of `num` seeds, see `draw_grid`."""
    grids = np.empty((len(seeds), a * b, a * b), np.int64)
    for k, seed in enumerate(seeds):
        grids[k] = draw_grid(a, b, from_all, seed)
    return grids


@njit(cache=True)
def draw_grid(a: int, b: int, from_all: bool, seed: int) -> np.ndarray:
    """A complete grid [N, N].

    Without `from_all` it is one of the paper's: each row is the first one shifted, by b
    from row to row of a band and by 1 from band to band. Then the digits, the bands,
    the rows of each band and the columns of each stack are permuted at random.

    With `from_all` a randomized search finds a grid. Above a side of 9, where the
    search can be slow, it starts from the shifted grid instead. Then it applies random
    switches, see `_switch_lines` and `_switch_digits`, and all symmetries of the rules.

    How close to uniform that is: the search can reach every grid, but not with equal
    probability. A switch and its reverse are equally likely, so switches preserve the
    uniform distribution and move no other further away from it. The counts of all 4x4
    and 6x6 grids show no deviation (chi-squares: `python -m benchmarks.sudoku_grids`),
    nor do patterns of 9x9 grids (compared with exactly uniform ones in
    tests/problems/test_sudoku.py). Larger sides are not measured.
    """
    n, state = a * b, np.array([seed], np.uint64)
    cells, groups = _shifted_rows(a, b), groups_of(a, b)
    if from_all:
        if n <= SEARCHED:
            cells[:] = -1
            found = np.empty((1, n * n), np.int64)
            search(cells, groups, found, NO_LIMIT, state)
            cells = found[0]
        for _ in range(SWITCHES * n * (a + b - 2) // 2):
            kind = below(a + b - 1, state)
            if kind == 0:
                _switch_digits(cells, groups, n, state)
            else:
                _switch_lines(cells, a, b, kind < a, state)
    digits = permutation(n, state)
    rows = _line_order(b, a, True, state)
    columns = _line_order(a, b, from_all, state)
    transposed = from_all and a == b and below(2, state) == 1
    grid = np.empty((n, n), np.int64)
    for i in range(n):
        for j in range(n):
            digit = digits[cells[rows[i] * n + columns[j]]]
            if transposed:
                grid[j, i] = digit
            else:
                grid[i, j] = digit
    return grid


@njit(cache=True)
def _switch_lines(cells, a, b, in_band, state):
    """Exchange two rows of a band along one cycle, or two columns of a stack.

    Swap the two digits at a random place of the lines. The first line may now have a
    digit twice: swap at the place where it had that digit before, and so on until it
    has none twice. Every group keeps its digits.
    """
    n = a * b
    size, stride, step = (a, n, 1) if in_band else (b, 1, n)
    one, other = _two_below(size, state)
    group, place = below(n // size, state) * size, below(n, state)
    first, second = (group + one) * stride, (group + other) * stride
    last = cells[first + place * step]
    while True:
        i, j = first + place * step, second + place * step
        cells[i], cells[j] = cells[j], cells[i]
        if cells[i] == last:
            return
        swapped, place = place, 0
        while place == swapped or cells[first + place * step] != cells[i]:
            place += 1


@njit(cache=True)
def _switch_digits(cells, groups, n, state):
    """Exchange two digits in one connected component of the cells that have them.

    The cells with these two digits are nodes; two are linked if they share a group. The
    component is that of a random cell with the first digit. It has both cells of a
    group or neither, so every group keeps its digits.
    """
    one, other = _two_below(n, state)
    place = np.empty((2, 3 * n), np.int64)  # the cell of each digit in each group
    for cell in range(len(cells)):
        if cells[cell] == one or cells[cell] == other:
            for group in groups[cell]:
                place[int(cells[cell] == other), group] = cell
    pending = np.empty(2 * n, np.int64)
    pending[0] = place[0, below(n, state)]
    cells[pending[0]] = other
    num_pending = 1
    while num_pending > 0:
        num_pending -= 1
        cell = pending[num_pending]
        for group in groups[cell]:
            partner = place[int(cells[cell] == other), group]
            if cells[partner] == cells[cell]:  # not exchanged yet
                cells[partner] = one + other - cells[cell]
                pending[num_pending] = partner
                num_pending += 1


@njit(cache=True)
def _shifted_rows(a, b):
    """The grid of 0..N-1 shifted by b from row to row and by 1 from band to band."""
    n = a * b
    cells = np.empty(n * n, np.int64)
    for i in range(n):
        for j in range(n):
            cells[i * n + j] = (j + i % a * b + i // a) % n
    return cells


@njit(cache=True)
def _line_order(num_groups, size, move_groups, state):
    """An order of num_groups * size lines that keeps the lines of a group together."""
    order = permutation(num_groups, state) if move_groups else np.arange(num_groups)
    lines = np.empty((num_groups, size), np.int64)
    for k in range(num_groups):
        inner = permutation(size, state)
        for i in range(size):
            lines[k, i] = order[k] * size + inner[i]
    return lines.reshape(-1)


@njit(cache=True)
def _two_below(n, state):
    """Two different random numbers in 0..n-1."""
    one = below(n, state)
    return one, (one + 1 + below(n - 1, state)) % n
