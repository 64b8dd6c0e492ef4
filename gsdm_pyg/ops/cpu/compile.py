"""Compiled kernels: specialized on first use, kept in memory and on disk."""

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
    component_kernels,
    forward_kernels,
    norm_kernels,
)

logger = logging.getLogger("gsdm_pyg")

LOADED_KERNELS: list[Any] = []  # a kernel's code lives as long as its object

KERNELS: dict[str, Callable[..., Callable]] = {
    "forward": forward_kernels.make_forward,
    "combine_forward": combine_kernels.make_combine_forward,
    "stats": backward_kernels.make_stats,
    "backward": backward_kernels.make_backward,
    "backward_edges": backward_edge_kernels.make_backward_edges,
    "backward_keys": backward_edge_kernels.make_backward_keys,
    "combine_backward": combine_kernels.make_combine_backward,
    "find_components": component_kernels.make_find_components,
    "backward_components": component_kernels.make_backward_components,
    "norm": norm_kernels.make_norm,
    "norm_backward": norm_kernels.make_norm_backward,
}


@cache
def _source_digest() -> str:
    """A hash of all sources: Numba notices only changes of a kernel's own file."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _announce_compilation() -> None:
    """Log once, before the first kernel, that a new machine has to compile."""
    cache = Path(__file__).with_name("__pycache__")
    if not any(cache.glob(f"*{_source_digest()}*")):
        logger.warning(
            "Compiling the CPU kernels: the first use of each number of channels and "
            "dtype takes some seconds and is cached on disk."
        )


@cache
def compiled(name: str, *options: int | str | bool) -> int:
    """The address of a kernel, specialized with the options of its `make_*`.

    Each specialization has a name, and so files in Numba's cache, of its own: processes
    can write to the cache at the same time.
    """
    _announce_compilation()
    function = KERNELS[name](*options)
    label = "_".join(str(part) for part in (name, *options, _source_digest()))
    function.__name__ = function.__qualname__ = label
    signature = types.void(types.int64)
    kernel: Any
    try:
        kernel = cfunc(signature, cache=True, error_model="numpy")(function)
    except RuntimeError:  # no directory to cache in
        kernel = cfunc(signature, error_model="numpy")(function)
    LOADED_KERNELS.append(kernel)
    return kernel.address
