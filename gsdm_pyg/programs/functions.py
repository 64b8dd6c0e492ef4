"""Functions of torch as users call them, before they become operators.

Some read a value as a number of Python although a formula of tensors would do, as
`x[i]` does for a single i; here they are replaced by that formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gsdm_pyg.programs.errors import error

if TYPE_CHECKING:
    from gsdm_pyg.programs.dependence import Dependence

_SILENT = ("__repr__", "__str__", "__format__")
_SHARES_MEMORY = ("numpy", "__array__", "__dlpack__", "untyped_storage", "data_ptr")


class Functions(TorchFunctionMode):
    """Sees the functions of torch by the names that users know."""

    def __init__(self, dependence: Dependence) -> None:
        super().__init__()
        self.dependence = dependence

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, followed = kwargs or {}, self.dependence
        name = getattr(func, "__name__", "")
        if followed.paused:
            return func(*args, **kwargs)
        if name in _SILENT:
            with followed.pause():
                return func(*args, **kwargs)
        escapes = followed.escapes
        escapes.check_function(name, args, kwargs)
        if name in _SHARES_MEMORY:
            followed.share(args[0])
        outer, escapes.function = escapes.function, name
        try:
            if name == "__deepcopy__":
                return args[0].clone()
            if name == "one_hot" and escapes.is_random(args[0]):
                return _one_hot(*args, **kwargs)
            if name in ("__getitem__", "__setitem__"):
                index = args[1] if isinstance(args[1], tuple) else (args[1],)
                drawn = [_is_scalar(i) and escapes.is_random(i) for i in index]
                if any(drawn) and name == "__getitem__":
                    return _read(args[0], index, drawn)
                if any(drawn):
                    return _write(args[0], index, drawn, args[2])
            return func(*args, **kwargs)
        finally:
            escapes.function = outer


def _is_scalar(index: Any) -> bool:
    """Whether an index is a tensor of one whole number, without axes."""
    if not isinstance(index, Tensor) or index.dim() or index.dtype == torch.bool:
        return False
    return not (index.is_floating_point() or index.is_complex())


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        raise error(
            "A shape cannot depend on a random value: pass one_hot(x, num_classes) "
            "(got no number of classes)."
        )
    return (tensor[..., None] == torch.arange(num_classes)).long()


def _axes(x: Tensor, index: tuple[Any, ...]) -> list[int]:
    """The axis of x that each item of an index is for."""
    used = [_num_axes(item) for item in index]
    rest = x.dim() - sum(used)  # what an Ellipsis is for
    axes, axis = [], 0
    for item, num in zip(index, used, strict=True):
        axes.append(axis)
        axis += rest if item is Ellipsis else num
    return axes


def _num_axes(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    is_mask = isinstance(item, Tensor) and item.dtype == torch.bool
    return item.dim() if is_mask else 1


def _read(x: Tensor, index: tuple[Any, ...], drawn: list[bool]) -> Tensor:
    """`x[index]`, where an item is one random number: it is selected first."""
    items = list(index)
    for at, axis in enumerate(_axes(x, index)):
        if drawn[at]:
            x = x.index_select(axis, _wrapped(index[at], x.size(axis)).view(1))
            items[at] = 0
    return x[tuple(items)]


def _write(x: Tensor, index: tuple[Any, ...], drawn: list[bool], value: Any) -> None:
    """`x[index] = value`, where one item is a random number: any place may change."""
    kinds = int | slice | None | type(Ellipsis)
    if sum(drawn) > 1 or not all(
        random or isinstance(item, kinds)
        for item, random in zip(index, drawn, strict=True)
    ):
        raise error(
            "x[i, j] = y with several random numbers takes tensors with axes: write "
            f"x[i[None], j[None]] = y (got {len(index)} indices)."
        )
    at = drawn.index(True)
    seen = x[tuple(slice(None) if r else i for i, r in zip(index, drawn, strict=True))]
    # Numbers of Python remove an axis, None adds one, and an Ellipsis is for several.
    items = index[at + 1 :]
    after = sum(isinstance(item, slice) or item is None for item in items)
    rest = x.dim() - sum(_num_axes(item) for item in index)
    if Ellipsis in items or Ellipsis not in index:
        after += rest
    axis = seen.dim() - 1 - after
    length = seen.size(axis)
    numbers = torch.arange(length).view(-1, *[1] * after)
    value = torch.as_tensor(value, dtype=x.dtype)
    placed = value.expand(seen.select(axis, 0).shape).unsqueeze(axis)
    seen.copy_(torch.where(numbers == _wrapped(index[at], length), placed, seen))


def _wrapped(index: Tensor, length: int) -> Tensor:
    """An index from 0 on, where -1 is the last."""
    return torch.where(index < 0, index + length, index)
