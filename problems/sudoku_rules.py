"""What the rules of Sudoku imply at once: the digits that are left to each cell.

Grids are flat arrays of N^2 digits 0..N-1 and -1 where a cell is empty, as in
`problems.sudoku_grids`. Digits that are left are the bits of an integer.
"""

import numpy as np
from numba import njit

from problems.sudoku_search import groups_of

MOST_DIGITS = 62  # that fit into the bits of an integer


def remaining_digits(cells: np.ndarray, a: int, b: int) -> np.ndarray:
    """The digits left to each cell of S grids [S, N^2], once all singles are filled in.

    A cell with one digit left has that digit, and so has the only cell of a row, column
    or block where a digit can go. Filled cells have their own digit left. In a grid
    that contradicts itself some cell has none.

    Args:
        cells: The grids, [S, N^2].
        a: Rows of a block.
        b: Columns of a block.
    """
    return _remaining(cells.astype(np.int64), groups_of(a, b), a * b)


@njit(cache=True)
def _remaining(cells, groups, n):
    left = np.empty(cells.shape, np.int64)
    for i in range(len(cells)):
        while _fill_singles(cells[i], groups, n, left[i]):
            pass
    return left


@njit(cache=True)
def _fill_singles(cells, groups, n, left):
    """Find what is left to each cell and fill in singles; whether there were any."""
    used = np.zeros(3 * n, np.int64)  # the digits of each group, as bits
    for cell in range(n * n):
        if cells[cell] >= 0:
            for group in groups[cell]:
                if used[group] >> cells[cell] & 1:
                    left[:] = 0  # a digit twice
                    return False
                used[group] |= 1 << cells[cell]
    once = np.zeros(3 * n, np.int64)  # digits that have one cell left in a group
    more = np.zeros(3 * n, np.int64)  # digits that have several
    every = (1 << n) - 1
    for cell in range(n * n):
        if cells[cell] >= 0:
            left[cell] = 1 << cells[cell]
            continue
        row, column, block = groups[cell]
        left[cell] = every & ~(used[row] | used[column] | used[block])
        if left[cell] == 0:
            left[:] = 0
            return False
        for group in groups[cell]:
            more[group] |= once[group] & left[cell]
            once[group] |= left[cell]
    for group in range(3 * n):
        if used[group] | once[group] != every:
            left[:] = 0  # a digit has no cell
            return False
        once[group] &= ~more[group]
    found = False
    for cell in range(n * n):
        if cells[cell] >= 0:
            continue
        row, column, block = groups[cell]
        single = left[cell] & (once[row] | once[column] | once[block])
        if left[cell] & (left[cell] - 1) == 0:
            single = left[cell]
        if single:
            digit = 0
            while not single >> digit & 1:
                digit += 1
            if single != 1 << digit:
                left[:] = 0  # two digits have only this cell
                return False
            cells[cell] = digit
            found = True
    return found
