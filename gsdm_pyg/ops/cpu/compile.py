"""Compiled kernels: specialised on first use, kept in memory and on disk."""

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import cfunc, types

from gsdm_pyg.ops.cpu import (
    backward_edge_kernels,
    backward_kernels,
    combine_kernels,
    forward_kernels,
    island_kernels,
    norm_kernels,
)

logger = logging.getLogger("gsdm_pyg")

LOADED: list[Any] = []  # a kernel's code lives as long as its object

KERNELS: dict[str, Callable[..., Callable]] = {
    "forward": forward_kernels.make_forward,
    "combine_forward": combine_kernels.make_combine_forward,
    "stats": backward_kernels.make_stats,
    "backward": backward_kernels.make_backward,
    "backward_edges": backward_edge_kernels.make_backward_edges,
    "backward_keys": backward_edge_kernels.make_backward_keys,
    "combine_backward": combine_kernels.make_combine_backward,
    "find_islands": island_kernels.make_find_islands,
    "backward_islands": island_kernels.make_backward_islands,
    "norm": norm_kernels.make_norm,
    "norm_backward": norm_kernels.make_norm_backward,
}


@cache
def source_digest() -> str:
    """Stands for all sources: Numba notices only changes of a kernel's own file."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def announce() -> None:
    """Say once, before the first kernel, that a new machine has to compile."""
    cache = Path(__file__).with_name("__pycache__")
    if not any(cache.glob(f"*{source_digest()}*")):
        logger.warning(
            "Compiling the CPU kernels: the first use of each number of channels and "
            "dtype takes some seconds and is cached on disk."
        )


@cache
def compiled(name: str, *options: int | str | bool) -> int:
    """The address of a kernel, specialised with the options of its `make_*`.

    Specialisations differ in their names, so that each has its own files in Numba's
    cache, which processes can write at the same time.
    """
    announce()
    function = KERNELS[name](*options)
    label = "_".join(str(part) for part in (name, *options, source_digest()))
    function.__name__ = function.__qualname__ = label
    signature = types.void(types.int64)
    kernel: Any
    try:
        kernel = cfunc(signature, cache=True, error_model="numpy")(function)
    except RuntimeError:  # no directory to cache in
        kernel = cfunc(signature, error_model="numpy")(function)
    LOADED.append(kernel)
    return kernel.address
