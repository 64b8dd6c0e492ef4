"""Pairs of methods, for one instance and for many: the other follows from either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gsdm_pyg.returned import Method, first_instance, stack_instances

_Method = Callable[..., dict[str, Tensor]]


def complete(cls: type, one: str, many: str) -> None:
    """Where a class has only one of two methods of its own, derive the other from it.

    The class that comes first in the order of inheritance decides.
    """
    owner = next(c for c in cls.__mro__ if one in vars(c) or many in vars(c))
    for_one, for_many = vars(owner).get(one), vars(owner).get(many)
    if for_many is None and for_one is not None:
        setattr(cls, many, _for_many(for_one, one))
    elif for_one is None and for_many is not None:
        setattr(cls, one, _for_one(for_many, one, many))


def _for_one(for_many: _Method, one: str, many: str) -> _Method:
    running: set[int] = set()  # the problems whose `for_many` is being computed

    def for_one(self: Any, *arguments: Any, **named: Any) -> dict[str, Tensor]:
        if id(self) in running:
            cls = type(self).__name__
            raise TypeError(
                f"{many}() of {cls} calls {one}(), which follows from it: call "
                f"super().{one}(), or define {one}() too (got a call of self.{one})."
            )
        running.add(id(self))
        try:
            batch = for_many(self, 1, *arguments, **named)
        finally:
            running.discard(id(self))
        return first_instance(Method(many, self), batch)

    return for_one


def _for_many(for_one: _Method, one: str) -> _Method:
    def for_many(
        self: Any, num: int, *arguments: Any, **named: Any
    ) -> dict[str, Tensor]:
        instances = [for_one(self, *arguments, **named) for _ in range(num)]
        return stack_instances(Method(one, self), instances)

    for_many.derived = True  # type: ignore[attr-defined]
    return for_many
