"""Domains: what columns decode to, and what is outside; variables: their nodes."""

import math

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg import Categorical, Continuous, Integer, Role, Simplex, Variable


def test_categorical_decodes_by_argmax():
    columns = torch.tensor([[[0.9, 0.3, -2.0], [0.1, 0.2, 0.6]]])
    decoded = Categorical(3).decode(columns)
    assert decoded.tolist() == [[0, 2]] and decoded.dtype == torch.long


def test_continuous_decodes_to_the_nearest_value_within_bounds():
    columns = torch.tensor([[-0.5], [0.25], [1.5]])
    assert_close(Continuous().decode(columns), torch.tensor([-0.5, 0.25, 1.5]))
    assert_close(Continuous(0, 1).decode(columns), torch.tensor([0.0, 0.25, 1.0]))
    assert_close(Continuous(low=0).decode(columns), torch.tensor([0.0, 0.25, 1.5]))


def test_outside_finds_the_values_that_are_not_in_a_domain():
    real = torch.tensor([-math.inf, -1.0, 0.0, 1.0, 1.5, math.inf, math.nan])
    unbounded = torch.tensor([True, False, False, False, False, True, True])
    assert torch.equal(Continuous().outside(real), unbounded)
    unit = torch.tensor([True, True, False, False, True, True, True])
    assert torch.equal(Continuous(0, 1).outside(real), unit)
    values = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, math.nan])
    binary = torch.tensor([True, False, True, False, True, True])
    assert torch.equal(Categorical(2).outside(values), binary)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool, torch.float64])
def test_categorical_takes_classes_of_any_dtype(dtype):
    values = torch.tensor([0, 1, 1]).to(dtype)
    assert not Categorical(2).outside(values).any()


@pytest.mark.parametrize("num_classes", [1, 0, -2])
def test_categorical_rejects_fewer_than_two_classes(num_classes):
    with pytest.raises(ValueError, match=rf"Categorical\(2\).*got {num_classes}\)"):
        Categorical(num_classes)


@pytest.mark.parametrize("bounds", [(1, 0), (1, 1), (0, math.nan)])
def test_continuous_rejects_bounds_out_of_order(bounds):
    with pytest.raises(ValueError, match=rf"low < high \(got {bounds[0]} and"):
        Continuous(*bounds)


def test_integer_decodes_to_the_nearest_one_within_bounds():
    columns = torch.tensor([[-3.7], [0.25], [1.5], [9.0]])
    assert Integer().decode(columns).tolist() == [-4, 0, 2, 9]
    assert Integer(0, 5).decode(columns).tolist() == [0, 0, 2, 5]
    assert Integer().decode(columns).dtype == torch.long


def test_integer_holds_whole_numbers_within_bounds():
    values = torch.tensor([-1.0, 0.0, 0.5, 2.0, 3.0, math.inf, math.nan])
    outside = torch.tensor([True, False, True, False, True, True, True])
    assert torch.equal(Integer(0, 2).outside(values), outside)
    assert Integer(0, 2).holds(torch.tensor([0, 2]))
    for wrong in (-1.0, 0.5, 3.0, math.nan):
        assert not Integer(0, 2).holds(torch.tensor([1.0, wrong]))
    assert Integer().holds(torch.tensor([True, False]))


@pytest.mark.parametrize("bound", [0.5, math.nan, "3", None, True])
def test_integer_rejects_bounds_that_are_not_whole(bound):
    with pytest.raises(ValueError, match=rf"two whole numbers.*got {bound!r}\)"):
        Integer(0, bound)


def test_shares_are_scaled_to_what_is_left_of_the_whole():
    values = torch.tensor([[0.1, 0.2, 0.1], [0.5, 0.3, 0.9], [0.0, 0.0, 0.0]])
    unknown = torch.zeros(3, 3).bool()
    expected = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.3, 0.9], [1 / 3] * 3])
    expected[1] /= 1.7
    assert_close(Simplex().close(values, unknown), expected)
    first = torch.tensor([True, False, False]).expand(3, 3)
    expected = torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.125, 0.375], [0.0, 0.5, 0.5]])
    assert_close(Simplex().close(values, first), expected)
    assert_close(Simplex().close(values, ~unknown), values)
    too_much = torch.tensor([0.7, 0.6, 0.1])
    known = torch.tensor([True, True, False])
    assert_close(Simplex().close(too_much, known), torch.tensor([0.7, 0.6, 0.0]))


def test_shares_of_another_sum_are_outside():
    nan = math.nan
    rows = {
        (0.2, 0.3, 0.5): [],
        (0.333, 0.333, 0.333): [],  # rounded
        (0.2, 0.3, 0.4): [0, 1, 2],
        (-0.2, 0.7, 0.5): [0],
        (0.2, nan, 0.4): [1],
        (0.8, nan, 0.4): [0, 1, 2],
    }
    for row, expected in rows.items():
        values = torch.tensor([row], dtype=torch.double)
        outside = Simplex().outside(values)
        assert outside[0].nonzero().flatten().tolist() == expected, row
        assert Simplex().holds(values) == (not expected), row


def test_simplex_has_no_bounds_of_its_own():
    with pytest.raises(ValueError, match=r"no bounds.*got 0\.0 and 2\)"):
        Simplex(high=2)


def test_domains_describe_themselves_in_words():
    assert str(Integer()) == "integers"
    assert str(Integer(0.0)) == "integers in [0, inf]"
    assert str(Continuous()) == "real numbers"
    assert str(Continuous(0, 1)) == "real numbers in [0, 1]"
    assert str(Categorical(9)) == "classes 0..8"


def test_a_variable_numbers_its_nodes_from_first_node():
    variable = Variable("a", (2, 3), Continuous(), Role.LATENT, first_node=5)
    assert variable.num_nodes == 6 and variable.nodes == slice(5, 11)
    assert Variable("s", (), Continuous(), Role.LATENT, 4).nodes == slice(4, 5)


def test_coordinates_are_the_positions_of_each_node():
    positions = torch.tensor([[7], [3]]), torch.tensor([0, 1, 1])
    variable = Variable("a", (2, 3), Continuous(), Role.LATENT, 0, positions)
    expected = [[7, 0], [7, 1], [7, 1], [3, 0], [3, 1], [3, 1]]
    assert variable.coordinates.tolist() == expected
    plain = Variable("a", (2, 3), Continuous(), Role.LATENT, 0)
    assert plain.coordinates.shape == (6, 0)
