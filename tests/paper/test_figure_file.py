"""Files of figures: what they may say, and what is wrong with others."""

from __future__ import annotations

import re

import pytest

from gsdm_pyg.config import load_config
from gsdm_pyg.paper.figure_file import load_figure
from gsdm_pyg.paper.runs import load_run, load_runs
from gsdm_pyg.settings_base import SettingsError
from tests.paper.figures import TINY, write_figure

PANEL = TINY["panels"]["BCMF"]
CLAIM = TINY["claims"][0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "pie"}, "kind: .*'complexity' or 'masks'.*got 'pie'"),
        ({"titel": "Figure"}, "Unknown setting 'titel'; did you mean 'title'"),
        ({"panels": {}}, "panels: .*at least 1"),
        ({"panels": {"BCMF": {}}}, "needs the key 'panels.BCMF.metric'"),
        ({"panels": {"BCMF": {**PANEL, "mteric": "x"}}}, "'panels.BCMF.mteric'"),
        (
            {"panels": {"BCMF": {**PANEL, "without": ["droped"]}}},
            "no panels.BCMF: row 'droped'; did you mean 'dropped'",
        ),
        ({"claims": [{**CLAIM, "row": "kep"}]}, "row 'kep'; did you mean 'kept'"),
        ({"claims": [{**CLAIM, "than": "prio"}]}, "no claims: row 'prio'"),
        ({"claims": [{**CLAIM, "panels": ["BCM"]}]}, "did you mean 'BCMF'"),
        ({"claims": [{**CLAIM, "how": "alike"}]}, "margin is for claims .*margin=0.0"),
        ({"claims": [{**CLAIM, "margin": 0.1}]}, "margin is for claims .*'better'"),
        ({"laptop": {"seeds": [-1]}}, "laptop.seeds.0: .*got -1"),
    ],
)
def test_mistakes_in_a_figure_are_named(tmp_path, changes, message):
    with pytest.raises(SettingsError) as caught:
        load_figure(write_figure(tmp_path, **changes))
    assert re.search(message, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rows": {"kept": {"model": {"widht": 8}}}, "claims": []},
            "kept; BCMF; 2: Unknown setting 'model.widht'; did you mean 'width'",
        ),
        (
            {"panels": {"BCMF": {**PANEL, "settings": "bcmf"}}},
            "no section of settings 'bcmf'",
        ),
        (
            {"rows": {"kept": {"problem": {"given": "A"}}}, "claims": []},
            "kept; BCMF; 2: problem: ",
        ),
    ],
)
def test_mistakes_in_a_run_are_named_with_their_place(tmp_path, changes, message):
    with pytest.raises(SettingsError) as caught:
        load_runs(write_figure(tmp_path, **changes), "laptop")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("keptt", "nothing is named 'keptt'; did you mean 'kept'?"),
        (
            "zzzzzz",
            "nothing is named 'zzzzzz'; known: kept; BCMF; 2; seed 0; dropped; 3",
        ),
        ("kept; dropped", "that belong together (got 'kept; dropped')"),
        (" ; ", "names a row, and if needed a panel"),
        ("kept", "names 2 runs of .*such as --row 'kept; BCMF; 2' "),
    ],
)
def test_selection_that_fits_no_single_run_says_what_to_name(tmp_path, select, message):
    with pytest.raises(SettingsError) as caught:
        load_run(write_figure(tmp_path), "laptop", select)
    pattern = message if ".*" in message else re.escape(message)
    assert re.search(pattern, str(caught.value)), str(caught.value)


def test_file_with_rows_is_no_config_and_a_config_no_figure(tmp_path):
    figure = write_figure(tmp_path)
    with pytest.raises(SettingsError, match=r"has several rows: .*\(got no --row\)"):
        load_config(figure)
    config = tmp_path / "config.yaml"
    config.write_text("problem: {name: BCMF, m: 2, n: 2, k: 1}")
    with pytest.raises(SettingsError, match=r"is no figure.*got the keys problem"):
        load_figure(config)
    with pytest.raises(SettingsError, match=r"does not exist.*There: .*tiny\.yaml"):
        load_figure(tmp_path / "tinny.yaml")
