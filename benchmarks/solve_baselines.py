"""What `python -m benchmarks.solve` compares with: no model, or classical methods."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numba import njit

from benchmarks.solve_checks import EXACT, rmse

ONES = 0.3  # chance of a 1 in R
NMF_SWEEPS = 300
LEAST_SQUARES_SWEEPS = 300
MOST_ALTERNATIONS = 100

Attempt = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]


def propagate(clues: np.ndarray, a: int = 3, b: int = 3) -> np.ndarray:
    """Fill in [N, N] what follows from single cells and groups; the rest stays NaN.

    A digit is certain where a cell has no other candidate, or where no other cell of a
    row, column or block can have it.
    """
    n = a * b
    cells = np.where(np.isnan(clues), -1, clues).astype(np.int64)
    row, column = np.indices((n, n))
    member = np.stack([row, column, row // a * a + column // b])
    masks = np.concatenate([group == np.arange(n)[:, None, None] for group in member])
    while True:
        possible = np.repeat(cells[None] < 0, n, 0)  # [digit, N, N]
        for mask in masks:
            digits = cells[mask]
            possible[digits[digits >= 0]] &= ~mask
        certain = possible & (possible.sum(0) == 1)
        for mask in masks:
            inside = possible & mask
            certain |= inside & (inside.sum((1, 2), keepdims=True) == 1)
        if not certain.any():
            return np.where(cells < 0, np.nan, cells)
        digits = certain.argmax(0)
        cells = np.where(certain.any(0), digits, cells)


def factorize(
    attempt: Attempt, E: np.ndarray, k: int, seconds: float, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """The best A, R of as many attempts as fit into core-seconds, and their number.

    Ends early once a factorization is exact. There is one attempt at least.
    """
    rng, start = np.random.default_rng(seed), time.process_time()
    best, attempts, error = (np.empty(0), np.empty(0)), 0, np.inf
    while attempts == 0 or (error >= EXACT and time.process_time() < start + seconds):
        R = attempt(E, k, rng)
        A = bounded_least_squares(E, R)
        attempts += 1
        if rmse(E, A @ R) < error:
            best, error = (A, R), rmse(E, A @ R)
    return *best, attempts


def nmf_attempt(E: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """R [k, n] by non-negative matrix factorization, cut at half of a row's maximum."""
    W, H = rng.random((len(E), k)), rng.random((k, E.shape[1]))
    H = _nmf(np.asarray(E, np.double), W, H, NMF_SWEEPS)
    return (H.max(1, keepdims=True) < 2 * H).astype(np.double)


def alternation_attempt(E: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """R [k, n] from a random start: the best A given R, then the best R given A, ..."""
    codes = np.indices((2,) * k).reshape(k, -1).astype(np.double)  # [k, 2^k]
    R = (rng.random((k, E.shape[1])) < ONES).astype(np.double)
    for _ in range(MOST_ALTERNATIONS):
        products = bounded_least_squares(E, R) @ codes  # [m, 2^k]
        errors = np.square(products).sum(0)[:, None] - 2 * products.T @ E  # [2^k, n]
        better = codes[:, errors.argmin(0)]
        if (better == R).all():
            break
        R = better
    return R


def bounded_least_squares(E: np.ndarray, R: np.ndarray) -> np.ndarray:
    """A [m, k] in [0, 1] that minimizes |E - A R|^2, by coordinate descent."""
    start = np.full((len(E), len(R)), 0.5)
    gram, target = R @ R.T, np.asarray(E, np.double) @ R.T
    return _descend(start, gram, target, 1.0, LEAST_SQUARES_SWEEPS)


@njit(cache=True)
def _nmf(E, W, H, sweeps):
    """H of E = W H for non-negative W and H, by coordinate descent in turns."""
    for _ in range(sweeps):
        W = _descend(W, H @ H.T, E @ H.T, np.inf, 1)
        H = _descend(H.T, W.T @ W, E.T @ W, np.inf, 1).T.copy()
    return H


@njit(cache=True)
def _descend(X, gram, target, bound, sweeps):
    """Minimize tr(X gram X^T) / 2 - tr(X target^T) over X [m, k] in [0, bound]."""
    X = X.copy()
    for _ in range(sweeps):
        moved = 0.0
        for j in range(len(gram)):
            if gram[j, j] > 0:
                for i in range(len(X)):
                    slope = target[i, j]
                    for other in range(len(gram)):
                        slope -= X[i, other] * gram[other, j]
                    value = min(max(X[i, j] + slope / gram[j, j], 0.0), bound)
                    moved = max(moved, abs(value - X[i, j]))
                    X[i, j] = value
        if moved < 1e-7:
            break
    return X
