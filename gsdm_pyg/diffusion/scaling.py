"""Scaling: natural values <-> zero mean and about unit variance, as they diffuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gsdm_pyg.diffusion.node_transforms import NodeTransforms, Transforms
from gsdm_pyg.problem_spec import VariableSpec
from gsdm_pyg.variables import owned_columns


class NodeScaling(NamedTuple):
    """The scale of each node of a batch, gathered once and used at every step."""

    columns: Tensor  # [N, W], bool, the value columns of the node's domain
    discrete: Tensor  # [N, 1], bool
    loc: Tensor  # [N, W]
    scale: Tensor  # [N, W]
    transforms: NodeTransforms | None = None  # where some variable has one

    def standardize(self, x: Tensor) -> Tensor:
        """Natural values [N, W] -> standardized ones, zero in foreign columns."""
        return self.standardize_codes(
            self.transforms.apply(x) if self.transforms else x
        )

    def standardize_codes(self, x: Tensor) -> Tensor:
        """The same for one-hot codes [N, W], which are not transformed."""
        return (x - self.loc) / self.scale * self.columns

    def restore(self, x0: Tensor) -> Tensor:
        """Standardized values [N, W] -> natural ones."""
        x = x0 * self.columns * self.scale + self.loc
        return self.transforms.invert(x) if self.transforms else x


class Scaling(nn.Module):
    """Which columns each of V variables owns, and how their values are scaled.

    A continuous variable is transformed and gets zero mean and unit variance by its own
    moments; a one-hot code of K classes by those under equal classes, 1/K and
    (1/K)(1 - 1/K), and then the standard deviation `discrete_scale`.

    Args:
        variables: The variables with their transforms and moments; those of discrete
            ones are not used.
        discrete_scale: Standard deviation of one-hot codes as they diffuse.
    """

    columns: Tensor  # [V, W], bool
    discrete: Tensor  # [V, 1], bool
    loc: Tensor  # [V, W]
    scale: Tensor  # [V, W]

    def __init__(
        self, variables: Sequence[VariableSpec], discrete_scale: float = 1.0
    ) -> None:
        super().__init__()
        num_classes = [variable.num_classes for variable in variables]
        columns = owned_columns(num_classes)
        classes = torch.tensor([k or 0 for k in num_classes])[:, None]
        discrete, share = classes > 0, 1 / classes.clamp(min=2)
        loc = torch.tensor([variable.loc for variable in variables])[:, None]
        scale = torch.tensor([variable.scale for variable in variables])[:, None]
        spread = (share * (1 - share)).sqrt() / discrete_scale
        for name, buffer in {
            "columns": columns,
            "discrete": discrete,
            "loc": torch.where(discrete, share, loc) * columns,
            "scale": torch.where(columns, torch.where(discrete, spread, scale), 1.0),
        }.items():
            self.register_buffer(name, buffer, persistent=False)
        self.transforms = Transforms(variables, columns)

    def forward(self, variable_id: Tensor) -> NodeScaling:
        """The scaling of nodes of these variables [N]."""
        return NodeScaling(
            self.columns[variable_id],
            self.discrete[variable_id],
            self.loc[variable_id],
            self.scale[variable_id],
            self.transforms(variable_id),
        )
