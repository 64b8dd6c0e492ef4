"""Configs: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gsdm_pyg.config import ConfigError, dump_config, load_config
from tests.runs import write_config


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_config(tmp_path / "tiny.yaml")


def test_file_says_only_what_it_changes(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2, k: 1}\nmodel: {layers: 3}\n")
    config = load_config(file)
    assert config.model.layers == 3
    assert config.model.width == 64
    assert config.data.batch_size == 16


@pytest.mark.parametrize(
    ("override", "key", "suggestion"),
    [
        ("modle.layers=2", "modle", "model"),
        ("sead=1", "sead", "seed"),
        ("model.layrs=2", "model.layrs", "layers"),
        ("optimizer.weigth_decay=0", "optimizer.weigth_decay", "weight_decay"),
        ("trainer.max_step=2", "trainer.max_step", "max_steps"),
        ("evaluation.problem=[]", "evaluation.problem", "problems"),
    ],
)
def test_misspelt_key_is_refused_with_a_suggestion(path, override, key, suggestion):
    with pytest.raises(ConfigError) as caught:
        load_config(path, [override])
    assert f"Unknown config key {key!r}; did you mean {suggestion!r}?" in str(
        caught.value
    )


def test_misspelt_key_in_the_file_is_refused_too(tmp_path):
    file = write_config(tmp_path / "tiny.yaml", data={"bach_size": 2})
    with pytest.raises(ConfigError, match=r"'data\.bach_size'.*'batch_size'"):
        load_config(file)


def test_key_like_no_other_is_refused_with_the_known_ones(path):
    with pytest.raises(ConfigError, match=r"'model\.qqq'; known: width, layers, heads"):
        load_config(path, ["model.qqq=1"])


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("model.layers=many", "model.layers", "'many'"),
        ("model.layers=2.5", "model.layers", "2.5"),
        ("model.layers=0", "model.layers", "0"),
        ("model.width=-8", "model.width", "-8"),
        ("model.schedule=cosin", "model.schedule", "'cosin'"),
        ("model.dropout=1", "model.dropout", "1"),
        ("model.embedding=array2", "model.embedding", "'array2'"),
        ("model.edges=dense", "model.edges", "'dense'"),
        ("model.intermediates=false", "model.intermediates", "False"),
        ("data.batch_size=null", "data.batch_size", "None"),
        ("data.observe=all", "data.observe", "'all'"),
        ("data.num_workers=-1", "data.num_workers", "-1"),
        ("optimizer.lr=0", "optimizer.lr", "0"),
        ("optimizer.lr=fast", "optimizer.lr", "'fast'"),
        ("optimizer.ema=1.0", "optimizer.ema", "1.0"),
        ("evaluation.solver=euler", "evaluation.solver", "'euler'"),
        ("evaluation.restarts=-1", "evaluation.restarts", "-1"),
        ("evaluation.problems=[3]", "evaluation.problems.0", "3"),
        ("problem=3", "problem", "3"),
        ("seed=-1", "seed", "-1"),
    ],
)
def test_wrong_value_is_refused_by_key_and_value(path, override, key, value):
    with pytest.raises(ConfigError) as caught:
        load_config(path, [override])
    message = str(caught.value)
    assert message.startswith(f"{key}: ")
    assert message.endswith(f"(got {value}).")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["evaluation.steps=1001"], "between 1 and the 1000 .*(got 1001)"),
        (["model.num_timesteps=1"], "between 1 and the 1 .*(got 3)"),
        (["evaluation.steps=1", "evaluation.restarts=2"], "(got 2 with steps=1)"),
    ],
)
def test_sampling_that_cannot_run_is_refused_before_training(path, overrides, message):
    overrides = ["evaluation.problems=[{m: 2, n: 2, k: 1}]", *overrides]
    pattern = message.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ConfigError, match=f"^evaluation: .*{pattern}"):
        load_config(path, overrides)
    load_config(path, ["evaluation.problems=[]", *overrides[1:]])  # nothing to sample


def test_all_wrong_keys_are_told_at_once(path):
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["model.layrs=2", "data.batch_size=0"])
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("missing", ["problem", "problem.name"])
def test_missing_key_is_named(tmp_path, missing):
    file = tmp_path / "short.yaml"
    file.write_text("{}" if missing == "problem" else "problem: {m: 1}")
    with pytest.raises(ConfigError, match=re.escape(f"needs the key {missing!r}")):
        load_config(file)


def test_missing_file_is_refused_with_its_neighbours(path):
    with pytest.raises(ConfigError) as caught:
        load_config(path.with_name("tyni.yaml"))
    assert "tyni.yaml" in str(caught.value)
    assert f"There: {path}." in str(caught.value)


@pytest.mark.parametrize("text", ["model: [1, 2", "a: b: c", "\tmodel: 1"])
def test_bad_yaml_is_refused_by_file_and_line(tmp_path, text):
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"broken\.yaml is not valid YAML") as caught:
        load_config(file)
    assert "line 1" in str(caught.value)


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "hello\n", "3\n"])
def test_file_without_sections_is_refused(tmp_path, text):
    file = tmp_path / "list.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="must hold sections"):
        load_config(file)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("model.layers=6", 6),
        ("model.dropout=0.25", 0.25),
        ("model.embedding=independent", "independent"),
        ("model.edges=directed", "directed"),
        ("model.intermediates=drop", "drop"),
        ("optimizer.lr=1e-4", 1e-4),
        ("optimizer.lr=1.0e-4", 1e-4),
        ("optimizer.betas=[0.8, 0.95]", (0.8, 0.95)),
        ("trainer.max_steps=null", None),
        ("trainer.max_time=00:01:30:00", "00:01:30:00"),
        ("trainer.devices=[0, 1]", [0, 1]),
        ("trainer.precision=bf16-mixed", "bf16-mixed"),
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
    assert config.problem.source().ranges == {"m": [2, 4], "n": [1, 3], "k": 3}


def test_override_opens_a_section_that_the_file_leaves_out(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2, k: 1}\n")
    assert load_config(file, ["model.layers=2"]).model.layers == 2


def test_last_override_of_a_key_wins(path):
    assert load_config(path, ["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize("override", ["model.layers", "=3", "model..layers=3", ".=1"])
def test_override_that_is_no_assignment_is_refused(path, override):
    with pytest.raises(ConfigError, match=r"reads section\.key=value") as caught:
        load_config(path, [override])
    assert repr(override) in str(caught.value)


def test_override_below_a_value_is_refused(path):
    with pytest.raises(ConfigError, match="'width' has no keys below it"):
        load_config(path, ["model.width.layers=3"])


@pytest.mark.parametrize("override", ["model.layers=[1", "seed={", "seed=a: b: c"])
def test_override_with_bad_yaml_is_refused(path, override):
    with pytest.raises(ConfigError) as caught:
        load_config(path, [override])
    assert override in str(caught.value)


def test_dumped_config_reads_back_equal_and_is_complete(path, tmp_path):
    overrides = [
        "trainer.max_time=00:00:10:00",
        "trainer.max_steps=null",
        "optimizer.lr=1e-4",
        "optimizer.betas=[0.8, 0.9]",
        "trainer.devices=[0]",
        "problem.m=2",
        "data.observe=mixed",
    ]
    config = load_config(path, overrides)
    text = dump_config(config)
    (tmp_path / "again.yaml").write_text(text)
    assert load_config(tmp_path / "again.yaml") == config
    dumped = yaml.safe_load(text)
    assert dumped["model"]["heads"] == 2  # a default, spelt out
    assert list(dumped) == list(type(config).model_fields)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("problem.k=0", "BCMF.k is a size: give a whole number of at least 1 (got 0)"),
        ("problem.m=-3", "BCMF.m is a size: give a whole number of at least 1 (got -3"),
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
        ("problem.name=BCFM", "No problem is called 'BCFM'. Known: "),
        ("problem.name=nowhere.py:P", "problem file does not exist (got 'nowhere.py')"),
    ],
)
def test_impossible_problem_is_refused(path, override, complaint):
    with pytest.raises(ConfigError) as caught:
        load_config(path, [override])
    assert complaint in str(caught.value)


def test_unknown_problem_is_refused_with_the_known_ones(path):
    with pytest.raises(ConfigError, match=r"Known: .*\bBCMF\b"):
        load_config(path, ["problem.name=Sudokku"])


def test_missing_size_is_named(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text("problem: {name: BCMF, m: 2, n: 2}\n")
    with pytest.raises(ConfigError, match="'k'"):
        load_config(file)


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ("{m: 2, n: 2, k: 0}", "BCMF.k is a size"),
        ("{m: 2, n: 2, k: -1}", "BCMF.k is a size"),
        ("{m: 2, n: 2}", "'k'"),
        ("{m: 2, n: 2, k: 1, q: 1}", "BCMF takes m, n, k, given (got 'q')"),
        ("{m: 2, n: 2, k: [3, 1]}", "range of k"),
    ],
)
def test_impossible_evaluation_problem_is_refused(path, sizes, complaint):
    with pytest.raises(ConfigError) as caught:
        load_config(path, [f"evaluation.problems=[{sizes}]"])
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "limit", ["10 minutes", "00:10:00", "0:0:10:0", "10", "00:00:10:00:00"]
)
def test_max_time_in_another_format_is_refused(path, limit):
    with pytest.raises(ConfigError, match=r"trainer\.max_time"):
        load_config(path, [f"trainer.max_time='{limit}'"])


@pytest.mark.parametrize("limit", ["00:00:00:02", "01:00:00:00", "10:00:00:00"])
def test_max_time_needs_no_quotes(path, limit):
    assert load_config(path, [f"trainer.max_time={limit}"]).trainer.max_time == limit
