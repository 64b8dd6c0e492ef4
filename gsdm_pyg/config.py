"""Configs: YAML -> validated settings, with dotted overrides (`model.layers=6`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict

from gsdm_pyg.problem import Problem, ProblemFamily
from gsdm_pyg.registry import resolve_problem
from gsdm_pyg.settings import ModelSettings, TrainingSettings
from gsdm_pyg.settings_base import Settings, SettingsError


class _Loader(yaml.SafeLoader):
    """YAML without base 60, in which 10:00:00:00 would be a number."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, re.compile(r"[-+]?[0-9]+$") if tag.endswith(":int") else pattern)
        for tag, pattern in resolvers
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class ProblemConfig(Settings):
    """A problem and its sizes: a number, or [low, high] to draw one per instance.

    A field of several sizes takes a list, or {length: [2, 5], each: [1, 10]}.
    """

    model_config = ConfigDict(extra="allow")
    name: str
    """Name of the problem class, or path/to/file.py:ClassName."""

    def source(self) -> ProblemFamily:
        """The family that the config describes."""
        problem: type[Problem] = resolve_problem(self.name)
        return problem.family(**(self.model_extra or {}))


class Config(TrainingSettings):
    """One experiment."""

    problem: ProblemConfig
    model: ModelSettings = ModelSettings()

    def dump(self) -> str:
        """The resolved config as YAML that `load_config` reads back."""
        values = self.model_dump(mode="json")
        first = {name: values.pop(name) for name in ("problem", "model")}
        return yaml.safe_dump({**first, **values}, sort_keys=False)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, apply overrides `a.b=value` and validate the result.

    The problem is looked up: a Python file that the config names is executed.
    """
    return parse_config(read_config(path, overrides))


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The sections of one experiment, overridden; nothing is looked up or executed."""
    values = read_yaml(Path(path))
    if "rows" in values:
        raise SettingsError(
            f"{path} has several rows: name one with --row, or make all of them by "
            f"`python -m gsdm_pyg reproduce {path}` (got no --row)."
        )
    for override in overrides:
        apply_override(values, override)
    return values


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of a YAML file."""
    if not path.is_file():
        near = sorted(str(p) for p in path.parent.glob("*.yaml"))
        hint = f" There: {', '.join(near)}." if near else ""
        raise SettingsError(
            f"The config file does not exist (got {str(path)!r}).{hint}"
        )
    try:
        values = yaml.load(path.read_text(), _Loader) or {}
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise SettingsError(
            f"{path} must hold sections such as 'problem:' and 'model:'."
        )
    return values


def parse_config(values: dict[str, Any]) -> Config:
    """Validate the sections of a config."""
    config = Config.parse(values)
    try:
        config.problem.source()
    except (ValueError, TypeError, FileNotFoundError) as error:
        raise SettingsError(f"problem: {error}") from error
    try:
        for sizes in config.evaluation.problems:
            config.problem.source().at(sizes)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"evaluation.problems: {error}") from error
    try:
        sampler = config.evaluation.sampler.within(config.model.num_timesteps)
    except SettingsError as error:
        raise SettingsError(f"evaluation: {error}") from error
    if sampler.steps != config.evaluation.steps:  # the default, shortened
        evaluation = config.evaluation.updated(sampler.model_dump())
        config = config.model_copy(update={"evaluation": evaluation})
    return config


def apply_override(values: dict[str, Any], override: str) -> None:
    """Change one value by a text such as model.layers=6."""
    dotted, equals, text = override.partition("=")
    keys = dotted.split(".")
    if not equals or not all(keys):
        raise SettingsError(f"An override reads section.key=value (got {override!r}).")
    section = values
    for key in keys[:-1]:
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            raise SettingsError(f"{key!r} has no keys below it (got {override!r}).")
    try:
        section[keys[-1]] = yaml.load(text, _Loader)
    except yaml.YAMLError:
        raise SettingsError(
            f"The value is not valid YAML (got {override!r})."
        ) from None
