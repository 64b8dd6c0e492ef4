"""Running a kernel on several threads.

Kernels run on the OpenMP threads that torch itself uses, so that one set of threads
uses the cores, through the function that compilers call for a parallel region.
OpenMP threads do not survive a fork: forked processes, and a torch without OpenMP, use
Python threads instead. Kernels run without the interpreter lock.
"""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


def _find_gomp_parallel():
    """OpenMP's `GOMP_parallel(function, data, threads, flags)`, or None."""
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


_KernelFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_gomp_parallel = _find_gomp_parallel()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "csr_attention")


def _after_fork() -> None:
    global _gomp_parallel
    _gomp_parallel = None
    _pool.cache_clear()


os.register_at_fork(after_in_child=_after_fork)


def run_kernel(kernel: int, task: int, threads: int) -> None:
    """Run the kernel at the address `kernel` on up to that many threads at once."""
    if threads == 1:
        _KernelFunction(kernel)(task)
    elif _gomp_parallel is not None:
        _gomp_parallel(kernel, task, threads, 0)
    else:
        function = _KernelFunction(kernel)
        others = [_pool().submit(function, task) for _ in range(threads - 1)]
        function(task)
        for other in others:
            other.result()
