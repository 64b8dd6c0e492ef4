"""Whether a solution is right: plain numpy, apart from what problems say themselves.

`given` and `solution` are named arrays of one instance, NaN where nothing is given.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

EXACT = 0.01  # RMSE below which a factorization is exact
ROUNDING = 1e-6  # of bounds in single precision

Arrays = Mapping[str, ArrayLike]


def solves_sudoku(given: Arrays, solution: Arrays, a: int = 3, b: int = 3) -> bool:
    """The clues are kept, and each row, column and block has every digit."""
    clues, cells = np.asarray(given["cells"]), np.asarray(solution["cells"])
    n = a * b
    if cells.shape != (n, n) or not (np.isnan(clues) | (clues == cells)).all():
        return False
    blocks = cells.reshape(b, a, a, b).swapaxes(1, 2).reshape(n, n)
    groups = np.concatenate([cells, cells.T, blocks])
    return bool((np.sort(groups, 1) == np.arange(n)).all())


def factorization_error(given: Arrays, solution: Arrays) -> float:
    """RMSE of E - A R; infinite unless A is in [0, 1] and R binary."""
    A, R = (np.asarray(solution[name], np.double) for name in "AR")
    bounded = (A >= -ROUNDING).all() and (A <= 1 + ROUNDING).all()
    if not (np.isin(R, (0, 1)).all() and bounded):
        return np.inf
    return rmse(np.asarray(given["E"], np.double), A @ R)


def sorts(given: Arrays, solution: Arrays) -> bool:
    """P is a permutation matrix and P u is non-decreasing."""
    P, u = np.asarray(solution["P"]), np.asarray(given["u"])
    binary = P.shape == (len(u), len(u)) and np.isin(P, (0, 1)).all()
    if not (binary and (P.sum(0) == 1).all() and (P.sum(1) == 1).all()):
        return False
    return bool((np.diff(u[P.argmax(1)]) >= 0).all())


def equation_error(given: Arrays, solution: Arrays) -> float:
    """RMSE of E - A R for given A and E."""
    A, E = (np.asarray(given[name], np.double) for name in "AE")
    return rmse(E, A @ np.asarray(solution["R"], np.double))


def rmse(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.square(x - y).mean()))
