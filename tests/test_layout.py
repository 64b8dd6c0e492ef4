"""The union layout: which columns a domain owns, and values that stand in them."""

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg import Categorical, Continuous, GraphicalModel


def mixed_model():
    graph = GraphicalModel()
    graph.add_variable("real", (2, 2), Continuous(-3, 3))
    graph.add_variable("digit", (3,), Categorical(9))
    graph.add_variable("bit", (), Categorical(2))
    graph.add_variable("other", (1,))
    graph.add_variable("digit2", (2,), Categorical(9))
    return graph


MIXED = {
    "real": torch.tensor([[0.5, -1.0], [2.0, 0.0]]),
    "digit": torch.tensor([8, 0, 4]),
    "bit": torch.tensor(1),
    "other": torch.tensor([-7.5]),
    "digit2": torch.tensor([3, 3]),
}


def test_each_domain_owns_columns_that_its_variables_share():
    assert mixed_model().columns() == {
        "real": slice(0, 1),
        "digit": slice(1, 10),
        "bit": slice(10, 12),
        "other": slice(0, 1),
        "digit2": slice(1, 10),
    }


def test_encode_fills_only_the_columns_of_a_nodes_domain():
    x = mixed_model().encode(MIXED)
    expected = torch.zeros(11, 12)
    expected[0:4, 0] = torch.tensor([0.5, -1.0, 2.0, 0.0])
    for node, digit in zip([4, 5, 6, 9, 10], [8, 0, 4, 3, 3], strict=True):
        expected[node, 1 + digit] = 1
    expected[7, 11] = 1
    expected[8, 0] = -7.5
    assert_close(x, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool, torch.float64])
def test_encode_takes_values_of_any_dtype(dtype):
    graph = GraphicalModel()
    graph.add_variable("bit", (3,), Categorical(2))
    graph.add_variable("real", (2,))
    bit, real = torch.tensor([0, 1, 1]), torch.tensor([1, 0])
    x = graph.encode({"bit": bit.to(dtype), "real": real.to(dtype)})
    expected = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert_close(x, torch.tensor(expected, dtype=torch.get_default_dtype()))


def test_encoded_values_decode_to_themselves():
    graph = mixed_model()
    decoded = graph.decode(graph.encode(MIXED))
    assert list(decoded) == list(MIXED)
    for name, values in MIXED.items():
        assert_close(decoded[name], values)


def test_decode_keeps_leading_batch_dimensions():
    graph = mixed_model()
    single = graph.encode(MIXED)
    flipped = graph.encode({**MIXED, "digit": torch.tensor([1, 2, 3])})
    x = torch.stack([torch.stack([single, flipped]), torch.stack([flipped, single])])
    decoded = graph.decode(x)  # [2, 2, N, W]
    for name, values in MIXED.items():
        assert decoded[name].shape == (2, 2, *values.shape)
        assert_close(decoded[name][1, 1], values)
    assert decoded["digit"][0].tolist() == [[8, 0, 4], [1, 2, 3]]
    assert decoded["digit"].dtype == torch.long


def test_variables_left_out_of_encode_are_zero():
    x = mixed_model().encode({"bit": torch.tensor(0)})
    assert x.sum() == 1 and x[7, 10] == 1


@pytest.mark.parametrize(
    "values",
    [
        {"digit": torch.tensor([1, 2])},
        {"real": torch.zeros(4)},
        {"real": torch.zeros(2, 2, 1)},
        {"digit": torch.tensor([0, 9, 1])},
    ],
    ids=["too few", "flat", "extra axis", "class 9 of 9"],
)
def test_encode_refuses_values_of_another_shape_or_domain(values):
    (name,) = values
    with pytest.raises(ValueError, match=f"{name}.*got"):
        mixed_model().encode(values)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e39, -1e39])
def test_encode_refuses_numbers_that_are_not_finite_in_x(value):
    values = {"other": torch.tensor([value], dtype=torch.float64)}
    with pytest.raises(ValueError) as caught:
        mixed_model().encode(values)
    assert "'other' takes real numbers, finite in torch.float32" in str(caught.value)
    assert str(caught.value).endswith(f"(got {value}).")


def test_encode_takes_finite_numbers_of_infinite_sum():
    values = {"real": torch.full((2, 2), 3e38)}
    assert_close(mixed_model().encode(values)[:4, 0], torch.full((4,), 3e38))
