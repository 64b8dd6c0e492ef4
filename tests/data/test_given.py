"""What a user gives: arrays of any kind, NaN where unknown, refused by name."""

import math

import numpy as np
import pytest
import torch

from gsdm_pyg import GraphOptions, to_data
from gsdm_pyg.data import check_given
from problems import BCMF

PROBLEM = BCMF(m=2, n=3, k=2)
GRAPH = PROBLEM.graphical_model()
inf = math.inf


def test_given_nothing_means_nothing_is_known():
    values, known = check_given(GRAPH, {})
    assert values == {}
    assert list(known) == ["A", "R", "C", "E"]
    assert not any(mask.any() for mask in known.values())
    assert known["C"].shape == (2, 3, 2)


def test_nan_marks_the_entries_that_are_unknown():
    R = np.array([[0, np.nan, 1], [np.nan, 1, 0]])
    values, known = check_given(GRAPH, {"R": R, "E": torch.ones(2, 3)})
    assert torch.equal(known["R"], torch.tensor(~np.isnan(R)))
    assert known["E"].all() and not known["A"].any() and not known["C"].any()
    assert values["R"].tolist() == [[0, 0, 1], [0, 1, 0]]
    data = to_data(PROBLEM, values, known)
    assert data.x.isfinite().all()
    assert data.observed.sum() == 4 + 6


@pytest.mark.parametrize(
    "value",
    [
        [[0, 1, 1], [1, 0, 0]],
        [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]],
        np.array([[0, 1, 1], [1, 0, 0]], dtype=np.uint8),
        np.array([[False, True, True], [True, False, False]]),
        np.array([[1, 0, 0], [0, 1, 1]])[::-1],
        torch.tensor([[0, 1, 1], [1, 0, 0]], dtype=torch.int32),
        torch.tensor([[0.0, 1, 1], [1, 0, 0]], dtype=torch.float64),
        torch.tensor([[0.0, 1, 1], [1, 0, 0]], requires_grad=True),
    ],
)
def test_given_takes_arrays_of_any_kind(value):
    values, known = check_given(GRAPH, {"R": value})
    assert known["R"].all()
    encoded = GRAPH.decode(GRAPH.encode(values))["R"]
    assert encoded.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_unsupervised_intermediates_cannot_be_given():
    options = GraphOptions(intermediates="unsupervised")
    with pytest.raises(ValueError, match=r"variables A, R, E \(got 'C'\)"):
        check_given(GRAPH, {"C": torch.ones(2, 3, 2)}, options)
    _, known = check_given(GRAPH, {"E": torch.ones(2, 3)}, options)
    assert known["E"].all() and not known["C"].any()


def test_an_unknown_name_lists_the_variables():
    with pytest.raises(ValueError, match=r"variables A, R, C, E \(got 'B'\)"):
        check_given(GRAPH, {"B": torch.ones(2, 2)})


def test_another_shape_is_refused():
    for shape in [(3, 2), (2,), (1, 2, 3), (6,), ()]:
        with pytest.raises(ValueError) as caught:
            check_given(GRAPH, {"E": torch.ones(shape)})
        assert f"given['E'] must have the shape (2, 3) (got {shape})" in str(
            caught.value
        )


@pytest.mark.parametrize(
    "name, takes, values",
    [
        ("R", "classes 0..1", [2, -1, 0.5, inf]),
        ("A", "real numbers in [0, 1]", [-0.25, 1.5, inf, -inf]),
        ("C", "real numbers", [inf]),
        ("E", "real numbers", [inf, -inf]),
    ],
)
def test_a_value_outside_its_domain_is_refused_by_name(name, takes, values):
    for wrong in values:
        value = torch.zeros(GRAPH.variables[name].shape, dtype=torch.float64)
        value.view(-1)[-1] = wrong
        with pytest.raises(ValueError) as caught:
            check_given(GRAPH, {name: value})
        message = f"given[{name!r}] takes {takes}, NaN where unknown (got {wrong:.9g}"
        assert str(caught.value).startswith(message)


def test_what_is_no_array_of_numbers_is_refused_by_name():
    for value in [[[None, 1, 0], [1, 1, 1]], [["a", "b", "c"]] * 2, [[1], [1, 2]]]:
        with pytest.raises(ValueError, match=r"given\['R'\]"):
            check_given(GRAPH, {"R": value})
