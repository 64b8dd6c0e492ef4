"""Posteriors that are mixtures of Gaussians, one for each value of what is discrete."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal


@dataclass(frozen=True)
class Mixture:
    """A discrete configuration and, given it, n Gaussian numbers.

    Args:
        configurations: The M values of what is discrete, [M, d] of 0 and 1.
        log_weights: Their log-probabilities up to a constant, [M].
        means: Of the numbers given a configuration, [M, n].
        covariances: Likewise, [M, n, n].
    """

    configurations: Tensor
    log_weights: Tensor
    means: Tensor
    covariances: Tensor

    def probabilities(self) -> Tensor:
        """Of a 1, for each of the discrete entries, [d]."""
        return self.log_weights.softmax(0) @ self.configurations.double()

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the numbers, [n]."""
        joint = MixtureSameFamily(
            Categorical(logits=self.log_weights),
            MultivariateNormal(self.means, self.covariances),
        )
        return joint.mean, joint.stddev

    def draw(self, num: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Configurations [num, d] and numbers [num, n]."""
        weights = self.log_weights.softmax(0)
        which = weights.multinomial(num, replacement=True, generator=generator)
        roots = torch.linalg.cholesky(self.covariances)[which]  # [num, n, n]
        shape = (num, self.means.size(1), 1)
        noise = torch.randn(shape, dtype=roots.dtype, generator=generator)
        numbers = self.means[which] + (roots @ noise).squeeze(-1)
        return self.configurations[which], numbers


def binary_configurations(num: int) -> Tensor:
    """All 2^num rows of 0 and 1, [2^num, num]."""
    return torch.cartesian_prod(*[torch.tensor([0, 1])] * num).view(-1, num)
