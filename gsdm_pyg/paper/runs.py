"""Runs of a figure: the configs that its file describes, and how to select some."""

from __future__ import annotations

import copy
import difflib
import hashlib
import itertools
import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gsdm_pyg.config import Config, apply_override, parse_config
from gsdm_pyg.paper.figure_file import (
    AtScale,
    FigureFile,
    Scale,
    Section,
    check_names,
    load_figure,
    load_sections,
)
from gsdm_pyg.problem import Problem
from gsdm_pyg.registry import resolve_problem
from gsdm_pyg.settings_base import SettingsError

Place = tuple[str, str, str, int]  # of a run in its figure: panel, point, row, seed


@dataclass(frozen=True)
class Run:
    """One run of a figure: its place there, and what to train and evaluate.

    Args:
        panel: The title of its panel.
        point: Its point on the axis.
        row: The name of its row.
        config: Its resolved config.
        baseline: A method without training instead: its name and its settings.
        pretrained: The model folder to use instead of training, if there is one.
        grid: Sizes of which all combinations are evaluated.
    """

    panel: str
    point: str
    row: str
    config: Config
    baseline: tuple[str, str] | None = None  # the settings as JSON
    pretrained: str | None = None
    grid: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def place(self) -> Place:
        return self.panel, self.point, self.row, self.seed

    @property
    def parts(self) -> list[str]:
        """What `--row` may name it by."""
        return [p for p in (self.row, self.panel, self.point, self._seed_text) if p]

    @property
    def _seed_text(self) -> str:
        return f"seed {self.seed}"

    @property
    def name(self) -> str:
        return "; ".join(self.parts)

    @property
    def labels(self) -> dict[str, Any]:
        """Its place in the figure, as JSON has it."""
        place = {"panel": self.panel, "point": self.point, "row": self.row}
        return {**place, "seed": self.seed}

    @cached_property
    def key(self) -> str:
        """The name of its folder: equal runs of several figures share it."""
        described = [
            self.config.model_dump(mode="json"),
            self.baseline,
            self.pretrained and [self.pretrained, _digest(Path(self.pretrained))],
        ]
        return content_key(self.config.problem.name, described)

    def problem(self, **sizes: Any) -> Problem:
        """The problem that it is evaluated on, or the same at other sizes."""
        at = {**self.config.evaluation.problems[0], **sizes}
        return resolve_problem(self.config.problem.name).family(**at).largest()

    def cells(self) -> list[dict[str, int]]:
        """All combinations of the sizes in the grid."""
        names = [name for name, _ in self.grid]
        sizes = itertools.product(*(values for _, values in self.grid))
        return [dict(zip(names, cell, strict=True)) for cell in sizes]


def content_key(name: str, content: Any) -> str:
    """A folder name such as bcmf-1f0c8a2b9d3e from what the folder depends on."""
    text = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{as_file_name(name.rpartition(':')[2])}-{digest[:12]}"


def _digest(model: Path) -> str | None:
    """What distinguishes the weights of a model folder, if there are any."""
    weights = model / "model.safetensors"
    return (
        hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else None
    )


