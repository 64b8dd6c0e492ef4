"""Predators and their prey, after Lotka and Volterra.

    alpha, gamma ~ LogNormal(-0.125, 0.5),    beta, delta ~ LogNormal(-3, 0.5)
    X' = alpha X - beta X Y,    Y' = -gamma Y + delta X Y,    X(0) = 30, Y(0) = 1
    x_1k ~ LogNormal(log X(2.1 k), 0.1), x_2k ~ LogNormal(log Y(2.1 k), 0.1)
    for k = 0..9

Task `lotka_volterra` of the benchmark sbibm (Lueckmann et al., 2021). In logarithms the
equations are (log X)' = alpha - beta Y and (log Y)' = delta X - gamma.
"""

import math

import torch
from torch.distributions import LogNormal

from examples.programs.leapfrog import leapfrog
from gsdm_pyg import observe, program, sample

PRIOR = LogNormal(torch.tensor([-0.125, -3.0, -0.125, -3.0]), 0.5)


@program
def lotka_volterra():
    alpha, beta, gamma, delta = sample("theta", PRIOR)
    state = torch.tensor(math.log(30.0)), torch.tensor(0.0)  # log X and log Y
    states = [torch.stack(state)]
    for _ in range(9):
        state = leapfrog(
            *state,
            lambda log_y: alpha - beta * log_y.exp(),
            lambda log_x: delta * log_x.exp() - gamma,
            time=2.1,
            steps=105,
        )
        states.append(torch.stack(state))
    levels = torch.stack(states, 1).clamp(math.log(1e-10), math.log(1e4))
    observe("x", LogNormal(levels, 0.1))  # [2, 10]
