"""The examples run as their first lines say."""

import re
import subprocess
import sys

import pytest

from tests.helpers import ROOT

SOLUTION = [  # of the puzzle that examples/sudoku.py has
    "534678912",
    "672195348",
    "198342567",
    "859761423",
    "426853791",
    "713924856",
    "961537284",
    "287419635",
    "345286179",
]


def run(name: str, *options: str) -> str:
    command = [sys.executable, "-m", f"examples.{name}", *options]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_both_layers_classify_nodes_equally_well():
    out = run("node_classification", "--epochs=30")
    common = float(re.search(r"commonest class is right for ([\d.]+)%", out)[1])
    theirs, ours = (
        float(re.search(rf"^{layer} +([\d.]+)%", out, re.MULTILINE)[1])
        for layer in ("TransformerConv", "StructuredAttentionConv")
    )
    assert ours > common + 25
    assert ours == pytest.approx(theirs, abs=1)


@pytest.mark.slow
def test_sampled_posterior_of_a_hidden_path_is_the_exact_one():
    out = run("state_space", "--instances=2", "--samples=200", "--steps=20")
    mean, spread = (
        float(re.search(rf"error of the {name}: ([\d.]+)", out)[1])
        for name in ("mean", "spread")
    )
    assert mean < 0.2
    assert spread < 0.15


@pytest.mark.slow
def test_sudoku_is_solved_by_sampling():
    out = run("sudoku", "--samples=8", "--steps=50")
    *grid, verdict = out.strip().splitlines()
    assert [row.split() for row in grid] == [list(row) for row in SOLUTION]
    assert int(re.match(r"solutions among 8 samples: (\d+)", verdict)[1]) >= 4
    assert verdict.endswith("different ones: 1")  # the puzzle has one solution
