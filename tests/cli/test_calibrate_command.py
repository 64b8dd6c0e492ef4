"""`calibrate`: one page, a verdict, and it goes on after an interruption."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from gsdm_pyg import GSDM
from gsdm_pyg.diagnostics import calibrate, calibrating
from problems import BCMF
from tests.cli.commands import PROBLEM, SIZES, refusal, run
from tests.helpers import files_of, tiny_model

FEW = ["--instances", 24, "--num-samples", 5, "--out", "out"]


def read_result():
    return json.loads(Path("out/calibration.json").read_text())


def test_command_gives_page_json_and_verdict(model_folder, capsys):
    run("calibrate", model_folder, *FEW, "--seed", 3)
    printed = capsys.readouterr().out
    model = GSDM.from_pretrained(model_folder)
    few = {"num_instances": 24, "num_samples": 5, "seed": 3, "steps": 3}
    expected = calibrate(model, PROBLEM, **few)
    assert printed.startswith(expected.verdict)
    assert "out/report.html" in printed
    result = read_result()
    assert {**expected.to_dict(), "settings": result["settings"]} == result
    assert [check["quantity"] for check in result["checks"]] == [
        *("A", "R", "C", "all (TARP)")
    ]
    page = Path("out/report.html").read_text()
    assert expected.verdict in page
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(pictures) == 4
    assert all(base64.b64decode(p).startswith(b"\x89PNG") for p in pictures)
    assert "src=" not in re.sub(r'src="data:', "", page)  # it needs no other file


def test_command_names_each_check_that_fails(model_folder, capsys):
    """The tiny model has random weights: nothing that it samples is right."""
    few = ["--instances", 100, "--num-samples", 20, "--out", "out"]
    run("calibrate", model_folder, *few)
    printed = capsys.readouterr().out
    assert printed.startswith("Not calibrated: ")
    failed = [check for check in read_result()["checks"] if not check["passed"]]
    assert failed
    for check in failed:
        assert f"FAIL: {check['reason']}" in printed


def test_several_sizes(model_folder):
    at = ["--at", "m=1", "--at", "m=3", "n=1"]
    run("calibrate", model_folder, *at, *FEW)
    problems = read_result()["settings"]["problems"]
    assert problems == ["BCMF(m=1,n=3,k=2)", "BCMF(m=3,n=1,k=2)"]


@pytest.mark.parametrize(
    ("observe", "arguments", "patterns"),
    [
        ("roles", [], ["roles"]),
        ("mixed", [], ["roles", "mixed"]),
        ("mixed", ["--pattern", "mixed"], ["mixed"]),
    ],
)
def test_patterns_are_those_of_training_unless_named(observe, arguments, patterns):
    tiny_model(BCMF(m=2, n=3, k=2), observe=observe).save_pretrained("model")
    run("calibrate", Path("model"), *FEW, *arguments)
    assert read_result()["settings"]["patterns"] == patterns


def test_interrupted_command_goes_on_with_the_same_result(
    model_folder, monkeypatch, capsys
):
    monkeypatch.setattr(calibrating, "CHUNK_NODES", 1000)
    run("calibrate", model_folder, *FEW)
    whole = files_of(Path("out"))
    Path("out").rename("whole")
    draw, calls = GSDM.sample, []

    def interrupted(*arguments, **named):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(1)
        return draw(*arguments, **named)

    monkeypatch.setattr(GSDM, "sample", interrupted)
    with pytest.raises(SystemExit) as caught:
        run("calibrate", model_folder, *FEW)
    assert caught.value.code == 130
    assert "the same command goes on with it" in capsys.readouterr().err
    monkeypatch.setattr(GSDM, "sample", draw)
    run("calibrate", model_folder, *FEW)
    found = files_of(Path("out"))
    assert found["calibration.json"] == whole["calibration.json"]
    assert found.keys() == whole.keys()


def test_folder_of_another_calibration_is_refused(model_folder):
    run("calibrate", model_folder, *FEW)
    before = files_of(Path("out"))
    message = refusal("calibrate", model_folder, *SIZES, "--steps", 2, *FEW)
    assert "has a calibration with another 'sampler'" in message
    assert files_of(Path("out")) == before


def test_wrong_size_is_refused(model_folder):
    message = refusal("calibrate", model_folder, "--at", "q=3", *FEW)
    assert "(got 'q')" in message
    assert not Path("out").exists()
