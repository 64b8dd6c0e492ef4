"""Rules for operators that slide a window: convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from torch import Tensor

from gsdm_pyg.programs.rows import Ints, Rows, union
from gsdm_pyg.programs.rules.call import Call, Rule, flat, lines, positions

_Pairs = tuple[Ints, Ints]  # places of the result, and a place that each sees


def convolution(call: Call) -> list[Rows]:
    """An output channel at one place depends on its window, its kernel and its bias."""
    x, weight, bias, out = call["input"], call["weight"], call["bias"], call.outputs[0]
    num_axes = x.dim() - 2
    sizes = (weight.shape[2:], call["stride"], call["padding"], call["dilation"])
    kernel, stride, padding, dilation = [_per_axis(s, num_axes) for s in sizes]
    axes = zip(
        x.shape[2:], out.shape[2:], kernel, stride, padding, dilation, strict=True
    )
    if call["transposed"]:
        found = [_window(n, m, *rest)[::-1] for m, n, *rest in axes]
    else:
        found = [_window(m, n, *rest) for m, n, *rest in axes]
    groups = call["groups"]
    united = _slide(call.rows(x), x, out, groups, found)  # [B, groups, *places]
    number = positions((out.size(0), groups, 1, *out.shape[2:]))
    shape = (out.size(0), groups, out.size(1) // groups, *out.shape[2:])
    parts = [united.take(flat(number.expand(shape)))]
    # The kernels are [out, in / groups, *kernel], or [in, out / groups, *kernel].
    channels = positions((out.size(1), *[1] * (weight.dim() - 1)))
    if call["transposed"]:
        channels = channels.view(groups, 1, -1, *[1] * num_axes)
        by_group = (groups, x.size(1) // groups, *weight.shape[1:])
        channels = channels.expand(by_group).reshape(weight.shape)
    by_channel = flat(channels.expand(weight.shape))
    channel = flat(positions((1, out.size(1), *[1] * num_axes)).expand(out.shape))
    parts.append(call.rows(weight).group(by_channel, out.size(1)).take(channel))
    if bias is not None:
        parts.append(call.rows(bias).take(channel))
    return [union(parts)]


def pool(num_axes: int) -> Rule:
    """Each channel at one place depends on its window."""

    def rule(call: Call) -> list[Rows]:
        x, out = call["self"], call.outputs[0]
        kernel = _per_axis(call["kernel_size"], num_axes)
        stride = _per_axis(call["stride"] or kernel, num_axes)
        padding = _per_axis(call["padding"], num_axes)
        dilation = _per_axis(call["dilation"] or [1], num_axes)
        before, after = x.shape[-num_axes:], out.shape[-num_axes:]
        axes = zip(before, after, kernel, stride, padding, dilation, strict=True)
        found = [_window(*axis) for axis in axes]
        shape = (1, x.shape[:-num_axes].numel())
        wide, narrow = x.reshape(*shape, *before), out.reshape(*shape, *after)
        rows = _slide(call.rows(x), wide, narrow, shape[1], found)
        return [rows] * len(call.outputs)

    return rule


def _per_axis(value: Sequence[int], num_axes: int) -> list[int]:
    """One number per axis; a single one is for all."""
    return list(value) if len(value) == num_axes else list(value) * num_axes


def _window(
    before: int, after: int, kernel: int, stride: int, padding: int, dilation: int
) -> _Pairs:
    """Along one axis: which of the places before a place after sees."""
    place = np.arange(after)[:, None]
    seen = place * stride - padding + np.arange(kernel) * dilation
    inside = (seen >= 0) & (seen < before)
    return np.broadcast_to(place, seen.shape)[inside], seen[inside]


def _slide(
    rows: Rows, x: Tensor, out: Tensor, groups: int, axes: Sequence[_Pairs]
) -> Rows:
    """The rows [B, groups, *places] of the windows, over all channels of a group."""
    lead = x.size(0) * groups
    wide = lines((lead, x.size(1) // groups, *x.shape[2:]), [1])
    united = rows.group(flat(wide), lead * x.shape[2:].numel())
    seer, seen = reduce(
        _combine,
        zip(axes, out.shape[2:], x.shape[2:], strict=True),
        (np.arange(lead), np.arange(lead)),
    )
    return united.take(seen).group(seer, lead * out.shape[2:].numel())


def _combine(outer: _Pairs, axis: tuple[_Pairs, int, int]) -> _Pairs:
    """All pairs of places of the axes so far with those of one more axis."""
    (seer, seen), after, before = axis
    return (
        (outer[0][:, None] * after + seer).reshape(-1),
        (outer[1][:, None] * before + seen).reshape(-1),
    )
