"""The fused norm against torch's own operators."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from gsdm_pyg.ops import fused_operator, node_norm


def inputs(rows: int, width: int, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows + width)

    def draw(*shape: int):
        values = torch.randn(shape, generator=generator, dtype=dtype)
        return values.requires_grad_()

    x, weight, shift, table = (
        draw(rows, width),
        draw(width),
        draw(width),
        draw(5, width),
    )
    return x, weight, shift, table, torch.randint(5, (rows,), generator=generator)


def composed(x, weight, shift, table, row_id, silu):
    """What `node_norm` is defined to be, in float64."""
    x = x.double() if table is None else x.double() + table.double()[row_id]
    y = F.layer_norm(x, weight.shape, weight.double(), shift.double())
    return F.silu(y) if silu else y


@settings(max_examples=30)
@given(
    rows=st.sampled_from([1, 7, 129, 300]),
    width=st.sampled_from([16, 48, 24, 2048]),  # torch's operators compute the last two
    gathered=st.booleans(),
    silu=st.booleans(),
)
def test_values_and_gradients_match_torch(rows, width, gathered, silu):
    x, weight, shift, table, row_id = inputs(rows, width)
    arguments = (table, row_id) if gathered else (None, None)
    leaves = [x, weight, shift, *([table] if gathered else [])]
    result = node_norm(x, weight, shift, *arguments, silu=silu)
    expected = composed(x, weight, shift, *arguments, silu)
    assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
    grad = torch.randn(rows, width, generator=torch.Generator().manual_seed(1))
    assert_close(
        torch.autograd.grad(result, leaves, grad),
        torch.autograd.grad(expected, leaves, grad.double()),
        rtol=1e-4,
        atol=1e-4,
    )


def test_large_values_neither_overflow_nor_vanish():
    weight, shift = torch.full((16,), 100.0), torch.zeros(16)
    x = torch.tensor([[1.0, -1.0] * 8]).requires_grad_()
    result = node_norm(x, weight, shift, silu=True)
    assert_close(result, torch.tensor([[100.0, 0.0] * 8]), atol=1e-3, rtol=1e-4)
    result.sum().backward()
    assert x.grad.isfinite().all()


def test_results_do_not_depend_on_the_number_of_threads():
    x, weight, shift, table, row_id = inputs(1000, 32)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            y = node_norm(x, weight, shift, table, row_id, silu=True)
            results.append([y, *torch.autograd.grad(y.square().sum(), [x, weight])])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_other_inputs_use_torchs_operators():
    x, weight, shift, _, _ = inputs(6, 16, torch.float64)
    assert torch.autograd.gradcheck(
        lambda *a: node_norm(*a, silu=True), (x, weight, shift)
    )
    strided = torch.randn(16, 6).t()
    y = node_norm(strided, weight.float(), shift.float())
    assert_close(y, F.layer_norm(strided, (16,), weight.float(), shift.float()))


def test_no_rows_give_no_rows():
    x, weight, shift, _, _ = inputs(1, 16)
    empty = x[:0]
    result = node_norm(empty, weight, shift)
    assert result.shape == (0, 16)
    (gradient,) = torch.autograd.grad(result.sum(), weight)
    assert not gradient.any()


@pytest.mark.skipif(fused_operator.cpu is None, reason="Numba is missing")
def test_rows_outside_of_the_table_are_rejected():
    x, weight, shift, table, row_id = inputs(4, 16)
    with pytest.raises(IndexError, match=r"0\.\.4.*got -1\.\.7"):
        node_norm(x, weight, shift, table, torch.tensor([0, 7, 1, -1]))
    with pytest.raises(ValueError, match="one entry per row"):
        node_norm(x, weight, shift, table, row_id[:2])


def test_compiled_graphs_contain_no_break():
    x, weight, shift, table, row_id = inputs(20, 16)
    compiled = torch.compile(node_norm, fullgraph=True, backend="eager")
    assert_close(
        compiled(x, weight, shift, table, row_id, True),
        node_norm(x, weight, shift, table, row_id, True),
    )


def test_strided_and_other_inputs_give_the_same_numbers():
    x, weight, shift, table, row_id = inputs(6, 16)
    expected = node_norm(x, weight, shift, table, row_id, silu=True)
    spread = torch.stack([row_id, row_id], dim=1)[:, 0]
    wide = torch.stack([shift, shift], dim=1)[:, 0]
    assert_close(node_norm(x, weight, shift, table, spread, silu=True), expected)
    assert_close(node_norm(x, weight, wide, table, row_id, silu=True), expected)
    plain = node_norm(x, weight, shift)
    assert_close(node_norm(x.view(2, 3, 16), weight, shift), plain.view(2, 3, 16))


def test_the_default_dtype_does_not_matter():
    x, weight, shift, _, _ = inputs(300, 16)
    expected = torch.autograd.grad(node_norm(x, weight, shift).square().sum(), weight)
    torch.set_default_dtype(torch.float64)
    try:
        result = torch.autograd.grad(node_norm(x, weight, shift).square().sum(), weight)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_close(result, expected)


def test_a_table_needs_row_ids():
    x, weight, shift, table, _ = inputs(6, 16)
    with pytest.raises(ValueError, match=r"go together.*got Tensor and NoneType"):
        node_norm(x, weight, shift, table)


def test_other_derivatives_are_those_of_layer_norm():
    x, weight, shift, table, row_id = inputs(4, 16)

    def norm(x):
        return node_norm(x, weight, shift, table, row_id, silu=True).square().sum()

    def plain(x):
        y = F.layer_norm(x + table[row_id], (16,), weight, shift)
        return F.silu(y).square().sum()

    assert_close(torch.func.hessian(norm)(x), torch.func.hessian(plain)(x))
    (first,) = torch.autograd.grad(norm(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    (expected,) = torch.autograd.grad(plain(x), x, create_graph=True)
    assert_close(second, torch.autograd.grad(expected.square().sum(), x)[0])


def test_tensors_without_memory_or_sign_are_read_or_rejected():
    x, weight, shift, table, row_id = inputs(4, 16)
    y = node_norm(torch._neg_view(x.detach()), weight, shift)
    assert_close(y, node_norm(-x, weight, shift))
    zero = torch._efficientzerotensor((4, 16))
    (slope,) = torch.autograd.grad(node_norm(x, weight, shift), x, zero)
    assert not slope.any()
    row_id.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="row_id must have memory"):
        node_norm(x, weight, shift, table, row_id)
