"""Which columns a domain owns, and how values fill them, one instance or many."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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


def instances(lead, seed=0):
    """Random values of the mixed model, an array [*lead, *shape] per variable."""
    generator, values = torch.Generator().manual_seed(seed), {}
    for name, variable in mixed_model().variables.items():
        shape, classes = (*lead, *variable.shape), variable.domain.num_classes
        if classes:
            values[name] = torch.randint(classes, shape, generator=generator)
        else:
            values[name] = torch.rand(shape, generator=generator)
    return values


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


def test_decode_keeps_leading_dimensions():
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


leads = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@given(leads, st.sets(st.sampled_from(list(MIXED)), min_size=1), st.integers(0, 99))
def test_a_stack_encodes_to_the_stack_of_its_encodings(lead, names, seed):
    graph, values = mixed_model(), instances(lead, seed)
    values = {name: values[name] for name in names}
    flat = {n: v.reshape(-1, *v.shape[len(lead) :]) for n, v in values.items()}
    number = math.prod(lead)
    each = [graph.encode({n: v[i] for n, v in flat.items()}) for i in range(number)]
    assert torch.equal(graph.encode(values), torch.stack(each).view(*lead, 11, 12))


@pytest.mark.parametrize("lead", [(4,), (2, 3), (0,), (2, 0)])
def test_an_encoded_stack_decodes_to_itself(lead):
    graph, values = mixed_model(), instances(lead)
    x = graph.encode(values)
    assert x.shape == (*lead, 11, 12)
    decoded = graph.decode(x)
    assert list(decoded) == list(values)
    for name, value in values.items():
        assert_close(decoded[name], value)


@pytest.mark.parametrize(
    "name, value", [("digit", 9), ("bit", -1), ("other", math.inf)]
)
def test_a_bad_value_in_one_instance_of_a_stack_is_named(name, value):
    values = instances((5,))
    values[name][3] = value
    domain = mixed_model().variables[name].domain
    with pytest.raises(ValueError) as caught:
        mixed_model().encode(values)
    assert str(caught.value).startswith(f"Variable {name!r} takes {domain}")
    assert str(caught.value).endswith(f"(got {value}).")


def test_an_error_of_shape_names_the_variable_its_shape_and_the_value():
    with pytest.raises(ValueError) as caught:
        mixed_model().encode({"real": torch.zeros(5, 2, 3)})
    sentence = "Variable 'real' takes the shape (...,) + (2, 2) (got (5, 2, 3))."
    assert str(caught.value) == sentence


@pytest.mark.parametrize("lead", [(), (3,), (2, 1)])
def test_encode_rejects_variables_of_different_leading_dimensions(lead):
    values = {**instances((2,)), "bit": torch.ones(lead)}
    with pytest.raises(ValueError) as caught:
        mixed_model().encode(values)
    assert str(caught.value) == (
        "All variables need the same leading dimensions "
        f"(got (2,) for 'real', {lead} for 'bit')."
    )


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
def test_encode_rejects_values_of_another_shape_or_domain(values):
    (name,) = values
    with pytest.raises(ValueError, match=f"{name}.*got"):
        mixed_model().encode(values)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e39, -1e39])
def test_encode_rejects_numbers_that_are_not_finite_in_x(value):
    values = {"other": torch.tensor([value], dtype=torch.float64)}
    with pytest.raises(ValueError) as caught:
        mixed_model().encode(values)
    assert "'other' takes real numbers, finite in torch.float32" in str(caught.value)
    assert str(caught.value).endswith(f"(got {value}).")


def test_encode_takes_finite_numbers_whose_sum_is_infinite():
    values = {"real": torch.full((2, 2), 3e38)}
    assert_close(mixed_model().encode(values)[:4, 0], torch.full((4,), 3e38))
