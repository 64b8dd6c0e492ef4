"""Which nodes each element of a tensor depends on, as a boolean matrix.

Rows are elements, columns are nodes. The matrix is held as two vectors: the entries'
elements, in rising order, and their nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Element `element[i]` depends on node `node[i]`; sorted, without duplicates."""

    count: int  # elements, with or without entries
    element: Ints  # [K]
    node: Ints  # [K]

    @cached_property
    def starts(self) -> Ints:
        """Where the entries of each element begin, [count + 1]."""
        return np.searchsorted(self.element, np.arange(self.count + 1))

    def depends(self) -> NDArray[np.bool_]:
        """Which elements depend on anything, [count]."""
        found = np.zeros(self.count, dtype=bool)
        found[self.element] = True
        return found

    def __bool__(self) -> bool:
        return bool(self.element.size)

    def take(self, positions: Ints) -> Rows:
        """The rows of the elements at `positions`; -1 stands for an empty row."""
        if not self:
            return empty(positions.size)
        starts = np.append(self.starts, self.element.size)  # -1 finds an empty row
        first, last = starts[positions], starts[positions + 1]
        last = np.where(positions < 0, first, last)
        length = last - first
        offset = np.arange(length.sum()) - np.repeat(length.cumsum() - length, length)
        element = np.repeat(np.arange(positions.size), length)
        node = self.node[np.repeat(first, length) + offset]
        return Rows(positions.size, element, node)

    def group(self, target: Ints, count: int) -> Rows:
        """`count` elements; each unites the rows of all elements that it is target of.

        Args:
            target: The new element of each old one; -1 leaves it out.
            count: The number of new elements.
        """
        element = target[self.element]
        keep = element >= 0
        return _sorted(count, element[keep], self.node[keep])

    def keep(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows of the elements in the mask [count]; the others become empty."""
        kept = mask[self.element]
        return Rows(self.count, self.element[kept], self.node[kept])

    def replace(self, positions: Ints, rows: Rows) -> Rows:
        """The same with other rows at `positions`."""
        mask = np.ones(self.count, dtype=bool)
        mask[positions] = False
        old = self.keep(mask)
        element = np.concatenate([old.element, positions[rows.element]])
        return _sorted(self.count, element, np.concatenate([old.node, rows.node]))


def empty(count: int) -> Rows:
    """Elements that depend on nothing."""
    nothing = np.empty(0, dtype=np.int64)
    return Rows(count, nothing, nothing)


def identity(first: int, count: int) -> Rows:
    """Elements that depend on one node each, numbered from `first`."""
    element = np.arange(count)
    return Rows(count, element, element + first)


def union(rows: Sequence[Rows]) -> Rows:
    """Element by element, all nodes that any of the rows has."""
    filled = [r for r in rows if r]
    if len(filled) < 2:
        return filled[0] if filled else empty(rows[0].count)
    return _sorted(
        rows[0].count,
        np.concatenate([r.element for r in filled]),
        np.concatenate([r.node for r in filled]),
    )


def concatenate(rows: Sequence[Rows]) -> Rows:
    """The elements of all, one after the other."""
    first = np.cumsum([0, *(r.count for r in rows)])
    elements = [r.element + offset for r, offset in zip(rows, first, strict=False)]
    return Rows(
        int(first[-1]),
        np.concatenate([*elements, np.empty(0, dtype=np.int64)]),
        np.concatenate([*(r.node for r in rows), np.empty(0, dtype=np.int64)]),
    )


def _sorted(count: int, element: Ints, node: Ints) -> Rows:
    if not element.size:
        return empty(count)
    width = int(node.max()) + 1
    key = element * width + node
    step = np.diff(key)
    if (step > 0).all():
        return Rows(count, element, node)
    if (step < 0).any():
        key.sort()
        step = np.diff(key)
    key = key[np.append(True, step > 0)]
    return Rows(count, key // width, key % width)
