"""How the elements of an operator's results depend on the elements of its inputs.

Rules are for torch's internal (ATen) operators, which all functions of torch become.
They follow values, not derivatives: a comparison or a rounding depends on its inputs.
An operator without a rule is taken to depend on everything. Views need no rule: they
share memory, and dependence is stored per entry of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.programs.errors import error
from gsdm_pyg.programs.rows import Ints, Rows, concatenate, empty, union


@dataclass(frozen=True)
class Call:
    """One call of an operator, with its arguments by name."""

    name: str  # without the underscore of operators that work in place
    function: Callable[..., Any]
    arguments: dict[str, Any]
    outputs: list[Tensor]
    rows: Callable[[Tensor], Rows]  # of an input, before the call

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def tensors(self) -> list[Tensor]:
        """All tensors among the arguments, also those in lists."""
        found = []
        for value in self.arguments.values():
            items = value if isinstance(value, list | tuple) else [value]
            found += [item for item in items if isinstance(item, Tensor)]
        return found

    def is_random(self, value: Any) -> bool:
        """Whether a value depends on any node."""
        return isinstance(value, Tensor) and bool(self.rows(value))


Rule = Callable[[Call], list[Rows]]


def positions(shape: Sequence[int]) -> Tensor:
    """The number of each element, in row-major order."""
    return torch.arange(int(np.prod(shape, dtype=np.int64))).view(tuple(shape))


def flat(x: Tensor) -> Ints:
    return x.reshape(-1).to(torch.int64).numpy()


def broadcast(rows: Rows, x: Tensor, shape: Sequence[int]) -> Rows:
    """The rows of x, broadcast to a shape."""
    if tuple(x.shape) == tuple(shape):
        return rows
    return rows.take(flat(positions(x.shape).expand(tuple(shape))))


# Elementwise


def elementwise(call: Call) -> list[Rows]:
    """Element i of the result depends on element i of each (broadcast) input."""
    return [
        union([broadcast(call.rows(x), x, out.shape) for x in call.tensors()])
        for out in call.outputs
    ]


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
    """Each value is looked up in a whole table."""

    def rule(call: Call) -> list[Rows]:
        x, out = call[values], call.outputs[0]
        if not isinstance(x, Tensor) or call[table].dim() > 1:
            return everything(call)
        rows = call.rows(call[table])
        whole = rows.group(np.zeros(rows.count, dtype=np.int64), 1)
        everywhere = whole.take(np.zeros(out.numel(), dtype=np.int64))
        return [union([everywhere, broadcast(call.rows(x), x, out.shape)])]

    return rule


def constant(call: Call) -> list[Rows]:
    """The result holds no input's values."""
    return [empty(out.numel()) for out in call.outputs]


def everything(call: Call) -> list[Rows]:
    """Each element of each result depends on all elements of all inputs."""
    rows = concatenate([call.rows(x) for x in call.tensors()])
    whole = rows.group(np.zeros(rows.count, dtype=np.int64), 1)
    return [whole.take(np.zeros(out.numel(), dtype=np.int64)) for out in call.outputs]


# Movement: the operator is applied to the numbers of the elements


def movement(*data: str) -> Rule:
    """Elements are moved, by constants; `data` names the inputs whose elements move.

    Numbers start at 1: entries that the operator fills in are 0 and depend on nothing.
    """

    def rule(call: Call) -> list[Rows]:
        inputs = [_data(call[name]) for name in data]
        moved = [x for group in inputs for x in group]
        for name, value in call.arguments.items():
            if name not in data and _any_random(call, value):
                return _random_place(call, moved, value)
        rows, first, arguments = [], 1, dict(call.arguments)
        for name, group in zip(data, inputs, strict=True):
            numbers = []
            for x in group:
                numbers.append(positions(x.shape) + first)
                rows.append(call.rows(x))
                first += x.numel()
            whole = isinstance(call[name], Tensor)
            arguments[name] = numbers[0] if whole else numbers
        for name in ("value", "pad_value"):  # what is filled in is a constant
            if name in arguments and name not in data:
                arguments[name] = 0
        result = _apply(call, arguments, data)
        everywhere = concatenate(rows)
        return [everywhere.take(flat(out) - 1) for out in result]

    return rule


