"""Functions of FOPPL on vectors, maps and matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import torch
from torch import Tensor

from gsdm_pyg.programs.foppl.place import Misuse
from gsdm_pyg.programs.foppl.values import (
    Value,
    choose,
    describe,
    numbers,
    select,
    vector,
    whole,
)

Builtin = Callable[..., Value]


def _vector(*items: Value) -> Value:
    return items


def _map(*items: Value) -> Value:
    if len(items) % 2:
        raise Misuse(f"takes keys and values in turn (got {len(items)} of them).")
    return {
        _key(key): value for key, value in zip(items[::2], items[1::2], strict=True)
    }


def _key(key: Value) -> Value:
    if not isinstance(key, str | int | float):
        raise Misuse(
            "takes a keyword, a string or a constant number as a key, such as :mean "
            f"(got {describe(key)})."
        )
    return key


def _get(collection: Value, key: Value, *default: Value) -> Value:
    if len(default) > 1:
        raise Misuse(f"takes one default value (got {len(default)}).")
    if isinstance(collection, dict):
        if _key(key) not in collection and not default:
            known = ", ".join(map(describe, collection)) or "none"
            raise Misuse(f"finds no such key; known: {known} (got {describe(key)}).")
        return collection.get(key, *default)
    items = vector(collection)
    if isinstance(key, Tensor):
        return _at(items, key)
    if default and whole(key) >= len(items):
        return default[0]
    return items[_index(items, key)]


def _at(items: tuple[Value, ...], index: Tensor) -> Value:
    if not items:
        raise Misuse("takes a vector with items (got an empty one).")
    return select(items, index)


def _index(items: tuple[Value, ...], index: Value) -> int:
    if whole(index) >= len(items):
        raise Misuse(f"takes an index below {len(items)}, the count (got {index}).")
    return index


def _put(collection: Value, key: Value, value: Value) -> Value:
    if isinstance(collection, dict):
        return {**collection, _key(key): value}
    items = vector(collection)
    if isinstance(key, Tensor):
        numbers([key])
        return tuple(choose(key == i, value, item) for i, item in enumerate(items))
    at = _index(items, key)
    return (*items[:at], value, *items[at + 1 :])


def _nth(items: Value, index: Value) -> Value:
    return _get(vector(items), index)


def _item(place: int) -> Builtin:
    """An item by its constant place, from the end if negative."""

    def function(items: Value) -> Value:
        if not -len(vector(items)) <= place < len(items):
            raise Misuse(f"takes a longer vector (got {describe(items)}).")
        return items[place]

    return function


def _rest(items: Value) -> Value:
    return vector(items)[1:]


def _append(items: Value, *more: Value) -> Value:
    return (*vector(items), *more)


def _range(first: Value, *end: Value) -> Value:
    if len(end) > 1:
        raise Misuse(f"takes an end, or a start and an end (got {1 + len(end)}).")
    bounds = [whole(bound) for bound in (first, *end)]
    return tuple(range(*bounds))


def _count(collection: Value) -> Value:
    return len(collection if isinstance(collection, dict) else vector(collection))


# Matrices: vectors of rows


def _matrix(value: Value) -> tuple[tuple[Value, ...], ...]:
    rows = vector(value)
    widths = {len(vector(row)) for row in rows}
    if len(widths) != 1 or 0 in widths:
        raise Misuse("takes a matrix, a vector of rows of one length (got no such).")
    for row in rows:
        numbers(row)
    return rows


def _mat_mul(a: Value, b: Value) -> Value:
    columns = _mat_transpose(b)
    if len(_matrix(a)[0]) != len(columns[0]):
        raise Misuse(
            "takes as many columns of the first matrix as rows of the second "
            f"(got {len(a[0])} and {len(columns[0])})."
        )
    return tuple(
        tuple(sum(map(operator.mul, row, column)) for column in columns) for row in a
    )


def _mat_add(a: Value, b: Value) -> Value:
    if (len(_matrix(a)), len(a[0])) != (len(_matrix(b)), len(b[0])):
        raise Misuse("takes two matrices of one shape (got different ones).")
    return tuple(tuple(map(operator.add, *rows)) for rows in zip(a, b, strict=True))


def _mat_transpose(a: Value) -> Value:
    return tuple(zip(*_matrix(a), strict=True))


def _mat_tanh(a: Value) -> Value:
    return tuple(tuple(map(_tanh, row)) for row in _matrix(a))


def _tanh(x: Value) -> Value:
    return torch.tanh(x) if isinstance(x, Tensor) else math.tanh(x)


VECTORS: dict[str, Builtin] = {
    "vector": _vector,
    "hash-map": _map,
    "get": _get,
    "put": _put,
    "nth": _nth,
    "first": _item(0),
    "second": _item(1),
    "last": _item(-1),
    "rest": _rest,
    "conj": _append,
    "append": _append,
    "range": _range,
    "count": _count,
    "mat-mul": _mat_mul,
    "mat-add": _mat_add,
    "mat-transpose": _mat_transpose,
    "mat-tanh": _mat_tanh,
}
