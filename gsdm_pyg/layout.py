"""The union layout: named arrays of mixed domains -> one row of values per node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from gsdm_pyg.variables import Variable, column_blocks, owned_columns

Arrays = Mapping[str, Tensor]


def columns_of(variables: Iterable[Variable]) -> dict[str, slice]:
    """The columns of each variable in x [N, W]: one block of columns per domain."""
    classes = {variable.name: variable.domain.num_classes for variable in variables}
    return dict(zip(classes, column_blocks(list(classes.values())), strict=True))


class Layout:
    """Where the values of variables stand in x [N, W]; worked out once, used often.

    Args:
        variables: The variables, in the order of their nodes.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.variables = list(variables)
        num_classes = [variable.domain.num_classes for variable in self.variables]
        owned = owned_columns(num_classes)  # [V, W]
        # The class that a column of a one-hot code stands for, [W].
        self.classes = torch.zeros(owned.size(1))
        self.missing = []  # per variable, values that encode to zeros
        for row, variable in zip(owned, self.variables, strict=True):
            filler = 0.0
            if variable.domain.num_classes:
                self.classes[row] = torch.arange(variable.domain.num_classes).float()
                filler = -1.0
            self.missing.append(torch.full((variable.num_nodes,), filler))
        num_nodes = torch.tensor([variable.num_nodes for variable in self.variables])
        owned = owned.repeat_interleave(num_nodes, 0)  # [N, W]
        discrete = torch.tensor([bool(classes) for classes in num_classes])
        discrete = discrete.repeat_interleave(num_nodes)[:, None]
        self.discrete = owned & discrete  # [N, W], the cells of one-hot codes
        self.continuous = owned & ~discrete  # [N, W], the cells of numbers

    def encode(self, values: Arrays) -> Tensor:
        """Named arrays -> x [N, W]; variables that are left out are zero."""
        flat, num_discrete = [], 0
        for variable, missing in zip(self.variables, self.missing, strict=True):
            if variable.name not in values:
                flat.append(missing)
                continue
            value = torch.as_tensor(values[variable.name])
            if tuple(value.shape) != variable.shape:
                raise ValueError(
                    f"Variable {variable.name!r} has the shape {variable.shape} "
                    f"(got {tuple(value.shape)})."
                )
            flat.append(value.reshape(-1))
            if variable.domain.num_classes:
                num_discrete += variable.num_nodes
        column = torch.cat(flat).to(torch.get_default_dtype())[:, None]  # [N, 1]
        one_hot = (column == self.classes) & self.discrete
        valid = int(one_hot.count_nonzero()) == num_discrete
        if not (valid and math.isfinite(column.sum())):
            self._refuse(values)
        return torch.where(self.continuous, column, one_hot)

    def _refuse(self, values: Arrays) -> None:
        """Raise an error that names a value outside of its domain, if there is one.

        Values are judged as they would stand in x: 1e39 is infinite in float32.
        """
        dtype = torch.get_default_dtype()
        for variable in self.variables:
            if variable.name in values:
                value = torch.as_tensor(values[variable.name])
                if variable.domain.num_classes:
                    takes = str(variable.domain)
                    wrong = variable.domain.outside(value.to(dtype))
                else:
                    takes = f"{variable.domain}, finite in {dtype}"
                    wrong = ~torch.isfinite(value.to(dtype))
                if wrong.any():
                    raise ValueError(
                        f"Variable {variable.name!r} takes {takes} "
                        f"(got {value[wrong][0].item()})."
                    )
