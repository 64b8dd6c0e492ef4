"""Rules for operators that write or add elements of a source at the places of an index.

Where several elements are written to one place, it depends on all of them, as torch
does not promise which is the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.programs.errors import error
from gsdm_pyg.programs.rows import Rows, empty, union
from gsdm_pyg.programs.rules.call import Call, broadcast, flat, lines, positions
from gsdm_pyg.programs.rules.random_index import index_rows, random_axes, whole_numbers

_Places = Callable[[Tensor], Tensor]  # numbers of self -> numbers at the index


def put(call: Call) -> list[Rows]:
    """`x[indices] = values`, or `x[indices] += values` with `accumulate`."""
    x, values = call["self"], call["values"]
    masks = [i for i in call["indices"] if i is not None and i.dtype == torch.bool]
    if any(call.is_random(mask) for mask in masks):
        return _masked(call, masks)
    indices = whole_numbers(call["indices"])
    dims = random_axes(call, indices)
    places = tuple(slice(None) if index is None else index for index in indices)
    target = positions(x.shape)[places]
    source = broadcast(call.rows(values), values, target.shape)
    chosen = index_rows(call, indices, target) if target.numel() else source
    return _place(
        call, lambda numbers: numbers[places], dims, source, chosen, call["accumulate"]
    )


def along_axis(call: Call) -> list[Rows]:
    """`index_add`, `index_copy`, `index_reduce` and `index_fill`."""
    x, index = call["self"], call["index"].reshape(-1)
    dim = call["dim"] % max(x.dim(), 1)
    target = positions(x.shape).index_select(dim, index)
    value = call["value"] if call["source"] is None else call["source"]
    source = empty(target.numel())
    if isinstance(value, Tensor):
        shape = () if value.numel() == 1 else target.shape
        source = broadcast(call.rows(value), value.reshape(shape), target.shape)
    after = [1] * (max(target.dim(), 1) - dim - 1)
    place = positions(index.shape).view(-1, *after).expand(target.shape or (1,))
    chosen = call.rows(call["index"]).take(flat(place))
    keeps = call.name in ("index_add", "index_reduce")
    return _place(
        call,
        lambda numbers: numbers.index_select(dim, index),
        [dim],
        source,
        chosen,
        keeps,
    )


def scatter(call: Call) -> list[Rows]:
    """`scatter`, `scatter_add` and `scatter_reduce`."""
    x, index, value = call["self"], call["index"], call["src"]
    dim = call["dim"] % max(x.dim(), 1)
    source = empty(index.numel())
    if isinstance(value, Tensor) and not value.dim():
        source = broadcast(call.rows(value), value, index.shape)
    elif isinstance(value, Tensor) and index.numel():
        part = positions(value.shape)[tuple(slice(n) for n in index.shape)]
        source = call.rows(value).take(flat(part))
    keeps = call.name != "scatter" or call["reduce"] is not None
    return _place(
        call,
        lambda numbers: numbers.gather(dim, index),
        [dim],
        source,
        call.rows(index),
        keeps,
    )


def _place(
    call: Call,
    places: _Places,
    dims: list[int],
    source: Rows,
    chosen: Rows,
    keeps: bool,
) -> list[Rows]:
    """The rows of `self` after the source is placed.

    Args:
        call: The call.
        places: Reads a tensor like `self` at the index.
        dims: The axes whose index is random.
        source: The rows of the source's elements.
        chosen: What the index of each of the source's elements depends on.
        keeps: Whether old values still matter, as for a sum.
    """
    x = call["self"]
    old = call.rows(x)
    if chosen:  # any place along the axes
        line = lines(x.shape, dims)
        moved = union([source, chosen]).group(flat(places(line)), x.numel())
        return [union([old, moved.take(flat(line))])]
    target = flat(places(positions(x.shape)))
    if not keeps:
        kept = np.ones(x.numel(), dtype=bool)
        kept[target] = False
        old = old.keep(kept)
    return [union([old, source.group(target, x.numel())])]


def _masked(call: Call, masks: list[Any]) -> list[Rows]:
    """`x[mask] = value` with a random mask: each element is the old or the new one."""
    x, values = call["self"], call["values"]
    if len(masks) < len(call["indices"]) or len(masks) > 1 or values.numel() != 1:
        raise error(
            "x[mask] = values with a random mask takes a single value: use "
            "torch.where(mask, values, x) (got values of shape "
            f"{tuple(values.shape)})."
        )
    (mask,) = masks
    seen = mask.view(*mask.shape, *[1] * (x.dim() - mask.dim()))
    value = broadcast(call.rows(values), values.reshape(()), x.shape)
    return [union([call.rows(x), broadcast(call.rows(mask), seen, x.shape), value])]
