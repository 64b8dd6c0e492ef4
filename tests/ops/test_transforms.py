"""Attention under torch's transforms: other derivatives, other kinds of tensors."""

import pytest
import torch
from attention_oracle import dense_attention, gradients, graph, random_graph
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad, gradgradcheck
from torch.testing import assert_close

from gsdm_pyg.ops import csr_attention, csr_self_attention

ON = random_graph(5, 0.4)
SCALE = 5**-0.5


def packed(*batch, dtype=torch.float64):
    return torch.randn(*batch, 5, 3, 2, 5, dtype=dtype)


def ours(qkv, backend="auto"):
    return csr_self_attention(qkv, *ON.csr(), backend=backend)


def dense(qkv):
    return dense_attention(*qkv.unbind(1), ON, None, SCALE)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.grad(lambda x: f(x).sin().sum()),
        torch.func.jacrev,
        torch.func.jacfwd,
        lambda f: torch.func.hessian(lambda x: f(x).sin().sum()),
        lambda f: lambda x: torch.func.jvp(f, (x,), (x.cos(),))[1],
    ],
    ids=["grad", "jacrev", "jacfwd", "hessian", "jvp"],
)
def test_transforms_of_torch_func_are_those_of_dense_attention(transform):
    qkv = packed()
    assert_close(transform(ours)(qkv), transform(dense)(qkv))


def test_vmap_computes_each_input_by_itself():
    many = packed(3)
    one_by_one = torch.stack([ours(x) for x in many])
    assert_close(torch.func.vmap(ours)(many), one_by_one)
    q, k, v = many.unbind(2)
    args = (*ON.csr(), ON.transpose())
    over_keys = torch.func.vmap(lambda k: csr_attention(q[0], k, v[0], *args))(k)
    assert_close(over_keys[2], csr_attention(q[0], k[2], v[0], *args))


def test_batched_gradients_are_those_of_one_at_a_time():
    qkv = packed().requires_grad_()
    many = torch.randn(4, 5, 2, 5, dtype=torch.float64)
    (batched,) = torch.autograd.grad(ours(qkv), qkv, many, is_grads_batched=True)
    for grad, each in zip(many, batched, strict=True):
        assert_close(each, gradients(ours(qkv), grad, qkv)[0])


@pytest.mark.parametrize("backend", ["auto", "cpu", "reference"])
def test_second_derivatives_are_those_of_dense_attention(backend):
    qkv = packed().requires_grad_()
    first, expected = (
        torch.autograd.grad(f.sin().sum(), qkv, create_graph=True)[0]
        for f in (ours(qkv, backend), dense(qkv))
    )
    assert_close(first, expected)
    (second,), (oracle,) = (
        torch.autograd.grad(x.square().sum(), qkv) for x in (first, expected)
    )
    assert_close(second, oracle)


def test_second_derivatives_of_bias_and_edge_features():
    on = graph([(0, 0), (1, 0), (1, 2), (2, 1)], 3, 3)
    shapes = ((3, 1, 4), (3, 1, 2), (3, 1, 2), (4, 1), (4, 2))
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]

    def attend(q, k, v, bias, edge):
        return csr_attention(q, k, v, *on.csr(), on.transpose(), bias, edge=edge)

    assert gradgradcheck(attend, inputs)


def test_one_tensor_may_be_queries_keys_and_values():
    x = packed()[:, 0].requires_grad_()
    out, expected = (
        csr_attention(x, x, x, *ON.csr()),
        dense_attention(x, x, x, ON, None, SCALE),
    )
    for create_graph in (False, True):
        first, oracle = (
            torch.autograd.grad(
                y.sin().sum(), x, retain_graph=True, create_graph=create_graph
            )
            for y in (out, expected)
        )
        assert_close(first, oracle)


