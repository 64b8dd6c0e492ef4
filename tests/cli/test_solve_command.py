"""`solve`: puzzles in, verified grids out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gsdm_pyg import GSDM
from gsdm_pyg.cli import main
from problems import Sorting, Sudoku
from tests.cli.commands import refusal

PUZZLE = "12..\n....\n....\n...4\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An untrained model of 4x4 Sudokus."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model")
    GSDM.from_problem(Sudoku(2, 2), width=8, layers=1).save_pretrained(path)
    return path


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def status(*arguments):
    """The exit status of a command."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        return stopped.code
    return 0


def test_puzzles_of_both_formats_are_solved_printed_and_written(folder, capsys):
    Path("puzzle.txt").write_text(PUZZLE + "\n12.. .... .... ...4  # in a line\n")
    assert status("solve", folder, "a=2", "b=2", "puzzle.txt") == 0
    printed = capsys.readouterr().out
    assert "1: verified" in printed and "2: verified" in printed
    assert printed.endswith("solved 2 of 2: solutions.npz\n")
    with np.load("solutions.npz") as arrays:
        cells, verified = arrays["cells"], arrays["verified"]
    assert verified.all() and cells.shape == (2, 4, 4)
    for grid in cells:
        assert grid[0, :2].tolist() == [0, 1] and grid[3, 3] == 3
        assert all(sorted(line) == [0, 1, 2, 3] for line in (*grid, *grid.T))
        text = "\n".join(" ".join(str(digit + 1) for digit in row) for row in grid)
        assert text in printed


def test_unsolved_instances_are_named_and_end_in_status_1(folder, capsys):
    budget = ["--method", "sample", "--tries", 2, "--steps", 2]
    arguments = ["solve", folder, *budget, "--out", "found.json"]
    assert status(*arguments) == 1
    printed = capsys.readouterr().out
    assert "1: not solved after 4 evaluations: a digit twice" in printed
    assert "solved 0 of 1" in printed
    assert json.loads(Path("found.json").read_text())["verified"] == [False]


def test_interrupting_writes_what_is_solved(folder, capsys, monkeypatch):
    """Of two puzzles the first follows from its clues; Ctrl-C comes at the second."""
    Path("puzzles.txt").write_text("1234\n3412\n2143\n432.\n\n" + PUZZLE)
    solve = GSDM.solve

    def pressed(instances, estimates):
        raise KeyboardInterrupt

    def interrupted(self, *arguments, **settings):
        return solve(self, *arguments, on_estimate=pressed, **settings)

    monkeypatch.setattr(GSDM, "solve", interrupted)
    assert status("solve", folder, "puzzles.txt") == 130
    assert "solved 1 of 2: solutions.npz" in capsys.readouterr().out
    with np.load("solutions.npz") as arrays:
        assert arrays["verified"].tolist() == [True]
        assert arrays["instance"].tolist() == [0]
        assert arrays["cells"][0, 3].tolist() == [3, 2, 1, 0]


def test_the_first_solution_is_animated(folder):
    assert status("solve", folder, "--gif", "grid.gif") == 0
    with Image.open("grid.gif") as image:
        assert image.n_frames > 3


def test_arrays_are_read_as_well(folder):
    cells = np.full((4, 4), math.nan)
    cells[0, 0] = 2
    np.savez("given.npz", cells=cells)
    assert status("solve", folder, "--given", "given.npz") == 0
    with np.load("solutions.npz") as arrays:
        assert arrays["cells"][0, 0, 0] == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ("12..\n..x.\n....\n....", "got 'X' in line 2"),
        ("12..\n...\n", r"A line of a puzzle has 4 cells, or all 16 \(got 3 in line 2"),
        ("12..\n....\n", r"A grid has 4 lines \(got 2 at the end"),
        ("", r"A grid has 4 lines \(got 0 at the end"),
        ("11..\n....\n....\n....", "contradict each other"),
    ],
)
def test_wrong_puzzles_are_rejected(folder, text, message):
    import re

    Path("puzzle.txt").write_text(text)
    assert re.search(message, refusal("solve", folder, "puzzle.txt"))
    assert not Path("solutions.npz").exists()


def test_contradictions_are_named_in_the_symbols_of_the_text(folder):
    """Rows, columns and puzzles are counted from 1."""
    Path("puzzle.txt").write_text("....\n.1.1\n....\n....\n")
    assert refusal("solve", folder, "puzzle.txt") == (
        "error: puzzle.txt: The clues contradict each other: row 2, column 2 and "
        "row 2, column 4 share a row and must differ (got 1 in both)."
    )
    Path("puzzle.txt").write_text(PUZZLE + "...4 .... ...4 ....\n")
    assert refusal("solve", folder, "puzzle.txt") == (
        "error: puzzle.txt: The clues of puzzle 2 contradict each other: row 1, "
        "column 4 and row 3, column 4 share a column and must differ (got 4 in both)."
    )
    Path("puzzle.txt").write_text(PUZZLE + PUZZLE + ".12.\n3...\n4...\n....\n")
    assert refusal("solve", folder, "puzzle.txt") == (
        "error: puzzle.txt: The clues of puzzle 3 contradict each other: what "
        "follows from them leaves no digit for some cell (got 4 clues without a "
        "solution)."
    )


def test_other_wrong_input_is_rejected(folder):
    assert "missing (got none.txt)" in refusal("solve", folder, "none.txt")
    assert "Give one file" in refusal("solve", folder, "a.txt", "b.txt")
    Path("solutions.npz").touch()
    assert "--overwrite" in refusal("solve", folder)
    assert "tries" in refusal("solve", folder, "--tries", 0, "--out", "new.npz")


def test_problems_without_a_text_say_so():
    path = Path("sorter")
    GSDM.from_problem(Sorting(3), width=8, layers=1).save_pretrained(path)
    Path("numbers.txt").write_text("3 1 2")
    assert "reads no texts" in refusal("solve", path, "numbers.txt")
