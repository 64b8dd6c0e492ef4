"""Many tests at one level: Holm's correction of p-values (1979)."""

from __future__ import annotations

from collections.abc import Sequence


def holm(pvalues: Sequence[float]) -> list[float]:
    """Adjusted p-values: rejecting those below alpha is wrong with probability alpha.

    That is the probability of any wrong rejection, however the tests depend on each
    other.
    """
    order = sorted(range(len(pvalues)), key=lambda i: pvalues[i])
    adjusted, largest = [1.0] * len(pvalues), 0.0
    for passed, i in enumerate(order):
        largest = max(largest, min(1.0, (len(pvalues) - passed) * pvalues[i]))
        adjusted[i] = largest
    return adjusted
