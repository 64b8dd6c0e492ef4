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
    for shape in [(3, 2), (2,), (1, 1, 2, 3), (6,), ()]:
        with pytest.raises(ValueError) as caught:
            check_given(GRAPH, {"E": torch.ones(shape)})
        message = str(caught.value)
        assert message.startswith("given['E'] must have the shape (2, 3), or ('B', 2,")
        assert message.endswith(f"(got {shape}).")


def test_several_instances_are_given_at_once():
    E = torch.arange(24.0).view(4, 2, 3)
    E[1, 0, 0] = math.nan
    R = torch.tensor([[1, 0, 1], [0, 1, 1]])  # the same for all four
    values, known = check_given(GRAPH, {"E": E, "R": R})
    assert values["E"].shape == known["E"].shape == (4, 2, 3)
    assert known["E"].sum() == 23 and not known["E"][1, 0, 0]
    assert torch.equal(values["R"], R.expand(4, 2, 3))
    assert known["A"].shape == (4, 2, 2) and not known["A"].any()


def test_different_numbers_of_instances_are_refused():
    given = {"E": torch.ones(4, 2, 3), "R": torch.ones(3, 2, 3)}
    with pytest.raises(ValueError, match=r"same number.*\(got 4 in 'E', 3 in 'R'\)"):
        check_given(GRAPH, given)
    with pytest.raises(ValueError, match=r"at least one \(got 0 in 'E'\)"):
        check_given(GRAPH, {"E": torch.ones(0, 2, 3)})


def test_masked_entries_are_unknown():
    E = np.ma.masked_array(np.ones((2, 3)), mask=[[True, False, False], [False] * 3])
    values, known = check_given(GRAPH, {"E": E})
    assert not known["E"][0, 0] and known["E"].sum() == 5
    assert values["E"].isfinite().all()


@pytest.mark.parametrize(
    "given",
    [torch.ones(2, 3), [1, 2], "E", 3],
    ids=["tensor", "list", "text", "number"],
)
def test_given_without_names_is_refused(given):
    with pytest.raises(TypeError, match=r"given must hold arrays by name.*\(got \w+\)"):
        check_given(GRAPH, given)


@pytest.mark.parametrize(
    "value",
    [
        np.ones((2, 3)) * 1j,
        torch.ones(2, 3) * 1j,
        torch.ones(2, 3).to_sparse(),
        [["a", "b", "c"]] * 2,
        None,
    ],
    ids=["complex array", "complex tensor", "sparse", "text", "None"],
)
def test_values_that_are_no_dense_real_numbers_are_refused(value):
    with pytest.raises(ValueError, match=r"given\['E'\] must be a dense array of real"):
        check_given(GRAPH, {"E": value})


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


def test_masks_in_a_list_of_rows_are_kept():
    rows = [np.ma.masked_array([1.0, 2.0, 3.0], mask=[True, False, False])] * 2
    _, known = check_given(GRAPH, {"E": rows})
    assert known["E"].tolist() == [[False, True, True]] * 2
