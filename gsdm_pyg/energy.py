"""The energy score: whether samples are as far from the truth as from each other.

    score = mean_s |x_s - truth| - 1/2 mean_{s != r} |x_s - x_r|

A proper score (Gneiting and Raftery, 2007): no sampler has a lower mean than the exact
posterior, neither one that is too narrow or too wide nor one of the most probable
values. `gsdm report` compares samplers by it where a problem has no metric of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pdist

from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem
from gsdm_pyg.problem_spec import ProblemSpec, VariableSpec
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.variables import Role

ENERGY_SCORE = "energy score"
EXPLANATION = (
    "the distance between an answer and the truth, less half of that between two "
    "answers: lower is better, and lowest for the exact posterior"
)


class EnergyScore:
    """The energy score of samples of a problem, over all entries that are not given.

    Entries count together, so that it matters how they depend on each other. Real
    numbers are compared on the scale of their support (`transforms.py`), divided by the
    spread of the problem's draws, and classes by their one-hot codes. Intermediate
    variables follow from the others and do not count.

    Args:
        problem: The problem, at one size.
    """

    def __init__(self, problem: Problem) -> None:
        variables = ProblemSpec.of(problem, GraphOptions()).variables
        self._variables = [v for v in variables if v.role is not Role.INTERMEDIATE]

    def __call__(
        self, samples: Sequence[Arrays], truth: Arrays, observed: Arrays
    ) -> float:
        """The score of at least two independent samples of one instance.

        Args:
            samples: An array per variable, of each sample.
            truth: Likewise, with the values that the given ones are part of.
            observed: A boolean array per variable: which entries were given.
        """
        if len(samples) < 2:
            raise ValueError(
                "The energy score compares samples with each other: pass at least two "
                f"(got {len(samples)})."
            )
        points = torch.stack([self._point(sample, observed) for sample in samples])
        distance = (points - self._point(truth, observed)).norm(dim=1)  # [S]
        return (distance.mean() - pdist(points).mean() / 2).item()

    def _point(self, values: Arrays, observed: Arrays) -> Tensor:
        """The entries that are not given as one vector."""
        parts = []
        for v in self._variables:
            hidden = ~torch.as_tensor(observed[v.name])
            entries = torch.as_tensor(values[v.name])[hidden]
            parts.append(_coordinates(v, entries).flatten())
        return torch.cat(parts)


def _coordinates(variable: VariableSpec, values: Tensor) -> Tensor:
    """Values [M] as [M, K] one-hot codes, or [M] standardized real numbers."""
    if variable.num_classes:
        return one_hot(values.long(), variable.num_classes).double()
    scale = variable.scaled
    low, high = scale.limits(variable.loc, variable.scale)
    return scale.apply(values.double()).clamp(low, high) / variable.scale
