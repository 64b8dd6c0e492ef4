"""Rules for operators that work element by element, with broadcasting."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from gsdm_pyg.programs.rows import Rows, concatenate, empty, union
from gsdm_pyg.programs.rules.call import Call, Rule, broadcast, everything, tensors_in


def elementwise(call: Call) -> list[Rows]:
    """Element i of the result depends on element i of each (broadcast) input."""
    inputs = call.tensors()
    if not inputs:
        return constant(call)
    return [
        union([broadcast(call.rows(x), x, out.shape) for x in inputs])
        if out.numel()
        else empty(0)
        for out in call.outputs
    ]


def loss(call: Call) -> list[Rows]:
    """Elementwise, or reduced to one number."""
    return everything(call) if call["reduction"] else elementwise(call)


def product(call: Call) -> list[Rows]:
    """Elementwise; a constant zero times anything depends on nothing."""
    out, factors = call.outputs[0], call.tensors()
    rows = [broadcast(call.rows(x), x, out.shape) for x in factors]
    zero = np.zeros(out.numel(), dtype=bool)
    for x, own in zip(factors, rows, strict=True):
        zero |= ~own.depends() & (x.expand(out.shape).reshape(-1) == 0).numpy()
    if len(factors) == 1 and call["other"] == 0:
        zero[:] = True
    return [union(rows).keep(~zero)]


def choice(condition: str, first: str, second: str) -> Rule:
    """Like `where`: a constant condition chooses, a random one is depended on too."""

    def rule(call: Call) -> list[Rows]:
        shape, mask = call.outputs[0].shape, call[condition]
        rows = broadcast(call.rows(mask), mask, shape)
        chosen = mask.bool().expand(shape).reshape(-1).numpy()
        parts = [rows]
        for name, holds in ((first, chosen), (second, ~chosen)):
            x = call[name]
            if isinstance(x, Tensor):
                held = holds | rows.depends()
                parts.append(broadcast(call.rows(x), x, shape).keep(held))
        return [union(parts)]

    return rule


def replaced(source: str) -> Rule:
    """The old values do not matter: those of `source` take their place."""

    def rule(call: Call) -> list[Rows]:
        x, out = call[source], call.outputs[0]
        if not isinstance(x, Tensor):
            return constant(call)
        return [broadcast(call.rows(x), x, out.shape)]

    return rule


def lookup(table: str, values: str) -> Rule:
    """Each value is looked up in a whole table [S]."""

    def rule(call: Call) -> list[Rows]:
        x, out = call[values], call.outputs[0]
        if not isinstance(x, Tensor) or call[table].dim() > 1:
            return everything(call)
        others = [y for y in call.tensors() if y is not x]
        rows = concatenate([call.rows(y) for y in others])
        whole = rows.group(np.zeros(rows.count, dtype=np.int64), 1)
        everywhere = whole.take(np.zeros(out.numel(), dtype=np.int64))
        return [union([everywhere, broadcast(call.rows(x), x, out.shape)])]

    return rule


def constant(call: Call) -> list[Rows]:
    """The result holds no input's values."""
    return [empty(out.numel()) for out in call.outputs]


def by_list(call: Call) -> list[Rows]:
    """`torch._foreach_*`: result i depends on the i-th tensor of each list.

    Tensors that are not in a list are for all results.
    """
    rows = []
    for i, out in enumerate(call.outputs):
        inputs = [call.rows(x) for x in _at(call, i, len(call.outputs))]
        joined = concatenate(inputs)
        whole = joined.group(np.zeros(joined.count, dtype=np.int64), 1)
        rows.append(whole.take(np.zeros(out.numel(), dtype=np.int64)))
    return rows


def _at(call: Call, i: int, num: int) -> list[Tensor]:
    found = []
    for value in call.arguments.values():
        tensors = tensors_in(value)
        several = isinstance(value, list | tuple) and len(tensors) == num
        found += tensors[i : i + 1] if several else tensors
    return found
