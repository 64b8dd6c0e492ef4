"""Running a kernel on several threads.

Kernels run on the OpenMP threads that torch itself uses, so that no two sets of threads
compete for the cores, through the function that compilers call for a parallel region.
OpenMP threads do not survive a fork: in forked processes, and where torch comes without
OpenMP, Python threads serve instead. Kernels run without the interpreter lock.
"""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


def find_parallel():
    """OpenMP's `GOMP_parallel(function, data, threads, flags)`, or None."""
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


as_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
parallel = find_parallel()


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "csr_attention")


def after_fork() -> None:
    global parallel
    parallel = None
    pool.cache_clear()


os.register_at_fork(after_in_child=after_fork)


def run(kernel: int, task: int, threads: int) -> None:
    """Run the kernel at the address `kernel` on up to that many threads at once."""
    if threads == 1:
        as_function(kernel)(task)
    elif parallel is not None:
        parallel(kernel, task, threads, 0)
    else:
        function = as_function(kernel)
        others = [pool().submit(function, task) for _ in range(threads - 1)]
        function(task)
        for other in others:
            other.result()
