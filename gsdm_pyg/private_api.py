"""Private attributes of torch and PyG that the library reads, all of them in this file.

`tests/test_private_api.py` checks each one against the installed versions, and
pyproject.toml bounds these versions.
"""

from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing

# What PyG stores the hooks of a layer in, except those of `message_and_aggregate`.
_MESSAGE_HOOKS = [
    f"_{step}_forward{when}_hooks"
    for step in ("propagate", "edge_update", "message", "aggregate")
    for when in ("_pre", "")
]


def has_cached_pointers(edges: EdgeIndex) -> bool:
    """Whether a sorted `EdgeIndex` has its CSR or CSC pointers in its cache.

    `get_indptr` is public, but computes them if they are missing, and compiled code
    cannot change the cache.
    """
    return edges._indptr is not None


def has_message_hooks(conv: MessagePassing) -> bool:
    """Whether a hook sees the messages, so that they must be computed.

    PyG has public methods to register such hooks, and none to find them.
    """
    return any(getattr(conv, name) for name in _MESSAGE_HOOKS)


def has_module_hooks(module: nn.Module) -> bool:
    """Whether a hook sees the calls of a module, so that it must be called.

    torch has public methods to register such hooks, and none to find them.
    """
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )
