"""Rules for operators along axes: reductions, sorting, cumulative sums, matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.programs.rows import Rows, union
from gsdm_pyg.programs.rules.call import (
    Call,
    Rule,
    broadcast,
    everything,
    flat,
    lines,
    positions,
)


def along(call: Call) -> list[Rows]:
    """A reduction, a sorting or a normalization along axes."""
    x = call["self"]
    if any(call.is_random(y) for y in call.tensors() if y is not x):
        return everything(call)
    dims = _dims(call["dim"], x)
    return [_united(call.rows(x), x, dims, out) for out in call.outputs]


def _dims(dim: Any, x: Tensor) -> list[int]:
    """The axes of the argument `dim`, or all."""
    chosen = [dim] if isinstance(dim, int) else list(dim or range(x.dim()))
    return [d % x.dim() for d in chosen] if x.dim() else []


def _united(rows: Rows, x: Tensor, dims: Sequence[int], out: Tensor) -> Rows:
    """Rows of the elements of `out`, each of all elements of x along `dims`."""
    kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
    numbers = positions(kept)
    united = rows.group(flat(numbers.expand(x.shape)), numbers.numel())
    if out.dim() == x.dim():
        return united.take(flat(numbers.expand(out.shape)))
    return united.take(flat(numbers.reshape(out.shape)))


def prefix(call: Call) -> list[Rows]:
    """Element i along the axis depends on elements 0..i."""
    x = call["self"]
    numbers = positions(x.shape or (1,)).movedim(call["dim"], 0)
    numbers = numbers.reshape(len(numbers), -1)
    later, earlier = np.tril_indices(len(numbers))
    target, source = numbers[later], numbers[earlier]
    rows = call.rows(x).take(flat(source)).group(flat(target), x.numel())
    return [rows] * len(call.outputs)


def last_axes(count: int) -> Rule:
    """Whole matrices (2 axes) or vectors (1) of all inputs, by their leading axes.

    The leading axes of the inputs broadcast, and those of the results are the same.
    """

    def rule(call: Call) -> list[Rows]:
        inputs = call.tensors()
        if any(x.dim() < count for x in inputs):
            return everything(call)
        leads = [tuple(x.shape[: x.dim() - count]) for x in inputs]
        lead = torch.broadcast_shapes(*leads)
        if any(tuple(out.shape[: len(lead)]) != lead for out in call.outputs):
            return everything(call)
        parts = []
        for x, own in zip(inputs, leads, strict=True):
            line = lines(x.shape, range(x.dim() - count, x.dim()))
            united = call.rows(x).group(flat(line), int(np.prod(own)))
            parts.append(broadcast(united, torch.empty(own), lead))
        rows = union(parts)
        return [
            rows.take(flat(lines(out.shape, range(len(lead), out.dim()))))
            for out in call.outputs
        ]

    return rule


def layer_norm(call: Call) -> list[Rows]:
    """Along the last axes; then element by element with a weight and a bias."""
    x, shape = call["input"], call["normalized_shape"]
    dims = list(range(x.dim() - len(shape), x.dim()))
    out, *moments = [_united(call.rows(x), x, dims, out) for out in call.outputs]
    learned = [y for y in (call["weight"], call["bias"]) if y is not None]
    scaled = [broadcast(call.rows(y), y, call.outputs[0].shape) for y in learned]
    return [union([out, *scaled]), *moments]


def cross(call: Call) -> list[Rows]:
    """The cross product along one axis."""
    out = call.outputs[0]
    dims = _dims(-1 if call["dim"] is None else call["dim"], out)
    parts = [broadcast(call.rows(x), x, out.shape) for x in call.tensors()]
    return [_united(union(parts), out, dims, out)]
