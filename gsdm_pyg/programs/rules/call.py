"""One call of an operator, and how the elements of tensors are numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.programs.rows import Ints, Rows, concatenate


@dataclass(frozen=True)
class Call:
    """One call of an operator, with its arguments by name."""

    name: str  # without the underscore of operators that work in place
    function: Callable[..., Any]
    arguments: dict[str, Any]  # as before the call, and without those of `out=`
    outputs: list[Tensor]  # new tensors, then those that the operator changed
    rows: Callable[[Tensor], Rows]  # of an input, before the call
    out_names: tuple[str, ...] = ()  # arguments that the operator only fills

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def tensors(self) -> list[Tensor]:
        """All tensors among the arguments, also those in lists."""
        return [x for value in self.arguments.values() for x in tensors_in(value)]

    def is_random(self, value: Any) -> bool:
        """Whether a tensor, or one of a list, depends on any node."""
        return any(bool(self.rows(x)) for x in tensors_in(value))


Rule = Callable[[Call], list[Rows]]


def base_name(function: Any) -> str:
    """The name of an operator, the same for its variant that works in place."""
    name = str(function.overloadpacket.__name__)
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of an argument, which may be one, or a list."""
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if isinstance(item, Tensor)]


def positions(shape: Sequence[int]) -> Tensor:
    """The number of each element, in row-major order."""
    return torch.arange(int(np.prod(shape, dtype=np.int64))).view(tuple(shape))


def flat(x: Tensor) -> Ints:
    """Whole numbers as one vector of NumPy."""
    return x.reshape(-1).to(torch.int64).numpy()


def broadcast(rows: Rows, x: Tensor, shape: Sequence[int]) -> Rows:
    """The rows of x, broadcast to a shape."""
    if tuple(x.shape) == tuple(shape):
        return rows
    return rows.take(flat(positions(x.shape).expand(tuple(shape))))


def lines(shape: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Numbers of one line along `dims` each, expanded to the shape.

    For shape [2, 3] and dims [1] that is [[0, 0, 0], [1, 1, 1]].
    """
    kept = [1 if d in dims else n for d, n in enumerate(shape)]
    return positions(kept).expand(tuple(shape))


def everything(call: Call) -> list[Rows]:
    """Each element of each result depends on all elements of all inputs."""
    rows = concatenate([call.rows(x) for x in call.tensors()])
    whole = rows.group(np.zeros(rows.count, dtype=np.int64), 1)
    return [whole.take(np.zeros(out.numel(), dtype=np.int64)) for out in call.outputs]
