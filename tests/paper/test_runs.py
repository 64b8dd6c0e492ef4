"""Runs of a figure: which differences win, and which runs are the same."""

from __future__ import annotations

import yaml

from gsdm_pyg.paper.figure_file import SETTINGS
from gsdm_pyg.paper.runs import load_run, load_runs, merge
from tests.paper.figures import TINY, write_figure

PANEL = TINY["panels"]["BCMF"]


def test_every_combination_is_one_run_with_its_own_place(tmp_path):
    _, runs = load_runs(write_figure(tmp_path), "paper")
    assert [run.name for run in runs] == [
        f"{row}; BCMF; {point}; seed {seed}"
        for point in ("2", "3")
        for row in ("kept", "dropped")
        for seed in (0, 1)
    ]
    assert len({run.key for run in runs}) == len(runs)


def test_the_more_specific_difference_wins(tmp_path):
    models = [{"width": 4 + 4 * number} for number in range(12)]
    at = [{"model": model} for model in models]  # from the least specific on
    sections = {
        "common": {"base": at[0], "laptop": {"base": at[1]}},
        "mine": {"base": at[2], "laptop": {"base": at[3]}},
    }
    panel = {
        "metric": "rmse",
        "settings": "mine",
        "base": at[6],
        "laptop": {
            "base": at[7],
            "points": {"here": at[8]},
            "rows": {"kept": at[11]},
        },
        "rows": {"kept": at[10]},
    }
    changes = {
        "base": {**TINY["base"], **at[4]},
        "laptop": {"base": at[5]},
        "panels": {"BCMF": panel},
        "rows": {"kept": at[9]},
        "claims": [],
    }
    for number, model in reversed(list(enumerate(models))):
        (tmp_path / SETTINGS).write_text(yaml.safe_dump(sections))
        run = load_run(write_figure(tmp_path, **changes), "laptop", "kept")
        assert run.config.model.width == 4 + 4 * number
        del model["width"]


def test_evaluation_is_at_the_sizes_of_training_unless_the_file_says_others(tmp_path):
    _, runs = load_runs(write_figure(tmp_path), "laptop")
    assert runs[0].config.evaluation.problems == [{"m": 2, "n": 2, "k": 1}]
    base = {**TINY["base"], "evaluation": {"problems": [{"n": 5}, {"k": 2}]}}
    _, runs = load_runs(write_figure(tmp_path, base=base), "laptop")
    found = runs[0].config.evaluation.problems
    assert found == [{"m": 2, "n": 5, "k": 1}, {"m": 2, "n": 2, "k": 2}]


def test_runs_with_equal_settings_share_a_folder_and_others_do_not(tmp_path):
    again = {**PANEL, "axis": "something else", "metric": "other"}
    path = write_figure(tmp_path, panels={"BCMF": PANEL, "again": again})
    _, runs = load_runs(path, "laptop")
    assert len(runs) == 8
    assert len({run.key for run in runs}) == 4
    _, changed = load_runs(path, "laptop", overrides=["trainer.max_steps=5"])
    assert not {run.key for run in runs} & {run.key for run in changed}


def test_selection_by_row_panel_point_and_seed(tmp_path):
    path = write_figure(tmp_path)
    _, runs = load_runs(path, "paper", ["kept"])
    assert {run.row for run in runs} == {"kept"}
    _, runs = load_runs(path, "paper", ["3; dropped", "kept; seed 1"])
    assert [run.name for run in runs] == [
        "kept; BCMF; 2; seed 1",
        "kept; BCMF; 3; seed 1",
        "dropped; BCMF; 3; seed 0",
        "dropped; BCMF; 3; seed 1",
    ]
    run = load_run(path, "paper", "kept; 2")
    assert (run.seed, run.config.model.width) == (0, 16)


def test_merging_changes_no_argument_and_replaces_lists():
    values, changes = {"a": {"b": 1, "c": [1, 2]}}, {"a": {"c": [3]}, "d": {"e": []}}
    merge(values, changes)
    assert values == {"a": {"b": 1, "c": [3]}, "d": {"e": []}}
    values["d"]["e"].append(1)
    assert changes == {"a": {"c": [3]}, "d": {"e": []}}


def test_settings_of_one_run_need_not_suit_the_others(tmp_path):
    base = {**TINY["base"]}
    problem = {"base": {"problem": base.pop("problem")}}
    sorting = {"metric": "rmse", "base": {"problem": {"name": "Sorting", "n": 3}}}
    panels = {"BCMF": {**PANEL, **problem}, "Sorting": sorting}
    path = write_figure(tmp_path, base=base, panels=panels)
    run = load_run(path, "laptop", "kept; BCMF; 2", ["problem.k=3", "seed=7"])
    assert run.problem().k == 3
    assert run.seed == 7
