"""Rules for operators that move elements: they are applied to the elements' numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.programs.rows import Rows, concatenate
from gsdm_pyg.programs.rules.call import Call, Rule, flat, positions, tensors_in
from gsdm_pyg.programs.rules.random_index import RANDOM_INDEX_RULES, anywhere


def movement(*data: str) -> Rule:
    """Elements are moved, by constants; `data` names the inputs whose elements move.

    Numbers start at 1: entries that the operator fills in are 0 and depend on nothing.
    """

    def rule(call: Call) -> list[Rows]:
        others = [value for name, value in call.arguments.items() if name not in data]
        if any(call.is_random(value) for value in others):
            return RANDOM_INDEX_RULES.get(call.name, anywhere)(call)
        rows, first, arguments = [], 1, dict(call.arguments)
        for name in data:
            numbers = []
            for x in tensors_in(call[name]):
                numbers.append(positions(x.shape) + first)
                rows.append(call.rows(x))
                first += x.numel()
            whole = isinstance(call[name], Tensor)
            arguments[name] = numbers[0] if whole else numbers
        for name in ("value", "pad_value"):  # what is filled in is a constant
            if name in arguments and name not in data:
                filled = arguments[name]
                is_tensor = isinstance(filled, Tensor)
                arguments[name] = torch.zeros((), dtype=torch.long) if is_tensor else 0
        everywhere = concatenate(rows)
        return [everywhere.take(flat(out) - 1) for out in move(call, arguments, data)]

    return rule


def move(call: Call, arguments: dict[str, Any], data: Sequence[str]) -> list[Tensor]:
    """The results of the operator for other arguments; `data` are whole numbers."""
    try:
        result = call.function(**arguments, **_outs(call, torch.int64))
    except (RuntimeError, NotImplementedError):  # no kernel for integers
        arguments = dict(arguments)
        for name in data:
            value = arguments[name]
            several = isinstance(value, list)
            arguments[name] = [x.double() for x in value] if several else value.double()
        result = call.function(**arguments, **_outs(call, torch.float64))
    return [result] if isinstance(result, Tensor) else list(result)


def _outs(call: Call, dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: torch.empty(0, dtype=dtype) for name in call.out_names}


def embedding(call: Call) -> list[Rows]:
    """Rows of a table."""
    if call.is_random(call["indices"]):
        return RANDOM_INDEX_RULES["embedding"](call)
    columns = positions(call["weight"].shape)
    return [call.rows(call["weight"]).take(flat(columns[call["indices"]]))]
