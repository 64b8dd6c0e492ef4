"""The mean of a Gaussian under a Gaussian prior, n times.

    theta ~ N(0, 0.1 I),    x ~ N(theta, 0.1 I)

Task `gaussian_linear` of the benchmark sbibm (Lueckmann et al., 2021), where n = 10.
"""

import math

from torch.distributions import Normal

from gsdm_pyg import Size, observe, program, sample


@program
def gaussian_linear(n: Size = 10):
    theta = sample("theta", Normal(0.0, math.sqrt(0.1)), n)
    observe("x", Normal(theta, math.sqrt(0.1)))
