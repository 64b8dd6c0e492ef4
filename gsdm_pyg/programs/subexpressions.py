"""Unnamed sub-expressions as variables: `intermediates="all"`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from gsdm_pyg.programs.errors import is_library

# Functions that move elements or change their type: their results are no new values.
_MOVES = """
    __getitem__ __get__ reshape view permute transpose swapaxes movedim t unsqueeze
    squeeze expand expand_as broadcast_to flatten unflatten ravel stack cat concatenate
    hstack vstack chunk split unbind repeat tile flip roll contiguous clone detach to
    type float double long int bool type_as as_tensor gather index_select take_along_dim
    diagonal diag tril triu narrow select
"""
_MOVING = frozenset(_MOVES.split())


class Subexpressions(TorchFunctionMode):
    """Offers the result of every function of torch that the program itself calls.

    Args:
        found: Called with the number of the call, the name of the function and its
            result; returns what the program goes on with.
    """

    def __init__(self, found: Callable[[int, str, Tensor], Tensor]) -> None:
        super().__init__()
        self.found = found
        self.num_calls = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if not isinstance(result, Tensor) or name in _MOVING or not _by_program():
            return result
        self.num_calls += 1
        return self.found(self.num_calls, name.strip("_"), result)


def _by_program() -> bool:
    """Whether the program has called a function, and not a library on its behalf."""
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    return not is_library(frame.f_code.co_filename)