def as_file_name(text: str) -> str:
    """A text in the characters that file names are best made of."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def load_runs(
    path: str | Path,
    scale: Scale,
    select: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> tuple[FigureFile, list[Run]]:
    """The file of a figure, and its runs at a scale.

    Args:
        path: The file.
        scale: "laptop" or "paper".
        select: Selections of `--row`, of which a run fits at least one.
        overrides: Changes `a.b=value` to the configs of these runs.
    """
    figure, sections = load_figure(path), load_sections(path)
    chosen = None
    if select:
        runs = list(_all_runs(figure, sections, scale))
        chosen = {run.place for text in select for run in select_runs(runs, text)}
    return figure, list(_all_runs(figure, sections, scale, overrides, chosen))


def load_run(
    path: str | Path, scale: Scale, select: str, overrides: Sequence[str] = ()
) -> Run:
    """The one run of a figure that a selection names; of several seeds the first."""
    _, runs = load_runs(path, scale, [select], overrides)
    first = [run for run in runs if run.seed == runs[0].seed]
    if len(first) > 1:
        names = [run.name for run in first]
        raise SettingsError(
            f"--row {select!r} names {len(first)} runs of {path}; name one of them, "
            f"such as --row {names[0].rpartition('; ')[0]!r} (got {'. '.join(names)})."
        )
    return first[0]


def select_runs(runs: Sequence[Run], text: str) -> list[Run]:
    """The runs with all the parts that a text names: a row, a panel, a point, a seed.

    Parts are separated by semicolons: "GSDM w/ EE; Sorting; 20".
    """
    parts = [part.strip() for part in text.split(";") if part.strip()]
    known = list(dict.fromkeys(part for run in runs for part in run.parts))
    for part in parts:
        if part not in known:
            near = difflib.get_close_matches(part, known, n=1, cutoff=0.4)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"known: {'; '.join(known)}."
            )
            raise SettingsError(f"--row: nothing is named {part!r}; {hint}")
    found = [run for run in runs if set(parts) <= set(run.parts)]
    if not parts or not found:
        raise SettingsError(
            "--row names a row, and if needed a panel, a point and a seed, separated "
            f"by semicolons, that belong together (got {text!r})."
        )
    return found


def _all_runs(
    figure: FigureFile,
    sections: Mapping[str, Section],
    scale: Scale,
    overrides: Sequence[str] = (),
    chosen: Container[Place] | None = None,
) -> Iterator[Run]:
    """The runs at all places, or at the chosen ones."""
    for title, panel in figure.panels.items():
        if panel.settings is not None:
            check_names("section of settings", [panel.settings], sections)
        names = ["common", panel.settings or "common"]
        shared = [sections[name] for name in dict.fromkeys(names) if name in sections]
        layers: list[dict[str, Any]] = []
        for part in (*shared, figure, panel):
            at_scale: AtScale = getattr(part, scale)
            layers += [part.base, at_scale.base]
        at_panel = figure.at_scale(title, scale)
        common: AtScale = getattr(figure, scale)
        grid = tuple((n, tuple(v)) for n, v in (at_panel.grid or common.grid).items())
        for point, change in figure.points(title, scale).items():
            for row, difference in figure.rows.items():
                if row in panel.without:
                    continue
                values: dict[str, Any] = {}
                further = (panel.rows.get(row, {}), at_panel.rows.get(row, {}))
                for layer in (*layers, change, difference, *further):
                    merge(values, layer)
                baseline = _baseline(values.pop("baseline", None))
                for text in overrides:
                    apply_override(values, text)
                complete_evaluation(values)
                where = f"{row}; {title}; {point}"
                for seed in figure.seeds(title, scale):
                    if chosen is not None and (title, point, row, seed) not in chosen:
                        continue
                    config = _parse({"seed": seed, **values}, where)
                    model = at_panel.pretrained or common.pretrained
                    yield Run(title, point, row, config, baseline, model, grid)


def _baseline(value: Any) -> tuple[str, str] | None:
    """A row's `baseline: lmh`, or `baseline: {name: lmh, warmup: 100}`."""
    if value is None:
        return None
    settings = {"name": value} if isinstance(value, str) else dict(value)
    return settings.pop("name"), json.dumps(settings, sort_keys=True)


def _parse(values: dict[str, Any], where: str) -> Config:
    try:
        return parse_config(values)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error


def merge(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Change values by others, section by section; lists are replaced as a whole."""
    for name, change in changes.items():
        if isinstance(change, Mapping) and isinstance(values.get(name), dict):
            merge(values[name], change)
        else:
            values[name] = copy.deepcopy(change)


def complete_evaluation(values: dict[str, Any]) -> None:
    """Evaluate on the sizes that are trained on, where the file names no others."""
    problem = {n: v for n, v in values.get("problem", {}).items() if n != "name"}
    evaluation = values.setdefault("evaluation", {})
    entries = evaluation.get("problems") or [{}]
    evaluation["problems"] = [{**problem, **entry} for entry in entries]
