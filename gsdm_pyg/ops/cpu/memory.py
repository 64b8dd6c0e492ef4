"""Memory for large results.

The C library requests blocks above 32 MiB from the system each time and returns them
when they are freed. The first write to each page of 4 KiB costs a page fault, in all as
much as the attention itself; with huge pages there is one fault per 2 MiB.
"""

import ctypes
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

LARGE_BYTES = 32 * 2**20
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux only


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """`torch.empty` on the CPU, on huge pages if large and if the system has them."""
    tensor = torch.empty(shape, dtype=dtype, device="cpu")
    size = tensor.nbytes
    if _HUGE_PAGES is not None and size > LARGE_BYTES:
        page = mmap.PAGESIZE
        start = -(-tensor.data_ptr() // page) * page
        length = (tensor.data_ptr() + size - start) // page * page
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(start), ctypes.c_size_t(length), _HUGE_PAGES)
    return tensor
