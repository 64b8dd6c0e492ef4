"""A chain written as a program comes out right by default."""

import itertools
import math

import pytest
import torch

from examples.programs.hidden_markov import (
    MOVE,
    SHOW,
    START,
    error,
    exact_marginals,
    hidden_markov,
)
from gsdm_pyg import GSDM

NAN = math.nan


def by_enumeration(y, z):
    """P(z[t] | y, z) from all paths that agree with what is known."""
    expected = torch.zeros(len(y), 4, dtype=torch.double)
    for path in itertools.product(range(4), repeat=len(y)):
        known = [(s, k) for s, k in zip(path, z, strict=True) if not math.isnan(k)]
        if any(state != k for state, k in known):
            continue
        p = START[path[0]].double()
        for t, state in enumerate(path):
            if t > 0:
                p = p * MOVE[path[t - 1], state]
            if not math.isnan(y[t]):
                p = p * SHOW[state, int(y[t])]
        expected[range(len(y)), path] += p
    return expected / expected.sum(1, keepdim=True)


@pytest.mark.parametrize(
    "y, z",
    [
        ([1, 3, 0, 2], [NAN] * 4),
        ([1, NAN, NAN, 2], [NAN] * 4),
        ([NAN] * 4, [NAN, 2, NAN, NAN]),
        ([1, NAN, 0, 2], [NAN, NAN, 3, NAN]),
        ([NAN] * 4, [NAN] * 4),
    ],
)
def test_forward_backward_agrees_with_enumeration(y, z):
    found = exact_marginals(torch.tensor(y), torch.tensor(z))
    expected = by_enumeration(y, z)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_no_state_is_known_unless_one_says_so():
    y = torch.tensor([1, 3, 0, 2])
    expected = by_enumeration(y.tolist(), [NAN] * 4)
    torch.testing.assert_close(exact_marginals(y), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("given", ["y", "any"])
def test_errors_of_exact_samples_fall_with_their_number(given):
    few, many = (
        error(None, 5, instances=50, samples=num, given=given) for num in (100, 1600)
    )
    for name in few:  # four times the precision
        assert many[name] == pytest.approx(few[name] / 4, rel=0.2)
    # With four classes, half their sum is twice their mean.
    assert few["total_variation"] == pytest.approx(2 * few["probability"])


@pytest.mark.slow
def test_a_chain_knows_the_direction_of_time():
    errors = {}
    for kinds in ("auto", "ignored"):
        model = GSDM.from_problem(
            hidden_markov(length=4), width=32, layers=4, heads=4, edge_kinds=kinds
        )
        model.fit(max_steps=500, batch_size=128, lr=3e-3)
        errors[kinds] = error(model, length=4)["total_variation"]
    assert model.settings.edge_kinds == "ignored"
    assert errors["auto"] < 0.6 * errors["ignored"], errors
