"""Ranks of the truth among samples, and coverage of intervals (SBC)."""

from __future__ import annotations

import torch
from torch import Tensor

from gsdm_pyg.diagnostics.ecdf import ecdf_pvalue, uniform_counts

COVERAGE_BINS = 50  # levels at which the coverage of central intervals is tested


def ranks(draws: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """How many samples are below the truth, integers of 0..S, [N].

    A tie is decided at random, so that the ranks of an exact sampler are uniform for
    discrete values, too (Talts et al., 2018).

    Args:
        draws: The truth and S samples of N instances, [N, S + 1], the truth first.
        generator: Source of randomness.
    """
    truth, samples = draws[:, :1], draws[:, 1:]
    below, equal = (samples < truth).sum(1), (samples == truth).sum(1)
    fraction = torch.rand(len(draws), generator=generator, dtype=torch.double)
    return below + (fraction * (equal + 1)).long().clamp(max=equal)


def uniform_from_ranks(
    rank: Tensor, num_samples: int, generator: torch.Generator | None = None
) -> Tensor:
    """Ranks of 0..S as numbers in [0, 1), uniform if the ranks are, [N]."""
    fraction = torch.rand(rank.shape, generator=generator, dtype=torch.double)
    return (rank + fraction) / (num_samples + 1)


def ranks_pvalue(rank: Tensor, num_samples: int) -> float:
    """Exact p-value of uniform ranks: whether their ECDF leaves simultaneous bands."""
    return ecdf_pvalue(rank.bincount(minlength=num_samples + 1))


def central_levels(u: Tensor) -> Tensor:
    """The level of the smallest central interval that has the truth in it, [N].

    Args:
        u: `uniform_from_ranks`, [N].
    """
    return (2 * u - 1).abs()


def expected_coverage(u: Tensor, levels: Tensor) -> Tensor:
    """The share of truths inside of central intervals of these levels, [L]."""
    return (central_levels(u)[:, None] <= levels).double().mean(0)


def coverage_pvalue(u: Tensor) -> float:
    """Exact p-value of the coverage of central intervals at all levels at once."""
    return ecdf_pvalue(uniform_counts(central_levels(u), COVERAGE_BINS))