def _apply(call: Call, arguments: dict[str, Any], data: Sequence[str]) -> list[Tensor]:
    try:
        result = call.function(**arguments)
    except (RuntimeError, NotImplementedError):  # no kernel for integers
        for name in data:
            value = arguments[name]
            several = isinstance(value, list)
            arguments[name] = [x.double() for x in value] if several else value.double()
        result = call.function(**arguments)
    return [result] if isinstance(result, Tensor) else list(result)


def _data(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def _any_random(call: Call, value: Any) -> bool:
    items = value if isinstance(value, list | tuple) else [value]
    return any(call.is_random(item) for item in items)


def _random_place(call: Call, moved: list[Tensor], index: Any) -> list[Rows]:
    """Where an index is random: any element may be moved to any place.

    For `x[index]` that is any element along the axes that are indexed.
    """
    indices = index if isinstance(index, list | tuple) else [index]
    for item in indices:
        if isinstance(item, Tensor) and item.dtype == torch.bool:
            raise error(
                "The shape of x[mask] depends on a random value: use torch.where(mask, "
                "x, 0), which keeps the shape (got a random mask)."
            )
    rule = _PICKS.get(call.name)
    return everything(call) if rule is None else rule(call)


def _pick(call: Call, dims: Sequence[int], chosen: Rows) -> list[Rows]:
    """Any element of `self` along `dims`, and the index rows `chosen`."""
    x, out = call["self"], call.outputs[0]
    group = positions(x.shape)
    for dim in dims:
        group = group.narrow(dim, 0, 1).expand(x.shape)
    united = call.rows(x).group(flat(group), x.numel())
    (place,) = _apply(call, {**call.arguments, "self": group.contiguous()}, ["self"])
    return [union([united.take(flat(place)), chosen])] if out.numel() else [empty(0)]


def _pick_index(call: Call) -> list[Rows]:
    """`index`: the indices broadcast together; they are in place of the first axis."""
    out, indices = call.outputs[0], call["indices"]
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    given = [indices[dim] for dim in dims]
    shape = torch.broadcast_shapes(*(index.shape for index in given))
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    before = dims[0] if adjacent else 0
    after = out.dim() - before - len(shape)
    place = positions(shape).view(*[1] * before, *shape, *[1] * after)
    rows = union([broadcast(call.rows(index), index, shape) for index in given])
    return _pick(call, dims, rows.take(flat(place.expand(out.shape))))


def _pick_along(call: Call) -> list[Rows]:
    """`gather` and `index_select`, along one axis."""
    out, index, dim = call.outputs[0], call["index"], call["dim"]
    dim = dim % max(out.dim(), 1)
    rows = call.rows(index)
    if call.name == "index_select":
        place = positions(index.shape).view(-1, *[1] * (out.dim() - dim - 1))
        rows = rows.take(flat(place.expand(out.shape)))
    return _pick(call, [dim] if call["self"].dim() else [], rows)


_PICKS: Mapping[str, Rule] = {
    "index": _pick_index,
    "_unsafe_index": _pick_index,
    "gather": _pick_along,
    "index_select": _pick_along,
}


def embedding(call: Call) -> list[Rows]:
    """Rows of a table."""
    weight, indices, out = call["weight"], call["indices"], call.outputs[0]
    place = positions(indices.shape)[..., None].expand(out.shape)
    columns = positions(weight.shape)
    rows = call.rows(weight)
    if call.is_random(indices):
        rows = rows.group(flat(columns[:1].expand(weight.shape)), rows.count)
    taken = rows.take(flat(columns[indices]))
    return [union([taken, call.rows(indices).take(flat(place))])]


def accumulation(call: Call) -> list[Rows]:
    """Elements of a source are added to those of `self` at constant places."""
    x, source = call["self"], call["src"]
    source = call["source"] if source is None else source
    source = call["values"] if source is None else source
    index = call["indices"] if call["index"] is None else call["index"]
    if not isinstance(source, Tensor) or _any_random(call, index):
        return everything(call)
    if call.name == "index_put" and not call["accumulate"]:
        return movement("self", "values")(call)
    numbers = positions(x.shape)
    if call.name == "index_put":
        places = [slice(None) if i is None else i for i in index]
        target = numbers[tuple(places)]
        own = broadcast(call.rows(source), source, target.shape)
    elif call.name in ("index_add", "index_reduce"):
        target, own = numbers.index_select(call["dim"], index), call.rows(source)
    else:  # scatter_add, scatter_reduce
        target = numbers.gather(call["dim"], index)
        part = positions(source.shape)[tuple(slice(n) for n in index.shape)]
        own = call.rows(source).take(flat(part))
    return [union([call.rows(x), own.group(flat(target), x.numel())])]


def scatter(call: Call) -> list[Rows]:
    """`scatter` of a tensor or a number."""
    if call["reduce"] is not None:
        return everything(call)
    data = ("self", "src") if call["src"] is not None else ("self",)
    return movement(*data)(call)


# Along axes


def _dims(call: Call, x: Tensor) -> list[int]:
    """The axes of the argument `dim`, or all."""
    dim = call["dim"]
    chosen = [dim] if isinstance(dim, int) else list(dim or range(x.dim()))
    return [d % x.dim() for d in chosen] if x.dim() else []


def _united(call: Call, x: Tensor, dims: Sequence[int], out: Tensor) -> Rows:
    """Rows of the elements of `out`, each of all elements of x along `dims`."""
    kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
    numbers = positions(kept)
    rows = call.rows(x).group(flat(numbers.expand(x.shape)), numbers.numel())
    if out.dim() == x.dim():
        return rows.take(flat(numbers.expand(out.shape)))
    return rows.take(flat(numbers.reshape(out.shape)))


def along(call: Call) -> list[Rows]:
    """A reduction, a sorting or a normalization along axes."""
    x = call["self"]
    rows = [_united(call, x, _dims(call, x), out) for out in call.outputs]
    others = [y for y in call.tensors() if y is not x and call.is_random(y)]
    return everything(call) if others else rows


def prefix(call: Call) -> list[Rows]:
    """Element i along the axis depends on elements 0..i."""
    x = call["self"]
    dim = call["dim"] % max(x.dim(), 1)
    length = x.size(dim) if x.dim() else 1
    numbers = (
        positions(x.shape).movedim(dim, 0).reshape(length, -1)
        if x.dim()
        else (positions((1, 1)))
    )
    later, earlier = np.tril_indices(length)
    target, source = numbers[later], numbers[earlier]
    rows = call.rows(x).take(flat(source)).group(flat(target), x.numel())
    return [rows] * len(call.outputs)


def last_axes(count: int, *inputs: str) -> Rule:
    """Whole matrices (2 axes) or vectors (1), by the leading axes."""

    def rule(call: Call) -> list[Rows]:
        named = [call[name] for name in inputs if call[name] is not None]
        named = named or call.tensors()[:1]
        x = named[0]
        if len(named) > 1 or x.dim() <= count or len(call.tensors()) > len(named):
            return everything(call)
        lead = x.shape[: x.dim() - count]
        number = positions((*lead, *[1] * count)).expand(x.shape)
        united = call.rows(x).group(flat(number), int(np.prod(lead)))
        rows = []
        for out in call.outputs:
            if out.shape[: len(lead)] != lead:
                return everything(call)
            after = [1] * (out.dim() - len(lead))
            place = positions(lead).view(*lead, *after).expand(out.shape)
            rows.append(united.take(flat(place)))
        return rows

    return rule


def layer_norm(call: Call) -> list[Rows]:
    x, out = call["input"], call.outputs[0]
    dims = list(range(x.dim() - len(call["normalized_shape"]), x.dim()))
    if any(call.is_random(call[name]) for name in ("weight", "bias")):
        return everything(call)
    return [_united(call, x, dims, y) for y in (out, *call.outputs[1:])]


# Products of matrices and convolutions


def matmul(first: str, second: str, added: str | None = None) -> Rule:
    """Products over the axis that both share; terms with a constant zero are left out.

    Vectors are matrices of one row (`first`) or one column (`second`).
    """

    def rule(call: Call) -> list[Rows]:
        a, b, out = call[first], call[second], call.outputs[0]
        left = a if a.dim() > 1 else a[None]
        right = b if b.dim() > 1 else b[:, None]
        shape = (left.shape[:-1].numel() // left.size(-2), *left.shape[-2:])
        rows = _product(
            left.reshape(shape),
            call.rows(a),
            right.reshape(shape[0], *right.shape[-2:]),
            call.rows(b),
        )
        if call.name == "addbmm":  # the sum over the batch
            numbers = np.tile(np.arange(out.numel()), shape[0])
            rows = rows.group(numbers, out.numel())
        if added is None:
            return [rows]
        return [
            union([rows, broadcast(call.rows(call[added]), call[added], out.shape)])
        ]

    return rule


def _product(a: Tensor, a_rows: Rows, b: Tensor, b_rows: Rows) -> Rows:
    """Rows of a @ b, for a [B, I, L] and b [B, L, J]."""
    num, rows, inner = a.shape
    columns = b.size(2)
    a_used = torch.from_numpy(a_rows.depends()).view(a.shape) | (a != 0)
    b_used = torch.from_numpy(b_rows.depends()).view(b.shape) | (b != 0)
    out = positions((num, rows, columns))
    if bool(a_used.all()) and bool(b_used.all()):
        by_row = a_rows.group(np.arange(num * rows).repeat(inner), num * rows)
        column = positions((num, 1, columns)).expand(b.shape)
        by_column = b_rows.group(flat(column), num * columns)
        row = positions((num, rows, 1)).expand(out.shape)
        column = positions((num, 1, columns)).expand(out.shape)
        return union([by_row.take(flat(row)), by_column.take(flat(column))])
    # All products a[n, i, l] b[n, l, j] of which neither factor is a constant zero.
    n, i, level = a_used.nonzero().unbind(1)
    key = n * inner + level
    m, other, j = b_used.nonzero().unbind(1)  # sorted by (m, other)
    counts = torch.bincount(m * inner + other, minlength=num * inner)
    first = counts.cumsum(0) - counts
    repeats = counts[key]
    offset = torch.arange(int(repeats.sum())) - (
        repeats.cumsum(0) - repeats
    ).repeat_interleave(repeats)
    which = first[key].repeat_interleave(repeats) + offset
    a_at = ((n * rows + i) * inner + level).repeat_interleave(repeats)
    b_at = ((m * inner + other) * columns + j)[which]
    at = (n * rows + i).repeat_interleave(repeats) * columns + j[which]
    target = flat(at)
    return union(
        [
            a_rows.take(flat(a_at)).group(target, out.numel()),
            b_rows.take(flat(b_at)).group(target, out.numel()),
        ]
    )


def convolution(call: Call) -> list[Rows]:
    """An output channel at one place depends on its window, its kernel and its bias."""
    x, weight, bias, out = call["input"], call["weight"], call["bias"], call.outputs[0]
    if call["transposed"]:
        return everything(call)
    groups, num_axes = call["groups"], x.dim() - 2
    numbers = positions(x.shape) + 1
    pads = [pad for pad in reversed(call["padding"]) for _ in range(2)]
    window = torch.nn.functional.pad(numbers, pads)  # zeros: nothing
    for axis in range(num_axes):
        size, gap = weight.size(2 + axis), call["dilation"][axis]
        window = window.unfold(2 + axis, (size - 1) * gap + 1, call["stride"][axis])
        window = window[..., ::gap]  # [B, channels, *places, *kernel]
    window = window.unflatten(1, (groups, -1)).movedim(2, -1).contiguous()
    places = positions(window.shape[: 2 + num_axes])  # [B, groups, *places]
    owner = places.view(*places.shape, *[1] * (num_axes + 1)).expand(window.shape)
    united = call.rows(x).take(flat(window) - 1).group(flat(owner), places.numel())
    per_group = out.size(1) // groups
    place = places[:, :, None].expand(-1, -1, per_group, *out.shape[2:])
    channel = positions((1, out.size(1), *[1] * num_axes)).expand(out.shape)
    kernel = np.arange(weight.size(0)).repeat(weight[0].numel())
    parts = [
        united.take(flat(place)),
        call.rows(weight).group(kernel, weight.size(0)).take(flat(channel)),
    ]
    if bias is not None:
        parts.append(call.rows(bias).take(flat(channel)))
    return [union(parts)]


def _table(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, Rule] = {
    **_table(product, "mul"),
    **_table(choice("condition", "self", "other"), "where"),
    **_table(choice("mask", "value", "self"), "masked_fill"),
    **_table(elementwise, "clone _to_copy contiguous lift_fresh expand_copy complex"),
    **_table(replaced("src"), "copy"),
    **_table(replaced("value"), "fill"),
    **_table(lookup("boundaries", "self"), "bucketize"),
    **_table(lookup("sorted_sequence", "self"), "searchsorted"),
    **_table(constant, "zero zeros_like ones_like full_like empty_like new_zeros"),
    **_table(constant, "new_ones new_full new_empty empty_strided new_empty_strided"),
    **_table(
        movement("self"), "index _unsafe_index index_select gather take flip roll"
    ),
    **_table(movement("self"), "repeat constant_pad_nd tril triu diag_embed rot90"),
    **_table(movement("self"), "reflection_pad1d reflection_pad2d reflection_pad3d"),
    **_table(movement("self"), "replication_pad1d replication_pad2d replication_pad3d"),
    **_table(movement("self"), "upsample_nearest1d upsample_nearest2d pixel_shuffle"),
    **_table(movement("self"), "pixel_unshuffle im2col channel_shuffle index_fill"),
    **_table(movement("self"), "diagonal_copy select_copy slice_copy permute_copy"),
    **_table(movement("self"), "view_copy unfold_copy as_strided_copy squeeze_copy"),
    **_table(movement("tensors"), "cat stack _unsafe_cat block_diag"),
    **_table(movement("self", "src"), "slice_scatter select_scatter"),
    **_table(movement("self", "src"), "diagonal_scatter as_strided_scatter"),
    **_table(movement("self", "source"), "index_copy masked_scatter"),
    **_table(accumulation, "index_put _unsafe_index_put index_add index_reduce"),
    **_table(accumulation, "scatter_add scatter_reduce"),
    **_table(
        along, "sum mean prod amax amin max min all any var std var_mean std_mean"
    ),
    **_table(along, "logsumexp norm linalg_vector_norm argmax argmin count_nonzero"),
    **_table(along, "nansum median nanmedian mode kthvalue aminmax sort argsort topk"),
    **_table(along, "_softmax _log_softmax softmax log_softmax msort glu"),
    **_table(along, "_is_all_true _is_any_true _fft_r2c _fft_c2c _fft_c2r"),
    **_table(prefix, "cumsum cumprod logcumsumexp cummax cummin _cummax_helper"),
    **_table(matmul("self", "mat2"), "mm bmm"),
    **_table(matmul("self", "vec"), "mv"),
    **_table(matmul("mat1", "mat2", "self"), "addmm"),
    **_table(matmul("mat", "vec", "self"), "addmv"),
    **_table(matmul("batch1", "batch2", "self"), "baddbmm addbmm"),
    **_table(matmul("self", "tensor"), "dot"),
    **_table(convolution, "convolution"),
    **_table(layer_norm, "native_layer_norm"),
    **_table(embedding, "embedding"),
    **_table(last_axes(2), "linalg_inv_ex linalg_cholesky_ex linalg_qr _linalg_svd"),
    **_table(last_axes(2), "_linalg_eigh linalg_eig linalg_matrix_exp _linalg_det"),
    **_table(last_axes(2), "_linalg_slogdet cholesky_inverse linalg_lu_factor_ex"),
    **_table(last_axes(2), "linalg_pinv trace cholesky linalg_lu"),
    **_table(
        last_axes(2),
        "max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d upsample_bilinear2d",
    ),
    **_table(everything, "linalg_solve_triangular _linalg_solve_ex cholesky_solve"),
    **_table(everything, "triangular_solve linalg_lstsq histc bincount renorm"),
    **_table(everything, "_cdist_forward _euclidean_dist cross linalg_cross"),
    **_table(everything, "put addr"),
    **_table(scatter, "scatter"),
}
