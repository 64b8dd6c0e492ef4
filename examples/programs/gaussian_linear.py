"""The mean of a Gaussian under a Gaussian prior, n times.

    theta ~ N(0, 0.1 I),    x ~ N(theta, 0.1 I)

Task `gaussian_linear` of the benchmark sbibm (Lueckmann et al., 2021), where n = 10.
"""

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from gsdm_pyg import Size, observe, program, sample

VARIANCE = 0.1  # of theta, and of x given theta


@program
def gaussian_linear(n: Size = 10):
    theta = sample("theta", Normal(0.0, math.sqrt(VARIANCE)), n)
    observe("x", Normal(theta, math.sqrt(VARIANCE)))


def covariance(n: int) -> Tensor:
    """Prior covariance [2 n, 2 n] of all entries of theta, then of x."""
    blocks = torch.tensor([[1.0, 1.0], [1.0, 2.0]], dtype=torch.double)
    return VARIANCE * torch.kron(blocks, torch.eye(n, dtype=torch.double))
