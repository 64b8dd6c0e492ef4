"""Follow a program as it runs: which nodes each element of each tensor depends on.

Dependence is stored per entry of memory, so views and in-place operators need no care:
a view reads, and a change of a view writes, the entries that it shows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gsdm_pyg.private_api import TorchDispatchMode, arguments_by_name
from gsdm_pyg.programs.errors import current_line, error, inside_distributions
from gsdm_pyg.programs.rows import Ints, Rows, empty, identity, union
from gsdm_pyg.programs.rules import (
    RULES,
    Call,
    Rule,
    broadcast,
    elementwise,
    everything,
    flat,
    positions,
)

logger = logging.getLogger("gsdm_pyg")

# Functions that read a value into Python, and what to write instead.
_READS = {
    "__bool__": "`if`, `while`, `and` and `or` cannot follow a random value: write "
    "torch.where(condition, a, b), which depends on both",
    "__float__": "float(x) takes the value out of the program: leave it a tensor",
    "__int__": "int(x) takes the value out of the program: leave it a tensor; no "
    "shape and no range can depend on a random value",
    "__index__": "an index or a range of Python cannot follow a random value: index by "
    "the tensor itself, as in x[i[None]]",
    "__complex__": "complex(x) takes the value out of the program: leave it a tensor",
    "item": "x.item() takes the value out of the program: leave it a tensor",
    "tolist": "x.tolist() takes the values out of the program: leave it a tensor",
    "numpy": "NumPy cannot follow random values: use torch's function",
    "__array__": "NumPy cannot follow random values: use torch's function",
    "__dlpack__": "other libraries cannot follow random values: use torch's function",
    "tensor": "torch.tensor([x, y]) copies numbers: write torch.stack([x, y])",
    "equal": "torch.equal(x, y) takes the answer out of the program: write (x == "
    "y).all()",
    "__contains__": "`in` takes the answer out of the program: write (x == y).any()",
}
# Operators that return a number of Python, or a tensor whose shape depends on values.
_SHAPES = [
    "nonzero",
    "masked_select",
    "unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "repeat_interleave",
]
_SILENT = ("__repr__", "__str__", "__format__")


class Dependence:
    """What the elements of tensors depend on; nodes are numbered as they are added."""

    def __init__(self) -> None:
        self.num_nodes = 0
        self._memory: dict[int, tuple[Tensor, int, Rows]] = {}  # by address
        self._paused = False
        self._warned: set[str] = set()
        self.reading: str | None = None  # the function of torch that is running

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow all that torch does."""
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(_Functions(self))
            stack.enter_context(_Operators(self))
            yield

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Do not follow what happens here."""
        paused, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = paused

    @property
    def paused(self) -> bool:
        return self._paused

    def add_nodes(self, num: int) -> int:
        """The number of the first of `num` new nodes."""
        first = self.num_nodes
        self.num_nodes += num
        return first

    def rows(self, x: Tensor) -> Rows:
        """What each element of x depends on."""
        with self.pause():
            found = self._memory.get(_address(x))
            if found is None or not x.numel():
                return empty(x.numel())
            _, item_size, rows = found
            if item_size != x.element_size():  # read as another type
                whole = rows.group(np.zeros(rows.count, dtype=np.int64), 1)
                return whole.take(np.zeros(x.numel(), dtype=np.int64))
            return rows if _is_whole(x) else rows.take(_places(x))

    def write(self, x: Tensor, rows: Rows) -> None:
        """Set what each element of x depends on."""
        with self.pause():
            address, size = _address(x), x.element_size()
            if not x.numel() or not (rows or address in self._memory):
                return
            if _is_whole(x):
                self._memory[address] = x, size, rows
                return
            count = x.untyped_storage().nbytes() // size
            _, old_size, old = self._memory.get(address, (x, size, empty(count)))
            if old_size != size:
                raise error(
                    "A tensor that is read as two types cannot be followed: use .to() "
                    f"instead of .view() (got {x.dtype})."
                )
            self._memory[address] = x, size, old.replace(_places(x), rows)

    def is_random(self, x: Tensor) -> bool:
        """Whether an element of x depends on a node."""
        return bool(self.rows(x))

    def called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator, and follow it."""
        name = function.overloadpacket.__name__
        base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        arguments, mutable = arguments_by_name(function, args, kwargs)
        call = Call(base, function, arguments, [], self.rows)
        inputs = call.tensors()
        addresses = {_address(x) for x in inputs}
        traced = any(address in self._memory for address in addresses)
        random = torch.Tag.nondeterministic_seeded in function.tags
        if traced:
            self._check_reading(call, function)
        with self.pause():
            before = {id(x): self.rows(x) for x in inputs} if traced else {}
        result = function(*args, **kwargs)
        if not (traced or random):
            return result
        with self.pause():
            found = result if isinstance(result, list | tuple) else [result]
            tensors = [x for x in found if isinstance(x, Tensor)]
            outputs = [
                x for x in tensors if mutable or _address(x) not in addresses
            ]  # the others are views
            if outputs:
                call = replace(
                    call,
                    outputs=outputs,
                    rows=lambda x: before.get(id(x), empty(x.numel())),
                )
                rule = self._random if random else self._rule(call, function)
                if random and mutable:
                    call.arguments.pop("self", None)  # its old values do not matter
                for x, rows in zip(outputs, rule(call), strict=True):
                    self.write(x, rows)
        return result

    def _rule(self, call: Call, function: Any) -> Rule:
        rule = RULES.get(call.name) if function.namespace == "aten" else None
        if isinstance(call["out"], Tensor):
            return everything
        if rule is None and torch.Tag.pointwise in function.tags:
            return elementwise
        if rule is None:
            if call.name not in self._warned:
                self._warned.add(call.name)
                logger.warning(
                    "torch's operator %s has no rule: its result is taken to depend on "
                    "all of its inputs, which may link more nodes than needed (%s).",
                    call.name,
                    current_line(),
                )
            return everything
        return rule

    def _random(self, call: Call) -> list[Rows]:
        """Draws without a name: a node of its own for each of them."""
        (out,) = call.outputs[:1]
        own = identity(self.add_nodes(out.numel()), out.numel())
        if call.name in ("randperm", "multinomial", "_sample_dirichlet"):
            # The last axis is drawn as a whole, from a whole row of parameters.
            rows = out.shape[:-1] if call.name != "randperm" else ()
            lead = int(np.prod(rows))
            owner = np.arange(lead).repeat(out.numel() // max(lead, 1))
            parts = [own.group(owner, lead)]
            for x in call.tensors():
                each = np.arange(lead).repeat(x.numel() // max(lead, 1))
                parts.append(call.rows(x).group(each, lead))
            return [union(parts).take(owner)]
        parts = [own]
        parts += [broadcast(call.rows(x), x, out.shape) for x in call.tensors()]
        return [union(parts)] * len(call.outputs)

    def _check_reading(self, call: Call, function: Any) -> None:
        """Reject what takes a random value out of the program."""
        reads = torch.Tag.data_dependent_output in function.tags
        shaped = call.name in _SHAPES
        if not (reads or shaped) or inside_distributions():
            return
        if not any(self.rows(x) for x in call.tensors()):
            return
        if shaped:
            raise error(
                "A shape cannot depend on a random value: use torch.where, which keeps "
                f"the shape (got {self.reading or call.name})."
            )
        raise self.reading_error(self.reading or "item")

    def reading_error(self, function: str) -> Exception:
        why = _READS.get(function, _READS["item"])
        return error(f"{why} (got a random value).")


class _Functions(TorchFunctionMode):
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
        reads = name in ("tolist", "numpy", "__array__", "__dlpack__")
        if reads and followed.is_random(args[0]) and not inside_distributions():
            raise followed.reading_error(name)
        outer, followed.reading = followed.reading, name
        try:
            return func(*args, **kwargs)
        finally:
            followed.reading = outer


class _Operators(TorchDispatchMode):
    """Sees the operators that functions of torch become."""

    def __init__(self, dependence: Dependence) -> None:
        super().__init__()
        self.dependence = dependence

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.dependence.paused:
            return func(*args, **kwargs)
        return self.dependence.called(func, args, kwargs)


def _address(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _is_whole(x: Tensor) -> bool:
    """Whether x is all of its memory, in its order."""
    size = x.untyped_storage().nbytes()
    return x.is_contiguous() and x.numel() * x.element_size() == size


def _places(x: Tensor) -> Ints:
    """Where in memory the elements of x are."""
    count = x.untyped_storage().nbytes() // x.element_size()
    memory = positions((count,))
    return flat(memory.as_strided(x.size(), x.stride(), x.storage_offset()))
