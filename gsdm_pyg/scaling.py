"""Scaling: natural values <-> zero mean and about unit variance, as they diffuse."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from gsdm_pyg.data import keyed_generator
from gsdm_pyg.problem import Problem, ProblemFamily, graph_of
from gsdm_pyg.variables import owned_columns


class Scaling(nn.Module):
    """Which columns each of V variables owns, and how their values are scaled.

    A continuous variable gets zero mean and unit variance by its own moments; a one-hot
    code of K classes by those under equal classes, 1/K and (1/K)(1 - 1/K), and then the
    standard deviation `discrete_scale`.

    Args:
        num_classes: Classes of each variable, None if continuous.
        loc: Mean of each variable; of continuous ones only is it used.
        scale: Standard deviation of each variable, likewise.
        discrete_scale: Standard deviation of one-hot codes as they diffuse.
    """

    columns: Tensor  # [V, W], bool
    discrete: Tensor  # [V, 1], bool
    loc: Tensor  # [V, W]
    scale: Tensor  # [V, W]

    def __init__(
        self,
        num_classes: list[int | None],
        loc: list[float],
        scale: list[float],
        discrete_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if not 0 < discrete_scale < math.inf:
            raise ValueError(
                f"discrete_scale must be finite and above 0 (got {discrete_scale})."
            )
        if not len(num_classes) == len(loc) == len(scale):
            raise ValueError(
                "loc and scale have one number per variable "
                f"(got {len(loc)} and {len(scale)} for {len(num_classes)})."
            )
        columns = owned_columns(num_classes)
        classes = torch.tensor([k or 0 for k in num_classes])[:, None]
        discrete, share = classes > 0, 1 / classes.clamp(min=2)
        mean = torch.where(discrete, share, torch.tensor(loc)[:, None])
        spread = (share * (1 - share)).sqrt() / discrete_scale
        deviation = torch.where(discrete, spread, torch.tensor(scale)[:, None])
        for name, buffer in {
            "columns": columns,
            "discrete": discrete,
            "loc": mean * columns,
            "scale": torch.where(columns, deviation, 1.0),
        }.items():
            self.register_buffer(name, buffer, persistent=False)

    def standardise(self, x: Tensor, variable_id: Tensor) -> Tensor:
        """Natural values [N, W] -> standardised ones, zero in foreign columns."""
        x0 = (x - self.loc[variable_id]) / self.scale[variable_id]
        return x0 * self.columns[variable_id]

    def restore(self, x0: Tensor, variable_id: Tensor) -> Tensor:
        """Standardised values [N, W] -> natural ones."""
        x0 = x0 * self.columns[variable_id]
        return x0 * self.scale[variable_id] + self.loc[variable_id]


def moments(
    source: Problem | ProblemFamily, spec: list[dict[str, Any]]
) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each variable over 256 draws."""
    generator = keyed_generator("moments")
    draws = [source.draw(generator).sample(generator) for _ in range(256)]
    names = list(graph_of(source.largest()).variables)
    if set(draws[0]) != set(names):
        raise ValueError(
            f"sample() must return the variables {', '.join(names)} "
            f"(got {', '.join(draws[0])})."
        )
    loc, scale = [], []
    for name in (variable["name"] for variable in spec):
        values = torch.cat([draw[name].reshape(-1).double() for draw in draws])
        loc.append(values.mean().item())
        spread = values.std(correction=0).item()
        scale.append(spread if spread > 1e-6 else 1.0)
    return loc, scale
