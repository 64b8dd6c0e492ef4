"""Rules never miss a dependence, and the exact ones have none too many."""

import pytest
import torch

from tests.programs import axis_cases, elementwise_cases
from tests.programs.oracle import entries, moved, traces

CASES = {**elementwise_cases.CASES, **axis_cases.CASES}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_no_dependence_is_missed(name):
    function, inputs, exact = CASES[name]
    expected = moved(function, inputs)
    found = traces(function, inputs)
    for table in found:
        assert torch.equal(table, found[0]), "the values must not decide"
    assert not (expected & ~found[0]).any(), entries(expected & ~found[0])
    if exact:
        assert torch.equal(found[0], expected), entries(found[0] & ~expected)
    else:
        assert not torch.equal(found[0], expected), "this rule is exact"


def test_many_functions_are_covered():
    assert len(CASES) > 200
