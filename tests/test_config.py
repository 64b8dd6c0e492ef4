"""Configs: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gsdm_pyg.config import load_config
from gsdm_pyg.settings import SettingsError
from tests.helpers import write_config


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_config(tmp_path / "tiny.yaml")


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_file_says_only_what_it_changes(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2, k: 1}\nmodel: {layers: 3}\n")
    config = load_config(file)
    assert config.model.layers == 3
    assert config.model.width == 64
    assert config.optimizer.lr == 2e-3


@pytest.mark.parametrize(
    ("override", "key", "suggestion"),
    [
        ("modle.layers=2", "modle", "model"),
        ("sead=1", "sead", "seed"),
        ("evaluation.problem=[]", "evaluation.problem", "problems"),
    ],
)
def test_misspelt_section_or_key_is_refused_with_a_suggestion(
    path, override, key, suggestion
):
    sentence = f"Unknown setting {key!r}; did you mean {suggestion!r}?"
    assert refusal(path, override) == sentence


def test_key_like_no_other_is_refused_with_the_known_ones(path):
    message = refusal(path, "trainer.qqq=1")
    assert "'trainer.qqq'; known: max_steps, max_time, clock" in message


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("model.layers=many", "'many'"),
        ("model.layers=2.5", "2.5"),
        ("model.layers=0", "0"),
        ("model.schedule=cosin", "'cosin'"),
        ("model.dropout=1", "1"),
        ("model.embedding=array2", "'array2'"),
        ("model.edges=dense", "'dense'"),
        ("model.intermediates=false", "False"),
        ("model.observe=all", "'all'"),
        ("model.discrete_scale=.inf", "inf"),
        ("data.num_workers=null", "None"),
        ("data.num_workers=-1", "-1"),
        ("optimizer.name=adam", "'adam'"),
        ("optimizer.lr=0", "0"),
        ("optimizer.lr=fast", "'fast'"),
        ("optimizer.ema=1.0", "1.0"),
        ("trainer.backend=dense", "'dense'"),
        ("evaluation.solver=euler", "'euler'"),
        ("evaluation.restarts=-1", "-1"),
        ("problem=3", "3"),
        ("seed=-1", "-1"),
    ],
)
def test_wrong_value_is_refused_by_key_and_value(path, override, value):
    message = refusal(path, override)
    assert message.startswith(override.partition("=")[0] + ": ")
    assert message.endswith(f"(got {value}).")


def test_wrong_entry_of_a_list_is_refused_by_its_number(path):
    message = refusal(path, "evaluation.problems=[{m: 1, n: 1, k: 1}, 3]")
    assert message.startswith("evaluation.problems.1: ")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["evaluation.steps=1001"],
            r"num_timesteps, 1000 .*\(got 1001\)",
        ),
        (["model.num_timesteps=1"], r"num_timesteps, 1 .*\(got 3\)"),
        (["evaluation.steps=1", "evaluation.restarts=2"], r"\(got 2 with steps=1\)"),
    ],
)
def test_sampling_that_cannot_run_is_refused_before_training(path, overrides, message):
    assert re.match(f"evaluation: .*{message}", refusal(path, *overrides))


def test_default_steps_are_shortened_to_those_of_the_diffusion(path):
    config = load_config(path, ["model.num_timesteps=2", "evaluation={}"])
    assert config.evaluation.steps == 2
    again = path.with_name("again.yaml")
    again.write_text(config.dump())
    assert load_config(again) == config


def test_all_wrong_keys_are_reported_at_once(path):
    message = refusal(path, "model.layrs=2", "data.batch_size=0")
    assert len(message.splitlines()) == 2


@pytest.mark.parametrize("missing", ["problem", "problem.name"])
def test_missing_key_is_named(tmp_path, missing):
    file = tmp_path / "short.yaml"
    file.write_text("{}" if missing == "problem" else "problem: {m: 1}")
    assert refusal(file) == f"The config needs the key {missing!r}."


def test_missing_file_is_refused_with_its_neighbors(path):
    message = refusal(path.with_name("tyni.yaml"))
    assert "tyni.yaml" in message
    assert f"There: {path}." in message


@pytest.mark.parametrize("text", ["model: [1, 2", "a: b: c", "\tmodel: 1"])
def test_bad_yaml_is_refused_by_file_and_line(tmp_path, text):
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    message = refusal(file)
    assert "broken.yaml is not valid YAML" in message
    assert "line 1" in message


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "hello\n", "3\n"])
def test_file_without_sections_is_refused(tmp_path, text):
    file = tmp_path / "list.yaml"
    file.write_text(text)
    assert "must hold sections" in refusal(file)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("model.layers=6", 6),
        ("model.dropout=0.25", 0.25),
        ("model.embedding=independent", "independent"),
        ("optimizer.lr=1e-4", 1e-4),
        ("optimizer.lr=1.0e-4", 1e-4),
        ("optimizer.betas=[0.8, 0.95]", (0.8, 0.95)),
        ("trainer.max_steps=null", None),
        ("trainer.max_time=00:01:30:00", "00:01:30:00"),
        ("trainer.devices=[0, 1]", [0, 1]),
        ("trainer.backend=scatter", "scatter"),
        ("evaluation.problems=[{m: 1, n: 1, k: 1}]", [{"m": 1, "n": 1, "k": 1}]),
    ],
)
def test_override_replaces_one_value(path, override, value):
    section, key = override.partition("=")[0].split(".")
    before, after = load_config(path), load_config(path, [override])
    found = getattr(getattr(after, section), key)
    assert found == value
    assert type(found) is type(value)
    changed = getattr(before, section).model_copy(update={key: found})
    assert after == before.model_copy(update={section: changed})


def test_number_in_scientific_notation_is_a_number_in_the_file_too(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2, k: 1}\noptimizer: {lr: 1e-4}\n")
    assert load_config(file).optimizer.lr == 1e-4


def test_override_fixes_and_ranges_a_size(path):
    config = load_config(path, ["problem.m=[2, 4]", "problem.k=3"])
    assert config.problem.source().ranges == {"m": (2, 4), "n": (1, 3), "k": 3}


def test_override_opens_a_section_that_the_file_leaves_out(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2, k: 1}\n")
    assert load_config(file, ["model.layers=2"]).model.layers == 2


def test_last_override_of_a_key_wins(path):
    assert load_config(path, ["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize("override", ["model.layers", "=3", "model..layers=3", ".=1"])
def test_override_that_is_no_assignment_is_refused(path, override):
    message = refusal(path, override)
    assert message == f"An override reads section.key=value (got {override!r})."


def test_override_below_a_value_is_refused(path):
    message = refusal(path, "model.width.layers=3")
    assert "'width' has no keys below it" in message


@pytest.mark.parametrize("override", ["model.layers=[1", "seed={", "seed=a: b: c"])
def test_override_with_bad_yaml_is_refused(path, override):
    assert override in refusal(path, override)


def test_dumped_config_reads_back_equal_and_is_complete(path, tmp_path):
    overrides = [
        "trainer.max_time=00:00:10:00",
        "trainer.max_steps=null",
        "optimizer.lr=1e-4",
        "optimizer.betas=[0.8, 0.9]",
        "trainer.devices=[0]",
        "problem.m=2",
        "model.observe=mixed",
    ]
    config = load_config(path, overrides)
    text = config.dump()
    (tmp_path / "again.yaml").write_text(text)
    assert load_config(tmp_path / "again.yaml") == config
    dumped = yaml.safe_load(text)
    assert dumped["model"]["heads"] == 2  # a default, written out
    assert list(dumped)[:2] == ["problem", "model"]
    assert set(dumped) == set(type(config).model_fields)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("problem.k=0", "BCMF.k is a size: give a whole number of at least 1 (got 0)"),
        ("problem.k=[0, 4]", "BCMF.k is a size"),
        ("problem.n=[-2, -1]", "BCMF.n is a size"),
        ("problem.n=2.0", "BCMF.n is a size"),
        ("problem.n=two", "BCMF.n is a size"),
        ("problem.n=true", "BCMF.n is a size"),
        ("problem.n=null", "BCMF.n is a size"),
        ("problem.n=[4, 2]", "range of n is [low, high]"),
        ("problem.n=[1, 2, 3]", "range of n is [low, high]"),
        ("problem.n=[1.5, 2]", "range of n is [low, high]"),
        ("problem.n=[]", "range of n is [low, high]"),
        ("problem.kk=3", "BCMF takes m, n, k, given (got 'kk')"),
        ("problem.name=nowhere.py:P", "problem file does not exist (got 'nowhere.py')"),
        ("evaluation.problems=[{m: 2, n: 2, k: 0}]", "BCMF.k is a size"),
        ("evaluation.problems=[{m: 2, n: 2}]", "'k'"),
        ("evaluation.problems=[{m: 2, n: 2, k: 1, q: 1}]", "BCMF takes m, n, k, given"),
        ("evaluation.problems=[{m: 2, n: 2, k: [3, 1]}]", "range of k"),
    ],
)
def test_impossible_problem_is_refused(path, override, complaint):
    message = refusal(path, override)
    assert message.startswith(("problem: ", "evaluation.problems: "))
    assert complaint in message


def test_unknown_problem_is_refused_with_the_known_ones(path):
    message = refusal(path, "problem.name=Sudokku")
    assert re.search(r"No problem is called 'Sudokku'. Known: .*\bBCMF\b", message)


def test_missing_size_is_named(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2}\n")
    assert "'k'" in refusal(file)


@pytest.mark.parametrize(
    "limit", ["10 minutes", "00:10:00", "0:0:10:0", "10", "00:00:10:00:00"]
)
def test_max_time_in_another_format_is_refused(path, limit):
    assert "trainer.max_time: " in refusal(path, f"trainer.max_time='{limit}'")


@pytest.mark.parametrize("limit", ["00:00:00:02", "01:00:00:00", "10:00:00:00"])
def test_max_time_needs_no_quotes(path, limit):
    assert load_config(path, [f"trainer.max_time={limit}"]).trainer.max_time == limit
