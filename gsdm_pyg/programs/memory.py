"""What each entry of memory depends on.

Views and in-place operators need no care: a view reads, and a change of a view writes,
the entries that it shows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.private_api import is_zero_tensor
from gsdm_pyg.programs.errors import error
from gsdm_pyg.programs.rows import Ints, Rows, empty


class Memory:
    """Rows of the entries of all memory that holds random values."""

    def __init__(self) -> None:
        # By address: the memory, so that it stays; the bytes of an entry; its rows.
        self._held: dict[int, tuple[torch.UntypedStorage, int, Rows]] = {}

    def __contains__(self, address: int) -> bool:
        return address in self._held

    def forget(self, address: int) -> None:
        """Memory that a tensor has left, as it was made larger."""
        self._held.pop(address, None)

    def rows(self, x: Tensor) -> Rows:
        """What each element of x depends on."""
        found = self._held.get(address(x))
        if found is None or not x.numel():
            return empty(x.numel())
        _, size, rows = found
        if size != x.element_size():
            rows = _resized(rows, size, x)
        return rows if _is_whole(x) else rows.take(_places(x))

    def write(self, x: Tensor, rows: Rows) -> None:
        """Set what each element of x depends on."""
        place, size = address(x), x.element_size()
        has_values = x.numel() and not (x.is_meta or is_zero_tensor(x))
        if not has_values or not (rows or place in self._held):
            return
        if not place:
            raise error(
                "Random values in sparse tensors, or in others without memory of their "
                f"own, cannot be followed: use dense tensors (got {x.layout})."
            )
        storage = x.untyped_storage()
        if not _is_whole(x):
            nothing = empty(storage.nbytes() // size)
            _, old_size, old = self._held.get(place, (storage, size, nothing))
            places = _places(x)
            if old_size > size:
                old = _resized(old, old_size, x)
            elif old_size < size:  # complex numbers over real ones
                parts, size = size // old_size, old_size
                places = (places[:, None] * parts + np.arange(parts)).reshape(-1)
                rows = rows.take(np.arange(rows.count).repeat(parts))
            rows = old.replace(places, rows)
        self._held[place] = storage, size, rows


def address(x: Tensor) -> int:
    """Where the memory of a tensor begins; 0 if it has none of its own."""
    if is_zero_tensor(x):  # one of autograd's zeros
        return 0
    try:
        return x.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse, or wrapped by torch.func
        return 0


def _is_whole(x: Tensor) -> bool:
    """Whether x is all of its memory, in its order."""
    size = x.untyped_storage().nbytes()
    return x.is_contiguous() and x.numel() * x.element_size() == size


def _places(x: Tensor) -> Ints:
    """Which entries of memory the elements of x are."""
    places = np.full((1,) * x.dim(), x.storage_offset(), dtype=np.int64)
    for dim, (length, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        axis = np.arange(length) * stride
        places = places + axis.reshape([-1 if d == dim else 1 for d in range(x.dim())])
    return places.reshape(-1)


def _resized(rows: Rows, size: int, x: Tensor) -> Rows:
    """The rows of entries of `size` bytes, for memory that x reads as another type."""
    count, new_size = x.untyped_storage().nbytes() // x.element_size(), x.element_size()
    if size > new_size:  # complex numbers as real ones
        return rows.take(np.arange(count) * new_size // size)
    target = np.arange(rows.count) * size // new_size
    return rows.group(np.where(target < count, target, -1), count)
