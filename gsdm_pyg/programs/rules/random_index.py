"""Rules for reading at an index that is itself random.

`x[i]` depends on i, and on all elements of x along the axes that i indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.programs.errors import error
from gsdm_pyg.programs.rows import Rows, empty, union
from gsdm_pyg.programs.rules.call import (
    Call,
    Rule,
    broadcast,
    everything,
    flat,
    lines,
    positions,
)


def anywhere(call: Call) -> list[Rows]:
    """Any element may be moved to any place."""
    check_masks(call, [x for x in call.tensors() if x is not call["self"]])
    return everything(call)


def check_masks(call: Call, indices: Sequence[Tensor | None]) -> None:
    """Reject random masks: how many elements they choose is random."""
    for index in indices:
        if index is not None and index.dtype == torch.bool and call.is_random(index):
            raise error(
                "The shape of x[mask] depends on a random value: use torch.where(mask, "
                "x, 0), which keeps the shape (got a random mask)."
            )


def whole_numbers(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices with constant masks as numbers, one index per axis."""
    found: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            found += index.nonzero().unbind(1)
        else:
            found.append(index)
    return found


def random_axes(call: Call, indices: Sequence[Tensor | None]) -> list[int]:
    """The axes whose index is random."""
    return [dim for dim, index in enumerate(indices) if call.is_random(index)]


def index_rows(call: Call, indices: Sequence[Any], out: Tensor) -> Rows:
    """What the indices of `x[indices]` depend on, as rows of the elements of `out`.

    The indices broadcast together. Their axes replace those that they index, or come
    first if these are not adjacent.
    """
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    given = [indices[dim] for dim in dims]
    shape = torch.broadcast_shapes(*(index.shape for index in given))
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    before = dims[0] if adjacent else 0
    after = out.dim() - before - len(shape)
    place = positions(shape).view(*[1] * before, *shape, *[1] * after)
    rows = union([broadcast(call.rows(index), index, shape) for index in given])
    return rows.take(flat(place.expand(out.shape)))


def _index(call: Call) -> list[Rows]:
    """`x[i, :, j]`."""
    check_masks(call, call["indices"])
    x, out, indices = call["self"], call.outputs[0], whole_numbers(call["indices"])
    places = tuple(slice(None) if index is None else index for index in indices)
    line = lines(x.shape, random_axes(call, indices))
    return _pick(call, x, line, line[places], index_rows(call, indices, out))


def _along(call: Call) -> list[Rows]:
    """`gather` and `index_select`, along one axis."""
    x, out, index, dim = call["self"], call.outputs[0], call["index"], call["dim"]
    line = lines(x.shape, [dim % max(x.dim(), 1)])
    if call.name == "gather":
        return _pick(call, x, line, line.gather(dim, index), call.rows(index))
    place = positions(index.shape).view(-1, *[1] * (out.dim() - dim % out.dim() - 1))
    chosen = call.rows(index).take(flat(place.expand(out.shape)))
    return _pick(call, x, line, line.index_select(dim, index), chosen)


def _embedding(call: Call) -> list[Rows]:
    """Rows of a table."""
    weight, indices, out = call["weight"], call["indices"], call.outputs[0]
    line = lines(weight.shape, [0])
    place = positions(indices.shape)[..., None].expand(out.shape)
    chosen = call.rows(indices).take(flat(place))
    return _pick(call, weight, line, line[indices], chosen)


def _pick(
    call: Call, x: Tensor, line: Tensor, picked: Tensor, chosen: Rows
) -> list[Rows]:
    """Whole lines of x, and what the index depends on.

    Args:
        call: The call.
        x: The tensor that is read.
        line: The line of each element of x.
        picked: The line that each element of the result is read from.
        chosen: What the index of each element of the result depends on.
    """
    if not call.outputs[0].numel():
        return [empty(0)]
    united = call.rows(x).group(flat(line), x.numel())
    return [union([united.take(flat(picked)), chosen])]


RANDOM_INDEX_RULES: Mapping[str, Rule] = {
    "index": _index,
    "_unsafe_index": _index,
    "gather": _along,
    "index_select": _along,
    "embedding": _embedding,
}
