"""Named arrays of mixed domains -> x [N, W], a row of values per node (section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from gsdm_pyg.variables import Variable, owned_columns

Arrays = Mapping[str, Tensor]


class Encoding:
    """How the values of variables fill x [N, W]; computed once, used often.

    A continuous value fills its node's column, a class fills its one-hot code.

    Args:
        variables: The variables, in the order of their nodes.
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.variables = list(variables)
        num_classes = [variable.domain.num_classes for variable in self.variables]
        owned = owned_columns(num_classes)  # [V, W]
        self._classes = torch.zeros(owned.size(1))  # [W], the class a column encodes
        self._missing = []  # per variable [num_nodes], values that encode to zeros
        for row, variable in zip(owned, self.variables, strict=True):
            filler = 0.0
            if variable.domain.num_classes:
                self._classes[row] = torch.arange(variable.domain.num_classes).float()
                filler = -1.0
            self._missing.append(torch.full((variable.num_nodes,), filler))
        num_nodes = torch.tensor([variable.num_nodes for variable in self.variables])
        owned = owned.repeat_interleave(num_nodes, 0)  # [N, W]
        discrete = torch.tensor([bool(classes) for classes in num_classes])
        discrete = discrete.repeat_interleave(num_nodes)[:, None]  # [N, 1]
        self._discrete = owned & discrete  # [N, W], the cells of one-hot codes
        self._continuous = owned & ~discrete  # [N, W], the cells of real numbers

    def encode(self, values: Arrays) -> Tensor:
        """Named arrays [*lead, *shape] -> x [*lead, N, W].

        Args:
            values: An array per variable, all with the same leading dimensions: none
                for one instance, [B] for B of them. Variables left out are zero.
        """
        arrays, lead = self._check_shapes(values)
        flat, num_discrete = [], 0
        for variable, missing in zip(self.variables, self._missing, strict=True):
            value = arrays.get(variable.name)
            if value is None:
                flat.append(missing.expand(*lead, -1))
                continue
            flat.append(value.reshape(*lead, variable.num_nodes))
            if variable.domain.num_classes:
                num_discrete += value.numel()
        column = torch.cat(flat, -1).to(torch.get_default_dtype())[..., None]
        one_hot = (column == self._classes) & self._discrete  # [*lead, N, W]
        valid = int(one_hot.count_nonzero()) == num_discrete
        if not (valid and math.isfinite(column.sum())):
            self._check_domains(arrays)
        return torch.where(self._continuous, column, one_hot)

    def _check_shapes(
        self, values: Arrays
    ) -> tuple[dict[str, Tensor], tuple[int, ...]]:
        """The values as tensors [*lead, *shape], and the `lead` that all share."""
        arrays: dict[str, Tensor] = {}
        leads: dict[tuple[int, ...], str] = {}  # and the first variable that has it
        for variable in self.variables:
            if variable.name not in values:
                continue
            value = torch.as_tensor(values[variable.name])
            num_lead = value.dim() - len(variable.shape)
            if num_lead < 0 or value.shape[num_lead:] != variable.shape:
                raise ValueError(
                    f"Variable {variable.name!r} takes the shape "
                    f"(...,) + {variable.shape} (got {tuple(value.shape)})."
                )
            arrays[variable.name] = value
            leads.setdefault(tuple(value.shape[:num_lead]), variable.name)
        if len(leads) > 1:
            got = ", ".join(f"{lead} for {name!r}" for lead, name in leads.items())
            raise ValueError(
                f"All variables need the same leading dimensions (got {got})."
            )
        return arrays, next(iter(leads), ())

    def _check_domains(self, arrays: Arrays) -> None:
        """Raise an error that names a value outside of its domain, if there is one.

        Values are checked in the dtype of x: 1e39 is infinite in float32.
        """
        dtype = torch.get_default_dtype()
        for variable in self.variables:
            if variable.name in arrays:
                value = arrays[variable.name]
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
