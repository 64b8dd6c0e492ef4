"""Simple likelihood, complex posterior (Papamakarios et al., 2019).

    theta ~ U(-3, 3)^5
    x_i ~ N((theta_1, theta_2), [[s^2, rho s t], [rho s t, t^2]])    for i = 1..4
    with s = theta_3^2, t = theta_4^2 and rho = tanh(theta_5)

Task `slcp` of the benchmark sbibm (Lueckmann et al., 2021).
"""

import torch
from torch.distributions import MultivariateNormal, Uniform

from gsdm_pyg import Size, observe, program, sample


@program
def slcp(n: Size = 4):
    theta = sample("theta", Uniform(-3.0, 3.0), 5)
    s, t, rho = theta[2] ** 2, theta[3] ** 2, theta[4].tanh()
    first = torch.stack([s, torch.tensor(0.0)])
    second = torch.stack([rho * t, (1 - rho**2).sqrt() * t])
    scale = torch.stack([first, second])  # of a Cholesky decomposition, [2, 2]
    observe("x", MultivariateNormal(theta[:2], scale_tril=scale), n)
