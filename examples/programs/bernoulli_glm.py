"""A neuron whose spikes depend on a white-noise stimulus by a filter of nine steps.

    theta ~ N(0, B),    y_t ~ Bernoulli(sigmoid(X theta)_t),    x = X^T y

Row t of X has a 1 for the offset theta_0, and the stimulus of the last nine steps for
the filter; B favors smooth filters. x is sufficient: the number of spikes, and their
average stimulus times that number. Tasks `bernoulli_glm` and `bernoulli_glm_raw`, which
observes y itself, of the benchmark sbibm (Lueckmann et al., 2021; the model is that of
Gonçalves et al., 2020). Its stimulus is NumPy's of seed 42.
"""

import numpy as np
import torch
from torch.distributions import Bernoulli, MultivariateNormal

from gsdm_pyg import observe, program, sample

STEPS, FILTER = 100, 9


def design() -> torch.Tensor:
    """X, [STEPS, 1 + FILTER]."""
    stimulus = torch.from_numpy(np.random.RandomState(42).randn(STEPS)).float()
    lagged = [torch.cat([torch.zeros(j), stimulus[: STEPS - j]]) for j in range(FILTER)]
    return torch.stack([torch.ones(STEPS), *lagged], 1)


def precision() -> torch.Tensor:
    """The inverse of B: it penalizes second differences of the filter."""
    difference = torch.eye(FILTER) - torch.ones(FILTER - 1).diag(-1)
    root = difference @ difference + (torch.arange(FILTER) / FILTER).sqrt().diag()
    return torch.block_diag(torch.tensor(0.5), root.T @ root)


X = design()
PRIOR = MultivariateNormal(torch.zeros(1 + FILTER), precision_matrix=precision())


@program
def bernoulli_glm():
    theta = sample("theta", PRIOR)
    y = Bernoulli(logits=X @ theta).sample()
    observe("x", X.T @ y)


@program
def bernoulli_glm_raw():
    theta = sample("theta", PRIOR)
    observe("y", Bernoulli(logits=X @ theta))
