"""The exact search for the solutions of a Sudoku puzzle, and its random numbers.

Compiled code has a puzzle as a flat array of N^2 digits 0..N-1, -1 where a cell is
empty, for the N = a b rows in b bands of a and N columns in a stacks of b.
"""

import numpy as np
from numba import njit

LARGEST = 62  # side, as digits are bits of an integer
NO_LIMIT = np.iinfo(np.int64).max  # of the digits to try


def count_solutions(clues: np.ndarray, a: int, b: int, most_tries: int) -> int:
    """The solutions of a puzzle [N, N], -1 where a cell is empty, counted up to 2.

    Args:
        clues: The puzzle.
        a: Rows of a block.
        b: Columns of a block.
        most_tries: Give up after trying this many digits, and return 0.
    """
    if a * b > LARGEST:
        return 0
    return max(0, _search_puzzle(clues, a, b, 2, most_tries)[1])


def list_solutions(clues: np.ndarray, a: int, b: int, limit: int) -> np.ndarray:
    """The solutions [D, N, N] of a puzzle [N, N], the first `limit` that are found.

    Args:
        clues: The puzzle, -1 where a cell is empty; N is 62 at most.
        a: Rows of a block.
        b: Columns of a block.
        limit: The search stops after this many.
    """
    found, num = _search_puzzle(clues, a, b, limit, NO_LIMIT)
    return found[:num].reshape(-1, a * b, a * b)


def solve(clues: np.ndarray, a: int, b: int, most_tries: int, seed: int) -> np.ndarray:
    """A solution [N, N] of a puzzle, -1 where a cell is empty, by exact search.

    If the search gives up, or finds that there is none, it is the puzzle itself.

    Args:
        clues: The puzzle.
        a: Rows of a block.
        b: Columns of a block.
        most_tries: Give up after trying this many digits.
        seed: Chooses among several solutions, not all of them equally likely.
    """
    found, state = np.empty((1, clues.size), np.int64), np.array([seed], np.uint64)
    cells = clues.astype(np.int64).reshape(-1)
    solved = search(cells, groups_of(a, b), found, most_tries, state) == 1
    return found.reshape(clues.shape) if solved else clues


def _search_puzzle(clues, a, b, limit, most_tries):
    """The places for `limit` solutions [limit, N^2], and what `search` returns."""
    found, state = np.empty((limit, clues.size), np.int64), np.zeros(1, np.uint64)
    cells = clues.astype(np.int64).reshape(-1)
    return found, search(cells, groups_of(a, b), found, most_tries, state)


@njit(cache=True)
def search(cells, groups, found, most_tries, state):
    """Find solutions [D, N^2] until `found` is full; return D, or -1 if it gave up.

    Depth first: the next cell is the open one with the fewest candidates, and its
    digits are tried in random order. Gives up after `most_tries` digits. `cells` is
    afterwards what it was.
    """
    n = groups[-1, 0] + 1
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
        found[0] = cells
        return 1
    options = np.empty(num_open, np.int64)  # untried digits at each depth, as bits
    depth = num_found = tries = 0
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
            found[num_found] = cells
            num_found += 1
            if num_found == len(found):
                break
    cells[open_cells[:num_open]] = -1
    return num_found if depth < 0 or num_found == len(found) else -1


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
    skipped, bit = below(count, state), 0
    while skipped > 0 or not bits >> bit & 1:
        skipped -= bits >> bit & 1
        bit += 1
    return bit


@njit(cache=True)
def groups_of(a, b):
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
def permutation(n, state):
    """0..n-1 in random order."""
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = below(i + 1, state)
        order[i], order[j] = order[j], order[i]
    return order


@njit(cache=True)
def below(n, state):
    """A random number in 0..n-1, by SplitMix64, whose state is one integer."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ z >> np.uint64(31)) % np.uint64(n))
