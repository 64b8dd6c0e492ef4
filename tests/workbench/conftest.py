"""A server with a tiny model: in this process, or as a process of its own."""

from __future__ import annotations

import pytest
import torch

from gsdm_pyg.workbench.subject import Subject
from problems import BCMF, Sorting, Sudoku
from tests.helpers import tiny_model


@pytest.fixture(scope="session")
def bcmf() -> Subject:
    """A model that has learned nothing, of a problem of 22 nodes."""
    problem = BCMF(m=2, n=3, k=2)
    model = tiny_model(BCMF.family(m=(1, 2), n=(1, 3), k=2), num_timesteps=400)
    return Subject("tiny", problem, model.eval())


@pytest.fixture(scope="session")
def sudoku() -> Subject:
    problem = Sudoku(2, 2, clues=6)
    return Subject("tiny", problem, tiny_model(problem, num_timesteps=400).eval())


class Impossible(Sorting, register=False):
    """No order of numbers is ever right."""

    def violations(self, samples):
        return {"s": torch.ones(samples["s"].shape)}


@pytest.fixture(scope="session")
def impossible() -> Subject:
    problem = Impossible(n=3)
    return Subject("tiny", problem, tiny_model(problem, num_timesteps=400).eval())
