"""The private attributes that the library reads mean what it assumes."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.distributions import Normal
from torch.nn import functional as F
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.nn import Linear, TransformerConv

from gsdm_pyg.private_api import (
    TorchDispatchMode,
    arguments_by_name,
    dense_attention,
    dense_attention_backward,
    has_cached_pointers,
    has_message_hooks,
    has_module_hooks,
    is_fake,
    is_functional,
    is_zero_tensor,
    without_validation,
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


def test_tensors_without_numbers_of_their_own_are_found():
    x = torch.ones(2)
    assert is_zero_tensor(torch._efficientzerotensor(2))
    assert is_fake(FakeTensorMode().from_tensor(x))
    assert torch.func.functionalize(lambda x: x + is_functional(x))(x).eq(2).all()
    assert not (is_zero_tensor(x) or is_fake(x) or is_functional(x))


def test_dense_attention_is_scaled_dot_product_attention():
    q, k, v = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, scale=0.3)
    out, lse = dense_attention(q, k, v, 0.3)
    assert_close(out, expected)
    assert_close(lse, (0.3 * q @ k.mT).logsumexp(-1))
    grad = torch.randn_like(out)
    slopes = dense_attention_backward(grad, q, k, v, out, lse, 0.3)
    assert_close(slopes, torch.autograd.grad(expected, (q, k, v), grad))


def test_operators_say_what_they_change():
    calls = []

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(arguments_by_name(func, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    x, y, mean = torch.ones(3, 1), torch.ones(3, 1), torch.zeros(1)
    with Calls():
        torch.add(x, y, alpha=2)
        x.add_(y)
        torch.add(x, y, out=y)
        F.batch_norm(x, mean, mean + 1, training=True)
    plain, in_place, out, *others = calls
    assert plain.by_name["self"] is x and plain.by_name["alpha"] == 2
    assert (plain.changed, plain.out) == ([], [])
    assert (in_place.changed, in_place.out) == (["self"], [])
    assert (out.changed, out.out) == ([], ["out"])
    (norm,) = [call for call in others if "running_mean" in call.by_name]
    assert norm.changed == ["running_mean", "running_var"]


def test_validation_is_what_it_was_before():
    default = Normal(0.0, 1.0)._validate_args
    with without_validation():
        assert not Normal(0.0, 1.0)._validate_args
    assert Normal(0.0, 1.0)._validate_args == default
