"""Memory for large results.

The C library takes blocks above 32 MiB fresh from the system each time and gives them
back when they are freed. Writing to them for the first time costs a fault per page of
4 KiB, as much as the attention itself; huge pages make it one per 2 MiB.
"""

import ctypes
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

LARGE = 32 * 2**20  # bytes
ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux only


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """`torch.empty`, on huge pages where the system grants them and it is large."""
    tensor = torch.empty(shape, dtype=dtype, device="cpu")
    size = tensor.nbytes
    if ADVICE is not None and size > LARGE:
        page = mmap.PAGESIZE
        start = -(-tensor.data_ptr() // page) * page
        length = (tensor.data_ptr() + size - start) // page * page
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), ADVICE)
    return tensor
