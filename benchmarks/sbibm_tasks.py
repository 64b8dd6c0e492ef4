"""The tasks of sbibm: our programs, its observations, reference samples and C2ST.

Nothing of the package is copied: `pip install --no-deps sbibm` brings the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from gsdm_pyg import Problem, graph_of

TASKS = ("two_moons", "gaussian_mixture", "gaussian_linear", "slcp", "bernoulli_glm")
INSTALL = (
    "`pip install --no-deps sbibm` and "
    "`pip install pandas scikit-learn pyro-ppl future autograd sbi`"
)


@dataclass
class Task:
    """A task as a program, with what the package has for it.

    Args:
        name: Name in the package, and of the program.
        problem: The program, with parameters `theta` [P] and data `x`.
        prior: Parameters of the prior: bounds, or mean and precision.
        observations: [num, *shape of x].
        references: Samples of the exact posterior of each, [num, 10000, P].
    """

    name: str
    problem: Problem
    prior: dict[str, Tensor]
    observations: Tensor
    references: Tensor

    def simulations(self, num: int, seed: int) -> dict[str, Tensor]:
        """Joint draws of the program, theta [num, P] and x [num, *shape]."""
        return self.problem.sample_batch(num, torch.Generator().manual_seed(seed))


def load_task(name: str, num_observations: int) -> Task:
    """A task with the first of its ten observations."""
    if not 1 <= num_observations <= 10:
        raise ValueError(
            f"A task has 10 observations: take 1 to 10 (got {num_observations})."
        )
    problem = getattr(import_module(f"examples.programs.{name}"), name)()
    task = import_or_explain("sbibm").get_task(name)
    import_or_explain("sbibm.metrics.c2st")  # not only after training
    Distribution.set_default_validate_args(__debug__)  # which a task switches off
    shape = graph_of(problem).variables["x"].shape
    numbers = range(1, num_observations + 1)
    observations = torch.cat([task.get_observation(i) for i in numbers])
    return Task(
        name,
        problem,
        task.get_prior_params(),
        observations.view(-1, *shape),
        torch.stack([task.get_reference_posterior_samples(i) for i in numbers]),
    )


def c2st(references: Tensor, samples: Tensor) -> list[float]:
    """C2ST of each observation, by the package's own function and its defaults.

    Args:
        references: Samples of the exact posterior, [num, S, P].
        samples: Samples to compare them with, [num, S, P].
    """
    joblib = import_or_explain("joblib")
    score = joblib.delayed(import_or_explain("sbibm.metrics.c2st").c2st)
    run = joblib.Parallel(n_jobs=torch.get_num_threads())
    scores = run(score(*pair) for pair in zip(references, samples, strict=True))
    return [float(value) for value in scores]


def import_or_explain(name: str) -> Any:
    """A module of the packages that only this benchmark needs."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"This benchmark needs {INSTALL} (got {error}).") from error
