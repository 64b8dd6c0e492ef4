"""The page of all figures: each beside what the paper shows, and what holds here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.index import write_index
from gsdm_pyg.paper.making import save
from tests.paper.figures import TINY, data_of, write_figure

SCORES = {("3", "kept"): [[0.1, 0.2]], ("3", "dropped"): [[0.6, 0.7]]}


@pytest.fixture
def figures(tmp_path) -> Path:
    (tmp_path / "figures").mkdir()
    write_figure(tmp_path / "figures")
    return tmp_path / "figures"


def with_effort(data: Data, clock: str, **effort: object) -> Data:
    records = [{**record, "clock": clock, **effort} for record in data.records]
    return replace(data, records=records)


def index_of(folder: Path, figures: Path) -> str:
    write_index(folder, figures)
    return (folder / "README.md").read_text()


def test_index_sets_each_figure_beside_what_the_paper_shows(tmp_path, figures):
    save(data_of(SCORES), tmp_path / "tiny-laptop.json")
    (tmp_path / "tiny-laptop.png").touch()
    text = index_of(tmp_path, figures)
    count, section = text.split("## [Figure 0: a tiny one](tiny-laptop.md)")
    assert "| laptop | 2 of 2 | 1 | 0 | 0 |" in count
    for part in (
        "![Figure 0: a tiny one, laptop scale](tiny-laptop.png)",
        "**In the paper.** That a figure can be made.",
        "- Kept is best. It holds here: kept is better than dropped by 0.5 [0.5, 0.5].",
    ):
        assert part in section
    (tmp_path / "tiny-laptop.json").unlink()
    text = index_of(tmp_path, figures)
    assert "Not run yet:" in text and "##" not in text


def test_index_adds_up_the_hours_of_distinct_runs(tmp_path, figures):
    data = with_effort(data_of(SCORES), "processor", minutes=59, sampling_seconds=60)
    again = replace(data, scale="paper", records=data.records * 2)
    save(data, tmp_path / "tiny-laptop.json")
    save(again, tmp_path / "tiny-paper.json")
    text = index_of(tmp_path, figures)
    assert "the 2 distinct runs at laptop scale" in text
    assert "took 2 core-hours; two cores have 16 in 8 hours." in text
    assert "the 2 distinct runs at paper scale" in text and "2 core-hours." in text
    # Runs that only prepare others count, too, and not every clock is a core's.
    training = {"key": "shared", "minutes": 120, "clock": "wall"}
    save(with_effort(data, "wall", training=training), tmp_path / "tiny-laptop.json")
    text = index_of(tmp_path, figures)
    assert "the 3 distinct runs at laptop scale" in text and "took 4 hours;" in text


def test_index_leaves_a_file_of_the_user_alone(tmp_path, figures):
    (tmp_path / "README.md").write_text("# Mine")
    assert index_of(tmp_path, figures) == "# Mine"


def test_index_of_a_figure_without_claims_has_no_list(tmp_path):
    path = write_figure(tmp_path, claims=[])
    save(data_of(SCORES, claims=[]), tmp_path / "tiny-laptop.json")
    text = index_of(tmp_path, path.parent)
    assert TINY["shows"] in text and "**Here" not in text
