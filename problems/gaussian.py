"""Gaussian distributions given some of their entries."""

import torch
from torch import Tensor


def condition(
    mean: Tensor, covariance: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean [n] and covariance [n, n] of a Gaussian, given the entries of some values.

    With o the known entries, the mean is mean + G (values[o] - mean[o]) and the
    covariance is covariance - G covariance[o], where G = covariance[:, o]
    covariance[o, o]^-1. Known entries have their value and no variance.

    Args:
        mean: Of the Gaussian, [n].
        covariance: Of the Gaussian, [n, n].
        values: What is known, [n], NaN where an entry is unknown.
    """
    known = ~values.isnan()
    seen = covariance[known]  # [o, n]
    gain = torch.linalg.solve(seen[:, known], seen).T  # [n, o]
    center = mean + gain @ (values - mean)[known]
    center = torch.where(known, values, center)
    rest = covariance - gain @ seen
    return center, rest.masked_fill(known | known[:, None], 0)
