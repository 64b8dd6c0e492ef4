"""Files of figures: a base, and scales, panels, points and rows as differences."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from gsdm_pyg.config import read_yaml
from gsdm_pyg.settings_base import Settings, SettingsError

CHANCE = "chance"  # answers that ignore what is given
SETTINGS = "table2.yaml"  # the settings per problem, beside the figures

Scale = Literal["laptop", "paper"]
Kind = Literal["scaling", "curves", "heatmap", "samples", "complexity", "masks"]
Changes = dict[str, Any]  # to sections of a config, as YAML has them


def _with_text_keys(value: Any) -> Any:
    """YAML reads the key 16 as a number; names are texts."""
    if isinstance(value, dict):
        return {str(key): inner or {} for key, inner in value.items()}
    return value


Named = Annotated[dict[str, Changes], BeforeValidator(_with_text_keys)]


class AtScale(Settings):
    """What one scale changes."""

    base: Changes = Field(default_factory=dict)
    """Sections of the config."""
    points: Named = Field(default_factory=dict)
    """The points of the panel, in place of those of the panel itself."""
    rows: Named = Field(default_factory=dict)
    """What rows change further at this scale; for panels."""
    grid: dict[str, list[int]] = Field(default_factory=dict)
    """Sizes by name: all of their combinations are evaluated."""
    seeds: list[NonNegativeInt] = Field(default_factory=list)
    """The seeds of each run; those of the file, or 0, if empty."""
    pretrained: str | None = None
    """A model folder to use instead of training."""


class Section(Settings):
    """The settings of one problem, as in table 2 of the paper."""

    base: Changes = Field(default_factory=dict)
    """Sections of the config at every scale."""
    laptop: AtScale = AtScale()
    """What the scale of two cores changes."""
    paper: AtScale = AtScale()
    """What the paper's scale changes."""


class Panel(Section):
    """One panel of a figure: a problem, a metric, and points along an axis."""

    settings: str | None = None
    """The section of table2.yaml to start from."""
    metric: str
    """The metric to show."""
    axis: str = ""
    """What the points are, as the label of the x axis."""
    points: Named = Field(default_factory=dict)
    """The points of the axis, as differences."""
    rows: Named = Field(default_factory=dict)
    """What rows change further in this panel."""
    without: list[str] = Field(default_factory=list)
    """The rows that this panel does not have."""
    chance: Literal["prior", "marginals"] = "prior"
    """Answers that ignore what is given, drawn as a dashed line: from the prior, or
    each entry by itself, see `gsdm_pyg.baselines.prior`."""
    time_to: float | None = None
    """Show the minutes until the metric is as good as this, instead of its value."""
    samples: PositiveInt = 2
    """Samples of each instance, where samples are shown."""
    formulas: dict[str, float] = Field(default_factory=dict)
    """The exponent that the paper states for a row; for the complexity table."""


class Claim(Settings):
    """One claim of the paper: how a row compares with another one, or with a number."""

    says: str
    """The claim in words."""
    row: str
    """The row that it is about."""
    than: str | float
    """The row to compare with, "chance" for answers that ignore what is given, or a
    value."""
    how: Literal["better", "no worse", "alike"] = "better"
    """Whether the row should be better, worse by `margin` at most, or neither."""
    margin: NonNegativeFloat = 0.0
    """What makes no difference, in the unit of the metric."""
    panels: list[str] = Field(default_factory=list)
    """The panels that it is about; by default all that have both rows."""
    points: Annotated[
        list[str], BeforeValidator(lambda value: [str(point) for point in value])
    ] = Field(default_factory=list)
    """The points that it is about; by default all."""
    metric: str | None = None
    """The metric to compare; by default the panel's."""
    within: float | None = None
    """Compare the shares of instances that are this near to the best value instead."""
    during: bool = False
    """Compare the means over the curve of training instead: which row learns sooner."""
    every: bool = False
    """Whether it must hold at every point, and not on their average."""

    @model_validator(mode="after")
    def _check_margin(self) -> Self:
        if (self.how == "better") != (self.margin == 0):
            raise ValueError(
                "margin is for claims with how: no worse, or how: alike, which need "
                f"one above 0 (got how={self.how!r}, margin={self.margin})"
            )
        return self


class FigureFile(Section):
    """A figure or table of the paper."""

    title: str
    """What it is, starting with its number in the paper."""
    kind: Kind
    """How it is made and drawn, see `gsdm_pyg.paper.kinds`."""
    shows: str
    """What the paper shows."""
    panels: Annotated[dict[str, Panel], Field(min_length=1)]
    """The panels by title."""
    rows: Annotated[Named, Field(min_length=1)]
    """The rows (the methods) as differences; `baseline` names one without training."""
    claims: list[Claim]
    """What the paper claims and the figure tests."""

    def points(self, panel: str, scale: Scale) -> Mapping[str, Changes]:
        """The points of a panel as differences; one without a name if it has none."""
        chosen = self.panels[panel]
        at_scale: AtScale = getattr(chosen, scale)
        return at_scale.points or chosen.points or {"": {}}

    def seeds(self, panel: str, scale: Scale) -> list[int]:
        """The seeds of each run of a panel."""
        own: AtScale = getattr(self.panels[panel], scale)
        common: AtScale = getattr(self, scale)
        return own.seeds or common.seeds or [0]

    def at_scale(self, panel: str, scale: Scale) -> AtScale:
        """What a scale says about a panel."""
        found: AtScale = getattr(self.panels[panel], scale)
        return found


def load_figure(path: str | Path) -> FigureFile:
    """Read and check the file of a figure, without the settings of its problems."""
    path = Path(path)
    values = read_yaml(path)
    if "rows" not in values:
        raise SettingsError(
            f"{path} is no figure, as it has no rows: train it without --row, or name "
            f"a file of configs/paper (got the keys {', '.join(values)})."
        )
    figure = FigureFile.parse(values)
    for title, panel in figure.panels.items():
        scaled = [*panel.laptop.rows, *panel.paper.rows]
        named = [*panel.rows, *panel.without, *scaled]
        check_names(f"panels.{title}: row", named, figure.rows)
    for claim in figure.claims:
        than = [claim.than] if isinstance(claim.than, str) else []
        rows = [claim.row, *(name for name in than if name != CHANCE)]
        check_names("claims: row", rows, figure.rows)
        check_names("claims: panel", claim.panels, figure.panels)
    return figure


def load_sections(path: str | Path) -> dict[str, Section]:
    """The settings per problem, from the file beside a figure; none if it is not there.

    The section "common" belongs to all.
    """
    file = Path(path).with_name(SETTINGS)
    if not file.is_file():
        return {}
    return {name: Section.parse(values) for name, values in read_yaml(file).items()}


def check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Reject a name that is not known, with the nearest one that is."""
    known = list(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"known: {'; '.join(known)}."
            )
            raise SettingsError(f"There is no {what} {name!r}; {hint}")
