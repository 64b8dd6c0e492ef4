"""`doctor`: the report of a config, its picture and its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsdm_pyg.cli import main
from gsdm_pyg.doctor.diagnosing import diagnose
from gsdm_pyg.problem import graph_of
from problems import BCMF
from tests.cli.commands import refusal
from tests.helpers import write_config


@pytest.fixture
def config(tmp_path) -> Path:
    return write_config(tmp_path / "tiny.yaml")


def test_doctor_reports_the_smallest_and_the_largest_graph(config, capsys):
    main(["doctor", str(config), "model.layers=2"])
    printed = capsys.readouterr().out
    for problem in (BCMF(m=1, n=1, k=1), BCMF(m=3, n=3, k=2)):
        assert str(diagnose(graph_of(problem), layers=2)) in printed
    assert "layers=2 is below the longest shortest path" in printed
    assert "Use layers=4 or more." in printed
    assert "A training step on up to 2 graphs" in printed
    assert list(Path().iterdir()) == [config.relative_to(Path().absolute())]


def test_a_problem_of_one_size_is_reported_once(config, capsys):
    main(["doctor", str(config), "problem.m=2", "problem.n=2", "problem.k=1"])
    assert capsys.readouterr().out.count("longest path:") == 1


@pytest.mark.parametrize("sizes", [[], ["problem.m=6", "problem.n=6", "problem.k=6"]])
def test_doctor_writes_json_and_a_picture(config, sizes):
    files = ["--json", "found.json", "--picture", "new/graph.png"]
    main(["doctor", str(config), *sizes, *files])
    found = json.loads(Path("found.json").read_text())
    largest = list(found["graphs"].values())[-1]
    assert largest["depth"] == 4
    assert found["forecast"]["peak_bytes"] > 0
    assert Path("new/graph.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "place", "complaint"),
    [
        ("--json", "found.txt", "--json ends in .json (got 'found.txt')"),
        ("--json", "old.json", "--json exists already"),
        ("--picture", "graph.txt", "--picture ends in .png or .svg or .pdf"),
        ("--picture", "old.png", "--picture exists already"),
        ("--picture", "old.json/graph.png", "--picture is below a file"),
    ],
)
def test_impossible_place_is_refused_before_the_work(
    config, option, place, complaint, monkeypatch
):
    Path("old.json").write_text("mine")
    Path("old.png").write_text("mine")
    monkeypatch.setattr("gsdm_pyg.cli.doctor.diagnose", None)
    assert complaint in refusal("doctor", config, option, place)
    assert Path("old.json").read_text() == Path("old.png").read_text() == "mine"


def test_files_are_replaced_if_asked(config):
    Path("old.json").write_text("mine")
    main(["doctor", str(config), "--json", "old.json", "--overwrite"])
    assert "graphs" in json.loads(Path("old.json").read_text())


def test_wrong_config_ends_in_one_line(config):
    assert "The config file does not exist" in refusal("doctor", "nowhere.yaml")
    assert "layerz" in refusal("doctor", config, "model.layerz=2")
