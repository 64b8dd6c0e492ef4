"""Two moons: a posterior of two crescents (Greenberg et al., 2019).

    theta ~ U(-1, 1)^2,    a ~ U(-pi / 2, pi / 2),    r ~ N(0.1, 0.01^2)
    x = (r cos a + 1/4, r sin a) + (-|theta_1 + theta_2|, theta_2 - theta_1) / sqrt(2)

Task `two_moons` of the benchmark sbibm (Lueckmann et al., 2021). The noise a and r has
no name: it is not of interest, and links both coordinates of x.
"""

import math

import torch
from torch.distributions import Normal, Uniform

from gsdm_pyg import observe, program, sample


@program
def two_moons():
    theta = sample("theta", Uniform(-1.0, 1.0), 2)
    a = Uniform(-math.pi / 2, math.pi / 2).sample()
    r = Normal(0.1, 0.01).sample()
    crescent = torch.stack([r * a.cos() + 0.25, r * a.sin()])
    shift = torch.stack([-(theta[0] + theta[1]).abs(), theta[1] - theta[0]])
    observe("x", crescent + shift / math.sqrt(2))
