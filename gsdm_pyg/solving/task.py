"""The rows to solve: each is one answer wanted of one instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from gsdm_pyg.problem import Problem

# Which rows, or instances, are tried [b], and what the network estimates of their
# nodes [b, N, W].
OnEstimate = Callable[[Tensor, Tensor], object]


class Tried(NamedTuple):
    """What a try gave some rows."""

    rows: Tensor  # [b]
    answers: dict[str, Tensor]  # [b, *shape] per variable
    evaluations: Tensor  # [b]


@dataclass(frozen=True)
class Task:
    """R rows of one problem; a row's given entries stay as they are.

    Args:
        problem: The problem.
        values: An array [R, *shape] per variable of which something is known.
        known: A boolean array [R, *shape] per variable.
    """

    problem: Problem
    values: dict[str, Tensor]
    known: dict[str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.known.values())))

    def given(self, rows: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Values and known entries of some rows [b]."""
        values = {name: value[rows] for name, value in self.values.items()}
        return values, {name: mask[rows] for name, mask in self.known.items()}
