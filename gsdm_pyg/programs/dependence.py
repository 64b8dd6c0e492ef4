"""Follow a program as it runs: which nodes each element of each tensor depends on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.private_api import Arguments, TorchDispatchMode, arguments_by_name
from gsdm_pyg.programs.errors import current_line, error
from gsdm_pyg.programs.escapes import Escapes
from gsdm_pyg.programs.functions import Functions
from gsdm_pyg.programs.memory import Memory, address
from gsdm_pyg.programs.random_state import only_torch_draws
from gsdm_pyg.programs.rows import Rows, empty
from gsdm_pyg.programs.rules import (
    Call,
    base_name,
    draw,
    everything,
    is_draw,
    rule_of,
    tensors_in,
)

logger = logging.getLogger("gsdm_pyg")


class Dependence:
    """What the elements of tensors depend on; nodes are numbered as they are added."""

    def __init__(self) -> None:
        self.num_nodes = 0
        self.paused = False
        self.escapes = Escapes(self.is_random)
        self._memory = Memory()
        self._inside: set[int] = set()  # addresses that the program allocated

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow all that torch does."""
        with ExitStack() as stack:
            stack.enter_context(only_torch_draws())
            stack.enter_context(torch.no_grad())
            stack.enter_context(Functions(self))
            stack.enter_context(_Operators(self))
            yield

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Do not follow what happens here."""
        paused, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = paused

    def add_nodes(self, num: int) -> int:
        """The number of the first of `num` new nodes."""
        first = self.num_nodes
        self.num_nodes += num
        return first

    def rows(self, x: Tensor) -> Rows:
        """What each element of x depends on."""
        with self.pause():
            return self._memory.rows(x)

    def write(self, x: Tensor, rows: Rows) -> None:
        """Set what each element of x depends on."""
        with self.pause():
            self._inside.add(address(x))
            self._memory.write(x, rows)

    def is_random(self, x: Tensor) -> bool:
        """Whether an element of x depends on a node."""
        return bool(self.rows(x))

    def share(self, x: Tensor) -> None:
        """Another library sees the memory of x from here on."""
        with self.pause():
            self._inside.discard(address(x))

    def called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator, and follow it; paused."""
        arguments = arguments_by_name(function, args, kwargs)
        inputs = [x for value in arguments.by_name.values() for x in tensors_in(value)]
        before = {id(x): address(x) for x in inputs}
        random = any(place in self._memory for place in before.values())
        call = self._call(function, arguments, random)
        if random:
            self.escapes.check_shape(call, function)
        state = None if function.namespace == "aten" else torch.get_rng_state()
        result = function(*args, **kwargs)
        draws = is_draw(call, function)
        if state is not None:
            draws = draws or not torch.equal(state, torch.get_rng_state())
        if random:
            self.escapes.check_number(call, result)
        outputs = self._outputs(call, function, result, arguments, before)
        call.outputs.extend(outputs)
        if not (random or draws) or not any(x.numel() for x in outputs):
            return result
        rows = draw(call, self.add_nodes) if draws else self._rule(call, function)
        changed = {id(x) for x in self._changed(arguments)}
        for x, row in zip(outputs, rows, strict=True):
            if row and id(x) in changed and address(x) not in self._inside:
                raise error(
                    "A program cannot change a tensor from outside of it, or one that "
                    "shares its memory with NumPy: work on x.clone() (got "
                    f"{call.name}_ of a random value)."
                )
            self._memory.write(x, row)
        return result

    def _call(self, function: Any, arguments: Arguments, random: bool) -> Call:
        """The call as rules see it: with the values from before the call."""
        rows: dict[int, Rows] = {}
        by_name = {}
        for key, value in arguments.by_name.items():
            if key in arguments.out:
                continue
            by_name[key] = value
            if not random:
                continue
            copies = key in arguments.changed
            several = isinstance(value, list | tuple)
            items = list(value) if several else [value]
            for i, x in enumerate(items):
                if isinstance(x, Tensor):
                    dense = x if x.layout == torch.strided else x.to_dense()
                    items[i] = dense.clone() if copies else dense
                    rows[id(items[i])] = self._memory.rows(x)
            by_name[key] = items if several else items[0]
        return Call(
            base_name(function),
            function,
            by_name,
            [],
            lambda x: rows.get(id(x), empty(x.numel())),
            tuple(arguments.out),
        )

    def _outputs(
        self,
        call: Call,
        function: Any,
        result: Any,
        arguments: Arguments,
        before: dict[int, int],
    ) -> list[Tensor]:
        """The new tensors, then those that the operator changed."""
        changed = self._changed(arguments)
        for x in changed:
            place = before[id(x)]
            if address(x) != place:  # made larger: its memory is elsewhere
                self._memory.forget(place)
                self._inside.add(address(x))
        if torch.Tag.inplace_view in function.tags and call.name != "resize":
            return []  # another shape of the same memory
        old = {*before.values(), *map(address, changed)}
        returned = tensors_in(result)
        new = [x for x in returned if address(x) not in old]
        self._inside.update(map(address, new))
        if call.name == "lift_fresh" and self.escapes.check_lifted(returned[0]):
            self._inside.add(address(returned[0]))
        return new + changed

    def _changed(self, arguments: Arguments) -> list[Tensor]:
        names = [*arguments.changed, *arguments.out]
        found = [x for name in names for x in tensors_in(arguments.by_name[name])]
        return list({id(x): x for x in found}.values())

    def _rule(self, call: Call, function: Any) -> list[Rows]:
        rule = rule_of(function)
        if rule is not None:
            return rule(call)
        _warn_of_unknown(str(function.overloadpacket), current_line())
        return everything(call)


@lru_cache(maxsize=1024)
def _warn_of_unknown(name: str, line: str) -> None:
    """Name an operator without a rule, once for each line."""
    logger.warning(
        "torch's operator %s has no rule: its result is taken to depend on all of its "
        "inputs, which may link more nodes than needed (%s).",
        name,
        line,
    )


class _Operators(TorchDispatchMode):
    """Sees the operators that functions of torch become."""

    supports_higher_order_operators = True  # to reject them by name

    def __init__(self, dependence: Dependence) -> None:
        super().__init__()
        self.dependence = dependence

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.dependence.paused:
            return func(*args, **kwargs)
        if not hasattr(func, "overloadpacket"):
            raise error(
                "An operator that calls functions of Python cannot be followed: use "
                f"torch.where, or a loop of Python (got {func})."
            )
        if rule_of(func) is None:
            with self:  # operators that are made of others, in inference mode
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        with self.dependence.pause():
            return self.dependence.called(func, args, kwargs)
