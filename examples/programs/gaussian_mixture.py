"""A mixture of two Gaussians with one mean (Sisson et al., 2007).

    theta ~ U(-10, 10)^2,    x ~ N(theta, I) / 2 + N(theta, 0.1^2 I) / 2

Task `gaussian_mixture` of the benchmark sbibm (Lueckmann et al., 2021). Which of the
two x comes from has no name: it links both coordinates of x.
"""

import torch
from torch.distributions import Bernoulli, Normal, Uniform

from gsdm_pyg import observe, program, sample


@program
def gaussian_mixture():
    theta = sample("theta", Uniform(-10.0, 10.0), 2)
    is_wide = Bernoulli(0.5).sample() == 1
    observe("x", Normal(theta, torch.where(is_wide, 1.0, 0.1)))
