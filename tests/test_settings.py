"""Settings: declared once, reached from everywhere, refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

import gsdm_pyg.config
import gsdm_pyg.problem_spec
from gsdm_pyg import GSDM, ProblemBatches
from gsdm_pyg.config import load_config, parse_config
from gsdm_pyg.settings import (
    DataSettings,
    EvaluationSettings,
    ModelSettings,
    OptimizerSettings,
    SamplerSettings,
    Settings,
    SettingsError,
    TrainerSettings,
    TrainingSettings,
)
from problems import BCMF
from tests.helpers import TINY, tiny_model, write_config

PROBLEM = BCMF(m=2, n=2, k=1)
SECTIONS: dict[str, type[Settings]] = {
    "model": ModelSettings,
    "data": DataSettings,
    "optimizer": OptimizerSettings,
    "trainer": TrainerSettings,
    "evaluation": EvaluationSettings,
}

# A value that is not the default, for every setting of a training run.
CHANGED: dict[str, dict[str, Any]] = {
    "data": {"batch_size": 3, "max_nodes": 99, "num_examples": 5, "num_workers": 1},
    "optimizer": {
        "name": "adamw",
        "lr": 1e-4,
        "matrix_lr": 0.01,
        "warmup_steps": 7,
        "betas": (0.8, 0.95),
        "weight_decay": 0.1,
        "clip": 0.5,
        "ema": 0.9,
    },
    "trainer": {
        "max_steps": 11,
        "max_time": "00:00:10:00",
        "clock": "processor",
        "accelerator": "cpu",
        "devices": 2,
        "num_nodes": 2,
        "strategy": "ddp",
        "precision": "bf16-mixed",
        "backend": "scatter",
        "log_every": 3,
        "checkpoint_every": 4,
    },
    "evaluation": {
        "steps": 12,
        "solver": "ddim",
        "spacing": "time",
        "restarts": 2,
        "every": 6,
        "problems": [{"m": 2, "n": 2, "k": 1}],
        "num_instances": 5,
        "final_instances": 6,
        "pictures": 0,
    },
}


def all_settings(cls: type[Settings] = Settings) -> list[type[Settings]]:
    """Every class of settings in the package."""
    return [
        found
        for child in cls.__subclasses__()
        for found in [child, *all_settings(child)]
    ]


def config(**sections: Any) -> gsdm_pyg.config.Config:
    return parse_config({"problem": TINY["problem"], **sections})


@pytest.fixture
def fitted(monkeypatch) -> Callable[..., TrainingSettings]:
    """The settings that `fit` would train with."""
    trained: list[TrainingSettings] = []
    monkeypatch.setattr(
        "gsdm_pyg.training.fit",
        lambda training, run_dir: trained.append(training.settings),
    )

    def fit(**settings: Any) -> TrainingSettings:
        tiny_model(PROBLEM).fit(**settings)
        return trained.pop()

    return fit


# Unknown settings.

MISSPELT = [
    ("model", "layrs", "layers"),
    ("data", "bach_size", "batch_size"),
    ("optimizer", "weigth_decay", "weight_decay"),
    ("trainer", "max_step", "max_steps"),
    ("evaluation", "stps", "steps"),
]


@pytest.mark.parametrize(("section", "key", "suggestion"), MISSPELT)
def test_misspelt_key_of_a_config_is_refused_with_a_suggestion(
    tmp_path, section, key, suggestion
):
    sentence = f"Unknown setting '{section}.{key}'; did you mean '{suggestion}'?"
    in_file = write_config(tmp_path / "wrong.yaml", **{section: {key: 2}})
    right = write_config(tmp_path / "right.yaml")
    for arguments in ((in_file,), (right, [f"{section}.{key}=2"])):
        with pytest.raises(SettingsError) as caught:
            load_config(*arguments)
        assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("call", "key", "suggestion"),
    [
        (lambda **s: tiny_model(PROBLEM, **s), "layrs", "layers"),
        (lambda **s: tiny_model(PROBLEM, **s), "bakend", "backend"),
        (lambda **s: ProblemBatches(PROBLEM, **s), "bach_size", "batch_size"),
        (lambda **s: ProblemBatches(PROBLEM, **s), "obzerve", "observe"),
        (lambda **s: tiny_model(PROBLEM).sample(PROBLEM, **s), "stps", "steps"),
        (
            lambda **s: tiny_model(PROBLEM).sample(PROBLEM, **s),
            "samples",
            "num_samples",
        ),
        (lambda **s: tiny_model(PROBLEM).evaluate(PROBLEM, **s), "restart", "restarts"),
        (lambda **s: tiny_model(PROBLEM).fit(**s), "bach_size", "batch_size"),
        (lambda **s: tiny_model(PROBLEM).fit(**s), "weigth_decay", "weight_decay"),
        (lambda **s: tiny_model(PROBLEM).fit(**s), "max_step", "max_steps"),
        (lambda **s: tiny_model(PROBLEM).fit(**s), "evalution", "evaluation"),
        (lambda **s: tiny_model(PROBLEM).fit(**s), "steps", "max_steps"),
        (lambda **s: tiny_model(PROBLEM).fit(**s), "rundir", "run_dir"),
    ],
)
def test_misspelt_keyword_is_refused_with_a_suggestion(call, key, suggestion):
    with pytest.raises(SettingsError) as caught:
        call(**{key: 2})
    assert str(caught.value) == f"Unknown setting {key!r}; did you mean {suggestion!r}?"


def test_misspelt_key_of_a_section_of_fit_is_refused_with_a_suggestion():
    sentence = r"Unknown setting 'evaluation\.stps'; did you mean 'steps'\?"
    with pytest.raises(SettingsError, match=sentence):
        tiny_model(PROBLEM).fit(max_steps=1, evaluation={"stps": 3})


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("data.observe", "model.observe"),
        ("evaluation.observe", "model.observe"),
        ("model.backend", "trainer.backend"),
        ("optimizer.max_steps", "trainer.max_steps"),  # not warmup_steps
        ("trainer.batch_size", "data.batch_size"),
        ("data.seed", "seed"),
        ("layers", "model.layers"),
    ],
)
def test_setting_in_the_wrong_section_is_refused_with_the_right_one(
    tmp_path, key, suggestion
):
    path = write_config(tmp_path / "tiny.yaml")
    with pytest.raises(SettingsError) as caught:
        load_config(path, [f"{key}=3"])
    assert str(caught.value) == f"Unknown setting {key!r}; did you mean {suggestion!r}?"


@pytest.mark.parametrize("key", ["evaluation.solver", "optimizer.name"])
def test_setting_that_fit_takes_in_a_section_is_refused_with_that_section(key):
    name = key.rpartition(".")[2]
    with pytest.raises(SettingsError, match=f"did you mean '{key}'"):
        tiny_model(PROBLEM).fit(**{name: "adamw"}, max_steps=1)


def test_key_like_no_other_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match=r"'qqq'; known: .*width, layers, heads"):
        ModelSettings.parse({"qqq": 1})


@pytest.mark.parametrize("section", ["data", "optimizer", "evaluation"])
def test_section_of_fit_that_is_none_is_refused(section):
    with pytest.raises(SettingsError, match=rf"{section}: .*\(got 'adamw'\)\."):
        tiny_model(PROBLEM).fit(max_steps=1, batch_size=2, lr=1, **{section: "adamw"})


# Values.


def test_all_wrong_settings_are_reported_at_once():
    with pytest.raises(SettingsError) as caught:
        ModelSettings.parse({"layrs": 2, "width": 0})
    assert len(str(caught.value).splitlines()) == 2


def test_wrong_value_is_refused_by_key_and_value():
    with pytest.raises(SettingsError) as caught:
        DataSettings.parse({"batch_size": 0})
    assert str(caught.value) == "batch_size: Input should be greater than 0 (got 0)."


@pytest.mark.parametrize("cls", [SamplerSettings, EvaluationSettings])
def test_restarts_of_a_single_step_are_refused(cls):
    with pytest.raises(SettingsError, match=r"at least 2 .*\(got 2 with steps=1\)\.$"):
        cls.parse({"steps": 1, "restarts": 2})


def test_settings_never_change():
    settings = SamplerSettings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.steps = 3
    assert settings.updated({"steps": 3}) == SamplerSettings(steps=3)
    assert settings == SamplerSettings()


def test_update_is_checked_like_everything_else():
    with pytest.raises(SettingsError, match=r"steps: .*\(got 0\)\."):
        SamplerSettings().updated({"steps": 0})


def test_training_without_an_end_is_refused():
    with pytest.raises(SettingsError, match=r"Set max_steps or max_time"):
        TrainerSettings().check_end()
    TrainerSettings(max_steps=1).check_end()
    TrainerSettings(max_time="00:00:00:01").check_end()


def test_options_of_the_graph_and_the_sampler_are_parts_of_larger_settings():
    model = ModelSettings(embedding="array", edges="random", intermediates="drop")
    assert model.graph.model_dump() == {
        "embedding": "array",
        "edges": "random",
        "intermediates": "drop",
    }
    evaluation = EvaluationSettings(steps=7, solver="ddim", restarts=1, pictures=0)
    assert evaluation.sampler == SamplerSettings(steps=7, solver="ddim", restarts=1)


# Every setting is documented, and reached by a config and by fit alike.


def test_every_setting_has_a_docstring():
    """A section is documented by its class, which the next test checks."""
    silent = [
        f"{cls.__name__}.{name}"
        for cls in all_settings()
        if cls.__module__.startswith("gsdm_pyg.")
        for name, field in cls.model_fields.items()
        if not field.description and name not in SECTIONS and name != "problem"
    ]
    assert silent == []


def test_every_class_of_settings_has_a_docstring_of_its_own():
    docs = [cls.__doc__ for cls in all_settings()]
    assert all(docs)
    assert len(set(docs)) == len(docs)


def test_these_tests_change_every_setting_of_a_training_run():
    for section, values in CHANGED.items():
        default = SECTIONS[section]()
        assert set(values) == set(SECTIONS[section].model_fields)
        assert all(getattr(default, name) != value for name, value in values.items())


def test_fit_reaches_every_setting_that_a_config_reaches(fitted):
    expected = config(**CHANGED, seed=4)
    by_name = {**CHANGED["data"], **CHANGED["optimizer"], **CHANGED["trainer"]}
    sections = {
        "optimizer": {"name": by_name.pop("name")},
        "evaluation": CHANGED["evaluation"],
    }
    for settings in ({**by_name, **sections}, CHANGED):
        found = fitted(**settings, seed=4)
        for name in TrainingSettings.model_fields:
            assert getattr(found, name) == getattr(expected, name), name


@pytest.mark.parametrize("section", ["data", "optimizer", "trainer", "evaluation"])
def test_one_keyword_of_fit_changes_one_setting(fitted, section):
    for name, value in CHANGED[section].items():
        inside = section == "evaluation" or name == "name"
        keywords = {section: {name: value}} if inside else {name: value}
        expected = config(**{section: {name: value}})
        found = fitted(**keywords)
        for part in TrainingSettings.model_fields:
            assert getattr(found, part) == getattr(expected, part), (name, part)


def test_sections_of_fit_may_be_settings_objects(fitted):
    found = fitted(
        data=DataSettings(batch_size=3, num_workers=1),
        batch_size=5,
        evaluation=EvaluationSettings(steps=7),
    )
    assert found.data == DataSettings(batch_size=5, num_workers=1)
    assert found.evaluation == EvaluationSettings(steps=7)


def test_section_of_fit_may_come_beside_settings_of_it_by_name(fitted):
    found = fitted(optimizer={"name": "adamw"}, lr=1e-4)
    assert found.optimizer == OptimizerSettings(name="adamw", lr=1e-4)


# The sampler that a model stores.


def test_fit_keeps_the_sampler_of_a_loaded_model_unless_told_otherwise(
    fitted, tmp_path
):
    model = tiny_model(PROBLEM)
    model.sampler = SamplerSettings(steps=7, solver="ddim", restarts=1)
    model.save_pretrained(tmp_path)
    loaded = GSDM.from_pretrained(tmp_path)
    assert loaded.sampler == model.sampler
    loaded.fit(PROBLEM)
    assert loaded.sampler == model.sampler
    loaded.fit(PROBLEM, evaluation={"steps": 9, "pictures": 0})
    assert loaded.sampler == SamplerSettings(steps=9, solver="ddim", restarts=1)


def test_names_of_settings_are_unambiguous_as_keywords_of_fit():
    names = [
        name
        for section in ("data", "optimizer", "trainer")
        for name in SECTIONS[section].model_fields
    ]
    assert len(names) == len(set(names))
    assert not set(names) & set(TrainingSettings.model_fields)


def test_help_of_a_setting_is_one_paragraph_of_prose():
    texts = [
        field.description
        for cls in SECTIONS.values()
        for field in cls.model_fields.values()
    ]
    assert all(re.search(r"\.$", text) and "\n\n" not in text for text in texts)
