"""The process's memory: keep what was freed for the next tensor of that size."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h


def keep_freed_memory() -> None:
    """Tell the C library not to return freed memory to the system; Linux only.

    By default large tensors come fresh from the system each time, and the first write
    to each of their pages is a fault. With this set, the process stays as large as it
    was at its peak.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc and musl differ
        if mallopt is not None:
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, -1)
