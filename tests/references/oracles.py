"""What exact posteriors and trained models are compared with."""

import torch
from torch import Tensor


class PriorAnswers:
    """Has `sample` of a model that ignores what is given."""

    def sample(self, problem, given, num_samples, generator):
        num = len(next(iter(given.values())))
        seeded = torch.Generator().manual_seed(generator)
        drawn = problem.sample_batch(num * num_samples, seeded)
        return {n: v.unflatten(0, (num, num_samples)) for n, v in drawn.items()}


def weighted_moments(values: Tensor, log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [n] of draws [S, n] with log-weights [S].

    Draws from the prior with the log-likelihood as weight are a posterior.
    """
    weights = log_weights.double().softmax(0)
    assert 1 / weights.square().sum() > 3000, "too few draws count"
    mean = weights @ values.double()
    return mean, (weights @ (values.double() - mean).square()).sqrt()
