"""Simultaneous bands of an empirical distribution function, and the test they make.

Säilynoja, Bürkner and Vehtari (2022): the pointwise binomial bands of level gamma, all
at once, contain the ECDF of N uniform values with a probability that a recursion over
the bins gives exactly.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import binom, poisson
from torch import Tensor


def ecdf_pvalue(counts: Tensor) -> float:
    """The exact p-value of the counts [K] of N values in K equally likely bins.

    The statistic is the smallest tail probability of the ECDF at any edge of a bin:

        T = min_k 2 min(P(R <= R_k), P(R >= R_k)),   R ~ Binomial(N, k / K),

    with R_k values below edge k. The p-value is P(T <= its observed value).
    """
    num_bins, num = len(counts), int(counts.sum())
    if num == 0 or num_bins < 2:
        return 1.0
    below = counts.cumsum(0)[:-1].numpy()
    share = np.arange(1, num_bins) / num_bins
    lower, upper = binom.cdf(below, num, share), binom.sf(below - 1, num, share)
    gamma = 2 * float(np.minimum(lower, upper).min())
    gamma *= 1 + 1e-9  # rounding may only raise the p-value
    inside = _probability_inside(num, num_bins, *_pointwise(num, num_bins, gamma))
    return min(max(1 - inside, 0.0), 1.0)


def uniform_counts(u: Tensor, num_bins: int) -> Tensor:
    """How many of the values u [N] of [0, 1] are in each of K equal bins, [K]."""
    bins = (u * num_bins).long().clamp(0, num_bins - 1)
    return bins.bincount(minlength=num_bins)


@lru_cache(maxsize=256)
def ecdf_band(
    num: int, num_bins: int, coverage: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Fewest and most of N uniform values below each of the K - 1 inner edges of bins.

    The ECDF of exactly uniform values is inside at all edges at once with at least this
    probability.

    Args:
        num: N, how many values.
        num_bins: K, how many bins of [0, 1].
        coverage: The probability.
    """
    high = 1.0 - coverage
    low = high / num_bins  # Bonferroni's level
    for _ in range(30):
        gamma = (low + high) / 2
        edges = _pointwise(num, num_bins, gamma)
        if _probability_inside(num, num_bins, *edges) >= coverage:
            low = gamma
        else:
            high = gamma
    return _pointwise(num, num_bins, low)


def _pointwise(num: int, num_bins: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Where each R_k has both tail probabilities above gamma / 2."""
    share = np.arange(1, num_bins) / num_bins
    return (
        binom.ppf(gamma / 2, num, share).astype(int),
        binom.isf(gamma / 2, num, share).astype(int),
    )


def _probability_inside(
    num: int, num_bins: int, lower: np.ndarray, upper: np.ndarray
) -> float:
    """P(lower_k <= R_k <= upper_k for all k) of N uniform values in K bins.

    Counts of bins are independent Poisson variables, given that their sum is N.
    """
    rate = num / num_bins
    pmf = poisson.pmf(np.arange(num + 1), rate)
    pmf = pmf[: np.flatnonzero(pmf > 0)[-1] + 1]
    state, first = np.ones(1), 0  # the weights of R = first, first + 1, ...
    for low, high in zip([*lower, num], [*upper, num], strict=True):
        state = np.convolve(state, pmf)
        start, stop = max(low - first, 0), high - first + 1
        state, first = state[start:stop], first + start
        if not len(state):
            return 0.0
    return float(state.sum() / poisson.pmf(num, num))
