"""Ways in which a random value could leave a program unnoticed; they are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.programs.errors import ProgramError, error, inside_distributions
from gsdm_pyg.programs.rules import Call

_NUMPY = "NumPy cannot follow random values: use torch's function"
_MEMORY = "memory that is read directly cannot be followed: use torch's functions"
_CALLS = "calls Python with numbers, which cannot be followed: use torch's functions"
_COPIES = "copies numbers, which cannot be followed: write torch.stack([x, y])"
# Functions that take a value out of the program, and what to write instead.
_REASONS = {
    "__bool__": "`if`, `while`, `and` and `or` cannot follow a random value: write "
    "torch.where(condition, a, b), which depends on both",
    "__float__": "float(x) takes the value out of the program: leave it a tensor",
    "__int__": "int(x) takes the value out of the program: leave it a tensor; no "
    "shape and no range can depend on a random value",
    "__index__": "an index or a range of Python cannot follow a random value: index "
    "a tensor by a tensor, as in x[i]",
    "__complex__": "complex(x) takes the value out of the program: leave it a tensor",
    "item": "x.item() takes the value out of the program: leave it a tensor",
    "equal": "torch.equal(x, y) takes the answer out of the program: write (x == "
    "y).all()",
    "allclose": "torch.allclose(x, y) takes the answer out of the program: write "
    "torch.isclose(x, y).all()",
    "__contains__": "`in` takes the answer out of the program: write (x == y).any()",
}
# Functions of which operators show nothing.
_UNSEEN = {
    "tolist": "x.tolist() takes the values out of the program: leave it a tensor",
    "numpy": _NUMPY,
    "__array__": _NUMPY,
    "__dlpack__": "other libraries cannot follow random values: use torch's function",
    "__reduce_ex__": "pickle, torch.save and copy.copy cannot follow random values: "
    "use x.clone()",
    "data_ptr": _MEMORY,
    "untyped_storage": _MEMORY,
    "storage": _MEMORY,
    "share_memory_": _MEMORY,
    "apply_": f"x.apply_(f) {_CALLS}",
    "map_": f"x.map_(y, f) {_CALLS}",
    "map2_": f"x.map2_(y, z, f) {_CALLS}",
    "resize_": "x.resize_() cannot be followed: use torch.nn.functional.pad",
}
_FROM_LISTS = {"tensor", "as_tensor", "asarray", "new_tensor", "new"}
# The argument that decides on the shape of a result; otherwise it is the first tensor.
_SHAPED_BY = {"masked_select": "mask", "repeat_interleave": "repeats"}
# Whose shape is constant in use: the rule of `index` rejects random masks.
_SHAPED_BY_CONSTANTS = {"index", "linalg_lstsq"}


class Escapes:
    """Rejects calls that take random values out of the program.

    Args:
        is_random: Whether a tensor depends on a random variable.
    """

    def __init__(self, is_random: Callable[[Tensor], bool]) -> None:
        self._is_random = is_random
        self.function = ""  # the function of torch that is running, as users know it

    def is_random(self, value: Any) -> bool:
        """Whether a value is, or a list of any depth has, a random tensor."""
        if isinstance(value, list | tuple):
            return any(self.is_random(item) for item in value)
        return isinstance(value, Tensor) and self._is_random(value)

    def check_function(self, name: str, args: Any, kwargs: Any) -> None:
        """Before a function of torch is called."""
        values = [*args, *kwargs.values()]
        if name in _UNSEEN and self.is_random(values):
            raise self._error(name)
        lists = [value for value in values if isinstance(value, list | tuple)]
        if name in _FROM_LISTS and self.is_random(lists):
            raise error(f"torch.{name}([x, y]) {_COPIES} (got a random value).")
        if name in ("__getitem__", "__setitem__"):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if self.is_random([item for item in index if isinstance(item, list)]):
                raise error(f"An index [i, j] {_COPIES} (got a random value).")
        if name == "tensor_split" and self.is_random(values[1:]):
            raise self._shape_error(name)

    def check_shape(self, call: Call, function: Any) -> None:
        """Before an operator is called: whether it decides on a shape by values."""
        dynamic = torch.Tag.dynamic_output_shape in function.tags
        if not dynamic or call.name in _SHAPED_BY_CONSTANTS:
            return
        deciding = call[_SHAPED_BY.get(call.name, "")]
        if call.is_random(call.tensors()[0] if deciding is None else deciding):
            raise self._shape_error(self.function or call.name)

    def check_number(self, call: Call, result: Any) -> None:
        """After an operator was called: whether it returned a number of Python."""
        if not isinstance(result, bool | int | float | complex):
            return
        validates = self.function == "__bool__" and inside_distributions()
        if not validates and any(call.is_random(x) for x in call.tensors()):
            raise self._error(self.function or call.name)

    def check_lifted(self, x: Tensor) -> bool:
        """Whether a tensor of new numbers has memory of its own, unlike NumPy's."""
        own = x.untyped_storage().resizable()
        if own and not self.function:
            raise error(
                "torch.Tensor([...]) copies numbers, which cannot be followed: write "
                "torch.tensor([...]) for constants, torch.stack([x, y]) for tensors "
                f"(got {tuple(x.shape)})."
            )
        return own

    def _error(self, name: str) -> ProgramError:
        default = f"{name}() takes a number of Python here: use tensors only"
        why = _UNSEEN.get(name) or _REASONS.get(name, default)
        return error(f"{why} (got a random value).")

    def _shape_error(self, name: str) -> ProgramError:
        return error(
            "A shape cannot depend on a random value: use torch.where, which keeps the "
            f"shape (got {name})."
        )
