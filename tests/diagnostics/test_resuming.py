"""A calibration that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import re

import pytest

from gsdm_pyg.diagnostics import calibrate, calibrating
from problems import BCMF
from tests.diagnostics.samplers import GaussianSampler, Regression
from tests.helpers import tiny_model

ARGUMENTS = {
    "num_instances": 45,
    "num_samples": 10,
    "patterns": ("roles", "mixed"),
    "name": "exact",
}
PROBLEMS = [Regression(2), Regression(3)]


class Interrupted(GaussianSampler):
    """Ctrl-C at the call of this number; counts its calls."""

    def __init__(self, at=None):
        super().__init__()
        self.calls, self.at = 0, at

    def sample(self, *arguments, generator=None):
        if self.calls == self.at:
            raise KeyboardInterrupt
        self.calls += 1
        return super().sample(*arguments, generator=generator)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(calibrating, "CHUNK_NODES", 1000)


def test_interrupted_run_ends_as_an_uninterrupted_one(tmp_path):
    whole = Interrupted()
    expected = calibrate(whole, PROBLEMS, **ARGUMENTS)
    first, second = Interrupted(at=4), Interrupted()
    with pytest.raises(KeyboardInterrupt):
        calibrate(first, PROBLEMS, folder=tmp_path, **ARGUMENTS)
    found = calibrate(second, PROBLEMS, folder=tmp_path, **ARGUMENTS)
    assert first.calls == 4
    assert second.calls == whole.calls - 4
    assert found.to_dict() == expected.to_dict()


def test_damaged_chunk_is_drawn_again(tmp_path):
    expected = calibrate(Interrupted(), PROBLEMS, folder=tmp_path, **ARGUMENTS)
    damaged = sorted((tmp_path / "chunks").iterdir())[1]
    damaged.write_bytes(damaged.read_bytes()[:100])
    again = Interrupted()
    found = calibrate(again, PROBLEMS, folder=tmp_path, **ARGUMENTS)
    assert again.calls == 1
    assert found.to_dict() == expected.to_dict()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": "too narrow"}, "another 'model', 'Interrupted exact'"),
        ({"seed": 1}, "another 'seed', 0: .* \\(got 1\\)"),
        ({"num_samples": 11}, "another 'num_samples', 10: .* \\(got 11\\)"),
        ({"patterns": ("roles",)}, "another 'patterns'"),
        ({"functions": {"f": lambda s: s["x"].sum(1)}}, "another 'functions'"),
    ],
)
def test_folder_of_other_settings_is_refused(tmp_path, changes, complaint):
    calibrate(Interrupted(), PROBLEMS, folder=tmp_path, **ARGUMENTS)
    with pytest.raises(ValueError, match=complaint):
        calibrate(Interrupted(), PROBLEMS, folder=tmp_path, **{**ARGUMENTS, **changes})


def test_folder_of_another_model_is_refused(tmp_path):
    problem = BCMF(m=2, n=2, k=1)
    few = {"num_instances": 2, "num_samples": 2, "steps": 2, "folder": tmp_path}
    calibrate(tiny_model(problem), problem, **few)
    calibrate(tiny_model(problem), problem, **few)  # the same model
    described = json.loads((tmp_path / "settings.json").read_text())
    assert re.fullmatch("BCMF [0-9a-f]{16}", described["model"])
    with pytest.raises(ValueError, match="another 'model'"):
        calibrate(tiny_model(problem, seed=1), problem, **few)


@pytest.mark.parametrize("name", [None, ""])
def test_folder_of_another_sampler_than_a_model_needs_a_name(tmp_path, name):
    folder, unnamed = tmp_path / "new", {**ARGUMENTS, "name": name}
    complaint = r"one GaussianSampler from another: pass name=.*\(got name=(None|'')\)"
    with pytest.raises(ValueError, match=complaint):
        calibrate(GaussianSampler(spread=0.7), PROBLEMS, folder=folder, **unnamed)
    assert not folder.exists()


def test_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="is not empty: choose another one"):
        calibrate(Interrupted(), PROBLEMS, folder=tmp_path, **ARGUMENTS)


def test_alpha_may_change_without_drawing_again(tmp_path):
    calibrate(Interrupted(), PROBLEMS, folder=tmp_path, **ARGUMENTS)
    again = Interrupted()
    result = calibrate(again, PROBLEMS, folder=tmp_path, alpha=0.01, **ARGUMENTS)
    assert again.calls == 0
    assert result.alpha == 0.01
