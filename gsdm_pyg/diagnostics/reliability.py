"""Reliability of class probabilities: of what is predicted at 30%, 30% must be true.

The prediction is a share of classes in a finite number of samples. Compared with the
truth alone it looks overconfident even for an exact sampler. Here q is the share of a
class among the truth and its S samples together: given these S + 1 draws without their
order, the truth of an exact sampler has that class with probability q exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gsdm_pyg.diagnostics.exchange import cells_pvalue, sum_pvalue

NUM_BINS = 5  # of predicted probabilities


def class_shares(draws: Tensor, num_classes: int) -> Tensor:
    """The share q of each class in the S + 1 draws of an instance, [N, K]."""
    one_hot = [(draws == k).double().mean(1) for k in range(num_classes)]
    return torch.stack(one_hot, 1)


def reliability_pvalue(
    draws: Tensor,
    num_classes: int,
    num_resamples: int,
    generator: torch.Generator | None = None,
) -> float:
    """p-value of the frequencies of truths by class and predicted probability.

    Args:
        draws: Classes of the truth and S samples, [N, S + 1], the truth first.
        num_classes: K.
        num_resamples: How many random picks make the distribution of the statistic.
        generator: Source of randomness.
    """
    classes = draws.long()
    shares = class_shares(classes, num_classes)
    cells = classes * NUM_BINS + _bins(shares.gather(1, classes))
    return cells_pvalue(cells, num_resamples, generator)


def confidence_scores(draws: Tensor, num_classes: int) -> Tensor:
    """log q of the class of each draw, [N, S + 1]: truths below average lack support.

    The sum over truths is what a temperature of the probabilities would change.
    """
    classes = draws.long()
    log_share = class_shares(classes, num_classes).gather(1, classes).log()
    return log_share - log_share.mean(1, keepdim=True)


def confidence_pvalue(
    draws: Tensor,
    num_classes: int,
    num_resamples: int,
    generator: torch.Generator | None = None,
) -> float:
    """p-value of over- or underconfidence, arguments as of `reliability_pvalue`."""
    scores = confidence_scores(draws, num_classes)
    return sum_pvalue(scores, num_resamples, generator)


@dataclass(frozen=True)
class ReliabilityCurve:
    """Predicted probabilities and frequencies, one entry per bin that is not empty."""

    predicted: Tensor  # mean of q
    frequency: Tensor  # how often the class was true
    error: Tensor  # standard deviation of the frequency of an exact sampler
    count: Tensor  # instances and classes in the bin


def reliability_curve(draws: Tensor, num_classes: int) -> ReliabilityCurve:
    """Predicted probabilities of all classes against how often they came true."""
    classes = draws.long()
    q = class_shares(classes, num_classes)  # [N, K]
    true = (classes[:, :1] == torch.arange(num_classes)).double()
    bins, possible = _bins(q), (q > 0) & (q < 1)
    rows = []
    for b in range(NUM_BINS):
        inside = (bins == b) & possible
        count = int(inside.sum())
        if count:
            variance = (q * (1 - q))[inside].sum()
            error = variance.sqrt() / count
            rows.append([q[inside].mean(), true[inside].mean(), error, count])
    columns = torch.tensor(rows, dtype=torch.double).reshape(-1, 4).unbind(1)
    return ReliabilityCurve(*columns)


def _bins(q: Tensor) -> Tensor:
    return (q * NUM_BINS).long().clamp(max=NUM_BINS - 1)
