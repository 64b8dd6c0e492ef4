"""The trained models of this repository: their samples, quality and samplers."""

import re

import numpy as np
import pytest
import torch

from gsdm_pyg import GSDM, SamplerSettings
from gsdm_pyg.data import check_given, encode, to_batch
from gsdm_pyg.evaluation import prior_metrics
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)
from tests.helpers import ROOT, seeded

FOLDERS = {path.parent.name for path in (ROOT / "pretrained").glob("*/config.json")}

# Folder -> a problem, a metric, and the range in which its value must lie; that of
# answers from the prior lies far outside.
RANGES = {
    "bcmf-varsize": (BCMF(8, 8, 4), "rmse", 0.0, 0.15),
    "boolean-circuit": (BooleanCircuit(7), "accuracy", 0.95, 1.0),
    "hierarchical-bcmf": (HierarchicalBCMF(8, 8, 4), "rmse", 0.0, 0.2),
    "matrix-inversion": (MatrixInversion(5, "identity"), "median_rmse", 0.0, 0.2),
    "sorting-n10": (Sorting(10), "rmse", 0.0, 0.05),
    "sorting-n20": (Sorting(20), "rmse", 0.0, 0.05),
    "sorting-varsize": (Sorting(20, position="share"), "rmse", 0.0, 0.05),
    "state-space": (StateSpace(20), "z_squared", 0.6, 1.5),
    "sudoku": (Sudoku(3, 3, 40), "valid", 0.75, 1.0),
    "sudoku-shifted": (Sudoku(3, 3, 40, "shifted"), "valid", 0.75, 1.0),
}

# Folder -> the problem and the sampler (steps, solver, restarts) of the samples that
# pretrained_samples.npz holds, drawn when the models were new.
CASES = {
    "bcmf-varsize": (BCMF(m=4, n=5, k=2), 8, "ddpm", 0),
    "boolean-circuit": (BooleanCircuit(n=7), 5, "ddpm", 0),
    "hierarchical-bcmf": (HierarchicalBCMF(m=4, n=5, k=4), 8, "dpm++", 0),
    "matrix-inversion": (MatrixInversion(n=3), 8, "dpm++_sde", 1),
    "sorting-n10": (Sorting(n=6), 8, "ddim", 0),
    "sorting-n20": (Sorting(n=20), 8, "ddpm", 0),
    "sorting-varsize": (Sorting(n=9, position="share"), 8, "ddpm", 0),
    "state-space": (StateSpace(steps=12), 8, "dpm++", 0),
    "sudoku": (Sudoku(a=3, b=3), 8, "ddpm", 0),
    "sudoku-shifted": (Sudoku(a=3, b=3, grids="shifted"), 8, "ddpm", 0),
}


def load(folder: str) -> GSDM:
    return GSDM.from_pretrained(ROOT / "pretrained" / folder)


def stored(folder: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """What was given and what was sampled, by name."""
    given, samples = {}, {}
    with np.load(ROOT / "tests" / "pretrained_samples.npz") as arrays:
        for key in arrays:
            owner, *path = key.split("/")
            if owner == folder:
                kind = given if path[0] == "given" else samples
                kind[path[-1]] = torch.from_numpy(arrays[key])
    return given, samples


def test_every_folder_is_tested_here():
    assert RANGES.keys() == CASES.keys() == FOLDERS


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_a_model_solves_what_the_prior_does_not(folder):
    problem, metric, low, high = RANGES[folder]
    sampler = {"steps": 25, "solver": "ddpm", "restarts": 0}
    value = load(folder).evaluate(problem, 32, **sampler).metrics[metric]
    assert low <= value <= high
    prior = prior_metrics(problem, 32)[metric]
    assert prior < low - 0.15 or prior > high + 0.15


@pytest.mark.slow
def test_restarts_correct_sudokus():
    model = load("sudoku")

    def valid(restarts):
        sampler = {"steps": 20, "solver": "ddpm", "restarts": restarts}
        return model.evaluate(Sudoku(3, 3, 16), 32, **sampler).metrics["valid"]

    assert valid(4) > valid(0) + 0.1


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_a_model_gives_the_samples_that_it_always_gave(folder):
    problem, steps, solver, restarts = CASES[folder]
    given, expected = stored(folder)
    model = load(folder)
    sampler = SamplerSettings(
        steps=steps, solver=solver, spacing="time", restarts=restarts
    )
    options = model.settings.graph
    values, known = check_given(model.check_problem(problem), given, options)
    twice = [{n: torch.stack([v, v]) for n, v in a.items()} for a in (values, known)]
    batch = to_batch([encode(problem, *twice, options)], options)
    # One generator for both samples, as it was when they were drawn.
    x = model.diffusion.sample(batch, sampler, seeded(2))
    found = model.check_problem(problem).decode(x.view(2, -1, x.size(1)))
    assert found.keys() == given.keys() | expected.keys() and expected
    for name, value in expected.items():
        if value.is_floating_point():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-5)
        else:
            assert torch.equal(found[name], value.long()), name


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_a_model_samples_by_default_as_its_card_says(folder):
    card = (ROOT / "pretrained" / folder / "README.md").read_text()
    (named,) = re.findall(
        r"averaged weights, (\d+) steps of (\S+?)(?: \((\w+)\))?"
        r"(?: with restarts=(\d+))?, seed",
        card,
    )
    steps, solver, restarts = int(named[0]), named[1], int(named[3] or 0)
    spacing = named[2] or "time"  # all that older cards know
    model, calls = load(folder), []
    sampler = SamplerSettings(
        steps=steps, solver=solver, spacing=spacing, restarts=restarts
    )
    assert model.sampler == sampler
    model.diffusion.denoiser.register_forward_pre_hook(lambda *call: calls.append(call))
    given, _ = stored(folder)
    model.sample(CASES[folder][0], given, generator=seeded(0))
    assert len(calls) == steps + restarts * round(0.4 * steps)
