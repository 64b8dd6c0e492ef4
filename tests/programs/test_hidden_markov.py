"""A chain written as a program comes out right by default."""

import itertools

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


def test_forward_backward_agrees_with_enumeration():
    y = torch.tensor([1, 3, 0, 2])
    expected = torch.zeros(4, 4, dtype=torch.double)
    for path in itertools.product(range(4), repeat=4):
        p = START[path[0]].double() * SHOW[path[0], y[0]]
        for t in range(1, 4):
            p = p * MOVE[path[t - 1], path[t]] * SHOW[path[t], y[t]]
        expected[range(4), path] += p
    expected /= expected.sum(1, keepdim=True)
    torch.testing.assert_close(exact_marginals(y), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_a_chain_knows_the_direction_of_time():
    errors = {}
    for kinds in ("auto", "ignored"):
        model = GSDM.from_problem(
            hidden_markov(length=4), width=32, layers=4, heads=4, edge_kinds=kinds
        )
        model.fit(max_steps=500, batch_size=128, lr=3e-3)
        errors[kinds] = error(model, length=4)
    assert model.settings.edge_kinds == "ignored"
    assert errors["auto"] < 0.6 * errors["ignored"], errors
