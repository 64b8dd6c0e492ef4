"""Tests by exchange: the truth is one of S + 1 draws, and any of them could be it.

For an exact sampler the truth and its S samples, a row [S + 1] with the truth first,
are exchangeable. So a row without its order is all that a statistic of the truth
depends on, and picking one draw of each row at random gives its exact distribution.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

_BLOCK = 4_000_000  # picks at once, to bound memory


def standard_scores(draws: Tensor) -> Tensor:
    """Rows [N, S + 1] with mean 0 and mean square 1; constant rows become 0."""
    centered = draws - draws.mean(1, keepdim=True)
    scale = centered.square().mean(1, keepdim=True).sqrt()
    return torch.where(scale > 0, centered / scale, 0.0)


def sum_pvalue(
    scores: Tensor, num_resamples: int, generator: torch.Generator | None = None
) -> float:
    """Two-sided p-value of the sum of the truths' scores.

    Args:
        scores: One per draw, [N, S + 1], the truth first.
        num_resamples: How often to pick at random; more make smaller p-values possible.
        generator: Source of randomness.
    """
    observed = scores[:, 0].sum()
    null = torch.cat(
        [picked.sum(1) for picked in _picks(scores, num_resamples, generator)]
    )
    margin = 1e-9 * (1 + observed.abs())  # equal sums stay equal, whatever the order
    above = _pvalue(null >= observed - margin)
    below = _pvalue(null <= observed + margin)
    return min(2 * min(above, below), 1.0)


def dependence_pvalue(
    scores: Tensor,
    features: Tensor,
    num_resamples: int,
    generator: torch.Generator | None = None,
) -> float:
    """p-value of a linear dependence of the truths' scores on features of the evidence.

    The statistic is the squared length of the scores [N] projected onto the columns of
    the features. It finds evidence that a sampler ignores.

    Args:
        scores: `standard_scores` of the draws, [N, S + 1], the truth first.
        features: Functions of what is known, [N, F].
        num_resamples: How often to pick at random.
        generator: Source of randomness.
    """
    centered = features.double() - features.double().mean(0)
    length = centered.norm(dim=0)
    varying = length > 1e-9 * len(features) ** 0.5
    if not varying.any():
        return 1.0
    left, singular, _ = torch.linalg.svd(
        centered[:, varying] / length[varying], full_matrices=False
    )
    basis = left[:, singular > 1e-6 * singular[0]]
    observed = (scores[:, 0] @ basis).square().sum()
    null = torch.cat(
        [
            (picked @ basis).square().sum(1)
            for picked in _picks(scores, num_resamples, generator)
        ]
    )
    return _pvalue(null >= observed * (1 - 1e-9))


def cells_pvalue(
    cells: Tensor,
    num_resamples: int,
    generator: torch.Generator | None = None,
) -> float:
    """p-value of how many truths are in each of several cells.

    The statistic is sum_c (O_c - E_c)^2 / (V_c + 1), with mean and variance given rows.

    Args:
        cells: The cell of each draw, integers [N, S + 1], the truth first.
        num_resamples: How often to pick at random.
        generator: Source of randomness.
    """
    names, cells = cells.unique(return_inverse=True)
    shares = torch.stack(
        [(cells == c).double().mean(1) for c in range(len(names))]
    )  # [cells, N]
    expected, variance = shares.sum(1), (shares * (1 - shares)).sum(1)

    def statistic(picked: Tensor) -> Tensor:
        counts = torch.stack([(picked == c).sum(1) for c in range(len(names))], 1)
        return ((counts - expected).square() / (variance + 1)).sum(1)

    observed = statistic(cells[:, 0][None])[0]
    null = torch.cat(
        [statistic(picked) for picked in _picks(cells, num_resamples, generator)]
    )
    return _pvalue(null >= observed * (1 - 1e-9))


def _picks(
    rows: Tensor, num: int, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """One entry of each row at random, `num` times: blocks [<= num, N]."""
    num_rows, width = rows.shape
    size = max(1, _BLOCK // max(num_rows, 1))
    for first in range(0, num, size):
        shape = (min(size, num - first), num_rows)
        which = torch.randint(width, shape, generator=generator)
        yield rows.T.gather(0, which)


def _pvalue(as_extreme: Tensor) -> float:
    """The Monte Carlo p-value, in which the observed statistic itself counts."""
    return (1 + int(as_extreme.sum())) / (1 + len(as_extreme))
