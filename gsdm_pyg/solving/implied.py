"""What the constraints of a problem imply: classes that are left, entries that follow.

Works on values of nodes, x [S, N, W] and known [S, N], as the network sees them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.returned import Method
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.variables import owned_columns


class Implications:
    """`Problem.possible` of nodes instead of named arrays.

    Args:
        problem: The problem.
        options: The graph that the model sees.
    """

    def __init__(self, problem: Problem, options: GraphOptions) -> None:
        self._problem = problem
        self._graph = graph_of(problem, options)
        self._variables = list(self._graph.variables.values())
        classes = [variable.domain.num_classes for variable in self._variables]
        self._columns = owned_columns(classes)  # [V, W]

    def __call__(self, x: Tensor, known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Classes that are left [S, N, W], and x and known with all that follows."""
        allowed = self._allowed(x, known)
        follows = ~known & (allowed.sum(-1) == 1)
        x = torch.where(follows[..., None], allowed.to(x), x)
        return allowed, x, known | follows

    def named(self, known: Tensor) -> dict[str, Tensor]:
        """Booleans of nodes [S, N] -> an array [S, *shape] per variable."""
        return {
            v.name: known[:, v.nodes].reshape(len(known), *v.shape)
            for v in self._variables
        }

    def contradictory(self, allowed: Tensor, known: Tensor) -> Tensor:
        """Which nodes [S, N] are left without any class."""
        discrete = self._columns.sum(1) > 1  # [V]
        nodes = torch.tensor([v.num_nodes for v in self._variables])
        return (
            discrete.repeat_interleave(nodes) & ~known & ~allowed.any(-1)
        )  # numbers are not implied

    def check(self, contradictory: Tensor) -> None:
        """Raise a ValueError that names the first entry without a class, if any."""
        if not contradictory.any():
            return
        instance = int(contradictory.any(1).nonzero()[0])
        for name, where in self.named(contradictory).items():
            if where[instance].any():
                place = where[instance].nonzero()[0].tolist()
                of = "" if len(contradictory) == 1 else f" of instance {instance}"
                raise ValueError(
                    f"What is given{of} contradicts the constraints: it leaves no "
                    f"value for {name}{place} (got no solution)."
                )

    def _allowed(self, x: Tensor, known: Tensor) -> Tensor:
        values, masks = self._graph.decode(x), self.named(known)
        possible = self._problem.possible(values, masks)
        if possible is None:
            raise ValueError(
                f"{self._problem} implies nothing: define possible(self, values, "
                'known), or use method="sample" (got method="commit").'
            )
        discrete = [v.name for v in self._variables if v.domain.num_classes is not None]
        for name in possible:
            if name not in discrete:
                raise ValueError(
                    f"{Method('possible', self._problem)} is about discrete variables: "
                    f"{', '.join(discrete) or 'there are none'} (got {name!r})."
                )
        allowed = torch.zeros_like(x, dtype=torch.bool)
        for row, variable in zip(self._columns, self._variables, strict=True):
            if variable.name not in possible:
                allowed[:, variable.nodes] = row & (row.sum() > 1)
                continue
            left = torch.as_tensor(possible[variable.name]).bool()
            shape = (len(x), *variable.shape, int(row.sum()))
            if tuple(left.shape) != shape:
                raise ValueError(
                    f"{Method('possible', self._problem)} must return "
                    f"{variable.name!r} in the shape {shape} (got {tuple(left.shape)})."
                )
            block = allowed[:, variable.nodes]
            block[..., row] = left.reshape(len(x), variable.num_nodes, -1)
        return allowed
