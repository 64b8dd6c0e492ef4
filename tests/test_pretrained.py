"""The trained models that come along solve a few instances each."""

import pytest

from gsdm_pyg import GSDM
from gsdm_pyg.evaluation import evaluate, prior_metrics
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)
from tests.runs import ROOT

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
    "state-space": (StateSpace(20), "z_squared", 0.6, 1.5),
    "sudoku": (Sudoku(3, 3, 40), "valid", 0.75, 1.0),
    "sudoku-shifted": (Sudoku(3, 3, 40, "shifted"), "valid", 0.75, 1.0),
}


def test_every_folder_is_judged_here():
    assert RANGES.keys() == FOLDERS


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_model_solves_what_the_prior_does_not(folder):
    problem, metric, low, high = RANGES[folder]
    model = GSDM.from_pretrained(ROOT / "pretrained" / folder)
    value = evaluate(model, problem, num_instances=32, steps=25).metrics[metric]
    assert low <= value <= high
    prior = prior_metrics(problem, 32)[metric]
    assert prior < low - 0.15 or prior > high + 0.15


def test_restarts_mend_sudokus():
    model = GSDM.from_pretrained(ROOT / "pretrained" / "sudoku")

    def valid(restarts):
        problem = Sudoku(3, 3, 16)
        settings = {"num_instances": 32, "steps": 20, "restarts": restarts}
        return evaluate(model, problem, **settings).metrics["valid"]

    assert valid(4) > valid(0) + 0.1