def test_forward_mode_comes_from_the_reference():
    primal, tangent = packed(), packed()
    _, expected = torch.func.jvp(dense, (primal,), (tangent,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(primal, tangent)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                assert_close(forward_ad.unpack_dual(ours(dual)).tangent, expected)
        with pytest.raises(
            NotImplementedError, match=r'"reference" has.*got forward-mode'
        ):
            ours(dual, "cpu")


def test_a_named_kernel_rejects_torch_func_and_says_what_supports_it():
    with pytest.raises(NotImplementedError, match=r'"reference" has.*got torch.func'):
        torch.func.vmap(lambda x: ours(x, "cpu"))(packed(2))


# what happens to the output afterwards


@pytest.mark.parametrize("change", [torch.relu_, torch.Tensor.zero_])
def test_the_output_may_be_changed_in_place(change):
    qkv = packed().requires_grad_()
    result, expected = change(ours(qkv)), change(dense(qkv).clone())
    grad = torch.randn_like(result)
    (slope,) = gradients(result, grad, qkv)
    assert_close(slope, gradients(expected, grad, qkv)[0])


def test_a_view_of_the_output_may_be_changed_in_place():
    qkv = packed().requires_grad_()
    out = ours(qkv)
    out.flatten(1)[:2].mul_(3)
    expected = dense(qkv) * torch.tensor([3, 3, 1, 1, 1])[:, None, None]
    assert_close(gradients(out, qkv[:, 0], qkv), gradients(expected, qkv[:, 0], qkv))


def test_saved_tensor_hooks_see_all_that_is_kept():
    qkv, kept = packed().requires_grad_(), []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x.numel()) or x, lambda x: x
    ):
        out = ours(qkv)
    assert {qkv.numel(), out.numel()} <= set(kept)


# other kinds of tensors


def test_a_zero_gradient_without_memory_gives_zeros():
    qkv = packed().requires_grad_()
    zero = torch._efficientzerotensor((5, 2, 5), dtype=torch.float64)
    (slope,) = gradients(ours(qkv), zero, qkv)
    assert_close(slope, torch.zeros_like(qkv))


def test_lazy_negation_keeps_its_sign():
    qkv = packed()
    negated = torch._neg_view(qkv)
    assert negated.is_neg() and negated.is_contiguous()
    assert_close(ours(negated), dense(-qkv))
    leaf = qkv.clone().requires_grad_()
    (slope,) = gradients(ours(leaf), torch._neg_view(qkv[:, 0].contiguous()), leaf)
    assert_close(slope, gradients(dense(leaf), -qkv[:, 0], leaf)[0])


def test_graphs_of_inference_mode_can_train_afterwards():
    with torch.inference_mode():
        rowptr, col = ON.csr()
        transpose = ON.transpose()
    rowptr, col = (x.clone() if not x.is_inference() else x for x in (rowptr, col))
    qkv = packed().requires_grad_()
    for graph_of in (None, transpose):
        out = csr_self_attention(qkv, rowptr, col, graph_of)
        assert_close(gradients(out, out, qkv), gradients(dense(qkv), out, qkv))


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_meta_tensors_give_shapes(backend):
    rowptr, col = (x.to("meta") for x in ON.csr())
    qkv = packed().to("meta").requires_grad_()
    out = csr_self_attention(qkv, rowptr, col, backend=backend)
    out.sum().backward()
    assert out.shape == (5, 2, 5) and out.is_meta
    assert qkv.grad.shape == qkv.shape


def test_fake_tensors_give_shapes():
    rowptr, col = ON.csr()
    with FakeTensorMode() as mode:
        real = (packed().requires_grad_(), rowptr, col)
        qkv, rowptr, col = (mode.from_tensor(x) for x in real)
        out = csr_self_attention(qkv, rowptr, col)
        assert torch.autograd.grad(out.sum(), qkv)[0].shape == qkv.shape
    assert out.shape == (5, 2, 5)


def test_fake_and_real_tensors_do_not_mix():
    q, k, v = packed().unbind(1)
    k = FakeTensorMode().from_tensor(k)
    with pytest.raises(ValueError, match=r"cannot be mixed.*got fake \['k'\]"):
        csr_attention(q, k, v, *ON.csr())


def test_freed_memory_is_rejected():
    for name in ("qkv", "col"):
        rowptr, col = ON.csr()
        args = {"qkv": packed(), "rowptr": rowptr, "col": col.clone()}
        args[name].untyped_storage().resize_(8)
        with pytest.raises(ValueError, match=rf"{name} must have memory.*storage of"):
            csr_self_attention(**args)


def test_memory_freed_before_the_backward_pass_is_rejected():
    qkv = packed().requires_grad_()
    out = ours(qkv)
    qkv.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="qkv must have memory"):
        out.sum().backward()


def test_tracing_is_rejected_with_what_works():
    with pytest.raises(RuntimeError, match=r"torch.jit.trace cannot.*torch.export"):
        torch.jit.trace(ours, packed(), check_trace=False)
