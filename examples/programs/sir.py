"""An epidemic: the susceptible S, the infected I and the recovered.

    beta ~ LogNormal(log 0.4, 0.5),    gamma ~ LogNormal(log 0.125, 0.2)
    S' = -beta S I,    I' = beta S I - gamma I    as shares of a million, one infected
    x_k ~ Binomial(1000, I(17 k days))    for k = 0..9

Task `sir` of the benchmark sbibm (Lueckmann et al., 2021). In logarithms the equations
are (log S)' = -beta I and (log I)' = beta S - gamma.
"""

import math

import torch
from torch.distributions import Binomial, LogNormal

from examples.programs.leapfrog import leapfrog
from gsdm_pyg import observe, program, sample

PRIOR = LogNormal(torch.tensor([0.4, 0.125]).log(), torch.tensor([0.5, 0.2]))


@program
def sir():
    beta, gamma = sample("theta", PRIOR)
    log_s, log_i = torch.tensor(math.log1p(-1e-6)), torch.tensor(math.log(1e-6))
    infected = [log_i]
    for _ in range(9):
        log_s, log_i = leapfrog(
            log_s,
            log_i,
            lambda log_i: -beta * log_i.exp(),
            lambda log_s: beta * log_s.exp() - gamma,
            time=17.0,
            steps=68,
        )
        infected.append(log_i)
    share = torch.stack(infected).exp().clamp(0, 1)
    observe("x", Binomial(1000, share))
