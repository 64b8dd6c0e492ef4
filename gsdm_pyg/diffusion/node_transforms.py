"""Transforms of the nodes of a batch, each variable by its own (`transforms.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gsdm_pyg.choices import Transform
from gsdm_pyg.problem_spec import VariableSpec
from gsdm_pyg.transforms import APPLY, INVERT
from gsdm_pyg.variables import column_blocks


class NodeTransforms(NamedTuple):
    """y = f((x - origin) / width) of each node's real number, kept to [low, high]."""

    members: Mapping[Transform, Tensor]  # [N, 1], bool, the nodes of each f
    cells: Tensor  # [N, W], bool, the values that have an f
    column: slice  # the value column of real numbers
    origin: Tensor  # [N, 1]
    width: Tensor  # [N, 1]
    low: Tensor  # [N, 1]
    high: Tensor  # [N, 1]

    def apply(self, x: Tensor) -> Tensor:
        """Natural values [N, W] -> y in the cells."""
        u = (x[:, self.column] - self.origin) / self.width
        y = u  # [N, 1]
        for name, members in self.members.items():
            y = torch.where(members, APPLY[name](u), y)
        return torch.where(self.cells, y.clamp(self.low, self.high), x)

    def invert(self, y: Tensor) -> Tensor:
        """y -> natural values [N, W] in the cells."""
        inside = y[:, self.column].clamp(self.low, self.high)
        u = inside  # [N, 1]
        for name, members in self.members.items():
            u = torch.where(members, INVERT[name](inside), u)
        return torch.where(self.cells, self.origin + self.width * u, y)


class Transforms(nn.Module):
    """The transforms of V variables; of no use where all have the identity.

    Args:
        variables: The variables.
        columns: The value columns that each owns, [V, W].
    """

    kind: Tensor  # [V, 1], position in `names`; the length of it for the identity
    cells: Tensor  # [V, W], bool
    constants: Tensor  # [V, 4], origin, width, low and high

    def __init__(self, variables: Sequence[VariableSpec], columns: Tensor) -> None:
        super().__init__()
        found = {variable.transform for variable in variables}
        self.names = [name for name in APPLY if name in found]
        order = [*self.names, "identity"]
        kind = torch.tensor([[order.index(v.transform)] for v in variables])
        constants = [
            (v.origin, v.width, *v.scaled.limits(v.loc, v.scale)) for v in variables
        ]
        blocks = column_blocks([variable.num_classes for variable in variables])
        real = [b for v, b in zip(variables, blocks, strict=True) if not v.num_classes]
        self.column = real[0] if real else slice(0, 1)
        self.register_buffer("kind", kind, persistent=False)
        cells = columns & (kind < len(self.names))
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("constants", torch.tensor(constants), persistent=False)

    def forward(self, variable_id: Tensor) -> NodeTransforms | None:
        """The transforms of nodes of these variables [N], None if there are none."""
        if not self.names:
            return None
        kind = self.kind[variable_id]
        members = {name: kind == i for i, name in enumerate(self.names)}
        constants = self.constants[variable_id].split(1, dim=1)
        return NodeTransforms(members, self.cells[variable_id], self.column, *constants)
