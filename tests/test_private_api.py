"""The private attributes that the library reads mean what it assumes."""

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import Linear, TransformerConv

from gsdm_pyg.private_api import (
    has_cached_pointers,
    has_message_hooks,
    has_module_hooks,
)


@pytest.mark.parametrize("order", ["row", "col"])
def test_pointers_are_cached_once_asked_for(order):
    edges = EdgeIndex([[0, 0, 1], [0, 1, 1]], sparse_size=(2, 2), sort_order=order)
    assert not has_cached_pointers(edges)
    pointers = edges.get_indptr()
    assert has_cached_pointers(edges)
    assert edges.get_indptr() is pointers


@pytest.mark.parametrize("step", ["propagate", "edge_update", "message", "aggregate"])
@pytest.mark.parametrize("when", ["forward_pre", "forward"])
def test_message_hooks_are_found_until_removed(step, when):
    conv = TransformerConv(2, 2)
    assert not has_message_hooks(conv)
    handle = getattr(conv, f"register_{step}_{when}_hook")(lambda *arguments: None)
    assert has_message_hooks(conv)
    handle.remove()
    assert not has_message_hooks(conv)


@pytest.mark.parametrize(
    "register",
    [
        torch.nn.Module.register_forward_hook,
        torch.nn.Module.register_forward_pre_hook,
        torch.nn.Module.register_full_backward_hook,
        torch.nn.Module.register_full_backward_pre_hook,
    ],
)
def test_module_hooks_are_found_until_removed(register):
    layer = Linear(2, 2)
    assert not has_module_hooks(layer)
    handle = register(layer, lambda *arguments: None)
    assert has_module_hooks(layer)
    handle.remove()
    assert not has_module_hooks(layer)
