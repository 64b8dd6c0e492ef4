"""Compiled kernels: specialized on first use, kept in memory and on disk."""

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import cfunc, types
from numba.core import event

from gsdm_pyg.ops.cpu import (
    backward_edge_kernels,
    backward_kernels,
    combine_kernels,
    complete_kernel,
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
    "find_complete": complete_kernel.make_find_complete,
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


_CACHED = "is cached on disk"
_NOT_CACHED = (
    "cannot be cached on disk: set NUMBA_CACHE_DIR to a folder that can be written to, "
    "or every process compiles again"
)


@cache
def _announce_compilation(future: str) -> None:
    """Log, once in a process, that a kernel is being compiled."""
    logger.warning(
        "Compiling the CPU kernels: the first use of each number of channels and dtype "
        "takes 1 to 5 seconds and %s.",
        future,
    )


class _Announcer(event.Listener):
    """Hears of Numba's compiler at work, which loading from its cache is not."""

    def __init__(self, future: str) -> None:
        self._future = future

    def on_start(self, event: event.Event) -> None:
        _announce_compilation(self._future)

    def on_end(self, event: event.Event) -> None:
        pass


@cache
def compiled(name: str, *options: int | str | bool) -> int:
    """The address of a kernel, specialized with the options of its `make_*`.

    Each specialization has a name, and so files in Numba's cache, of its own: processes
    can write to the cache at the same time.
    """
    function = KERNELS[name](*options)
    label = "_".join(str(part) for part in (name, *options, _source_digest()))
    function.__name__ = function.__qualname__ = label
    try:
        kernel = _load_or_compile(function, cached=True)
    except (RuntimeError, OSError):  # no folder to cache in, or no space there
        kernel = _load_or_compile(function, cached=False)
    LOADED_KERNELS.append(kernel)
    return kernel.address


def _load_or_compile(function: Callable, cached: bool) -> Any:
    announcer = _Announcer(_CACHED if cached else _NOT_CACHED)
    with event.install_listener("numba:run_pass", announcer):
        make = cfunc(types.void(types.int64), cache=cached, error_model="numpy")
        return make(function)
