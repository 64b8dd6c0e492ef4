"""Complete Sudoku grids, drawn at random, and the search for solutions of a puzzle.

A grid has N = a b rows in b bands of a, and N columns in a stacks of b. In this module
it is a flat array of N^2 digits 0..N-1; its rows, columns and blocks are 3 N groups.
"""

import numpy as np
from numba import njit

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

    With `from_all` a randomised search finds a grid. Above a side of 9, where the
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
    cells, groups = _shifted_rows(a, b), _groups(a, b)
    if from_all:
        if n <= SEARCHED:
            cells[:] = -1
            _search(cells, groups, n, 1, np.iinfo(np.int64).max, state)
        for _ in range(SWITCHES * n * (a + b - 2) // 2):
            kind = _below(a + b - 1, state)
            if kind == 0:
                _switch_digits(cells, groups, n, state)
            else:
                _switch_lines(cells, a, b, kind < a, state)
    digits = _permutation(n, state)
    rows = _line_order(b, a, True, state)
    columns = _line_order(a, b, from_all, state)
    transposed = from_all and a == b and _below(2, state) == 1
    grid = np.empty((n, n), np.int64)
    for i in range(n):
        for j in range(n):
            digit = digits[cells[rows[i] * n + columns[j]]]
            if transposed:
                grid[j, i] = digit
            else:
                grid[i, j] = digit
    return grid


def count_solutions(clues: np.ndarray, a: int, b: int, most_tries: int) -> int:
    """The solutions of a puzzle [N, N], -1 where a cell is empty, counted up to 2.

    Args:
        clues: The puzzle.
        a: Rows of a block.
        b: Columns of a block.
        most_tries: Give up after trying this many digits, and return 0.
    """
    if a * b > 62:  # too many digits for the bits of an integer
        return 0
    cells = clues.astype(np.int64).reshape(-1)
    state = np.zeros(1, np.uint64)
    return _search(cells, _groups(a, b), a * b, 2, most_tries, state)


@njit(cache=True)
def _search(cells, groups, n, limit, most_tries, state):
    """Count solutions up to `limit`; the last one is left in `cells` (-1: empty).

    Depth first: the next cell is the open one with the fewest candidates, and its
    digits are tried in random order. Returns 0 after `most_tries` digits.
    """
    used = np.zeros(3 * n, np.int64)  # the digits of each group, as bits
    open_cells = np.empty(len(cells), np.int64)
    num_open = 0
    for cell in range(len(cells)):
        if cells[cell] < 0:
            open_cells[num_open] = cell
            num_open += 1
        elif _candidates(used, groups[cell]) >> cells[cell] & 1:
            _toggle(used, groups[cell], cells[cell])
        else:
            return 0  # two clues conflict
    if num_open == 0:
        return 1
    options = np.empty(num_open, np.int64)  # untried digits at each depth, as bits
    depth = found = tries = 0
    options[0] = _tightest(open_cells, depth, num_open, used, groups)
    while depth >= 0 and tries < most_tries:
        cell = open_cells[depth]
        if cells[cell] >= 0:  # undo what was tried before
            _toggle(used, groups[cell], cells[cell])
            cells[cell] = -1
        if options[depth] == 0:
            depth -= 1
            continue
        tries += 1
        cells[cell] = _pick(options[depth], state)
        options[depth] ^= 1 << cells[cell]
        _toggle(used, groups[cell], cells[cell])
        if depth + 1 < num_open:
            depth += 1
            options[depth] = _tightest(open_cells, depth, num_open, used, groups)
        else:
            found += 1
            if found == limit:
                return found
    return found if depth < 0 else 0


@njit(cache=True)
def _tightest(open_cells, depth, num_open, used, groups):
    """Move the open cell with the fewest candidates to `depth`; return those."""
    best, fewest, where = 0, len(used), depth
    for k in range(depth, num_open):
        candidates = _candidates(used, groups[open_cells[k]])
        count, rest = 0, candidates
        while rest and count < fewest:
            rest &= rest - 1
            count += 1
        if count < fewest:
            best, fewest, where = candidates, count, k
            if count < 2:
                break
    open_cells[depth], open_cells[where] = open_cells[where], open_cells[depth]
    return best


@njit(cache=True)
def _candidates(used, groups):
    """The digits that the row, column and block of a cell leave free, as bits."""
    every = (1 << len(used) // 3) - 1
    return every & ~(used[groups[0]] | used[groups[1]] | used[groups[2]])


@njit(cache=True)
def _toggle(used, groups, digit):
    """Add a digit to the row, column and block of a cell, or remove it."""
    for group in groups:
        used[group] ^= 1 << digit


@njit(cache=True)
def _pick(bits, state):
    """The index of a random 1 among the bits, all equally likely."""
    count, rest = 0, bits
    while rest:
        rest &= rest - 1
        count += 1
    skipped, bit = _below(count, state), 0
    while skipped > 0 or not bits >> bit & 1:
        skipped -= bits >> bit & 1
        bit += 1
    return bit


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
    group, place = _below(n // size, state) * size, _below(n, state)
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
    pending[0] = place[0, _below(n, state)]
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
def _groups(a, b):
    """The numbers [N^2, 3] of each cell's row, column and block among the groups."""
    n = a * b
    groups = np.empty((n * n, 3), np.int64)
    for cell in range(n * n):
        row, column = cell // n, cell % n
        groups[cell, 0] = row
        groups[cell, 1] = n + column
        groups[cell, 2] = 2 * n + row // a * a + column // b
    return groups


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
    order = _permutation(num_groups, state) if move_groups else np.arange(num_groups)
    lines = np.empty((num_groups, size), np.int64)
    for k in range(num_groups):
        inner = _permutation(size, state)
        for i in range(size):
            lines[k, i] = order[k] * size + inner[i]
    return lines.reshape(-1)


@njit(cache=True)
def _permutation(n, state):
    """0..n-1 in random order."""
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = _below(i + 1, state)
        order[i], order[j] = order[j], order[i]
    return order


@njit(cache=True)
def _two_below(n, state):
    """Two different random numbers in 0..n-1."""
    one = _below(n, state)
    return one, (one + 1 + _below(n - 1, state)) % n


@njit(cache=True)
def _below(n, state):
    """A random number in 0..n-1, by SplitMix64, whose state is one integer."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ z >> np.uint64(31)) % np.uint64(n))
