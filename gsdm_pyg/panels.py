"""How the variables of a problem look on screen: a description, not code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from gsdm_pyg.checks import check_choice
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.variables import Role, Variable

PanelKind = Literal["grid", "matrix", "path"]

_LONG = 12  # entries of a vector, from which on a line shows more than cells


@dataclass(frozen=True)
class Panel:
    """Variables that are shown side by side, see `Problem.panels`.

    Args:
        kind: "grid" writes entries into cells, "matrix" shows them as colors, and
            "path" draws vectors as lines over their index, in one diagram.
        variables: Their names, in order.
        signs: What is written between them, such as ("×", "=") for A × R = E.
        labels: What a grid writes for class 0, 1 and so on; the number by default.
        block: Rows and columns of the blocks that thick lines of a grid enclose.
        marks: Constraint of `Problem.violations` -> the variable whose entries are red
            where it is violated; one that is called like a variable needs no mark. Its
            violations are of the variable's shape, or of its leading axes.
    """

    kind: PanelKind
    variables: Sequence[str]
    signs: Sequence[str] = ()
    labels: Sequence[str] = ()
    block: tuple[int, int] | None = None
    marks: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("Panel.kind", self.kind, PanelKind)
        if isinstance(self.variables, str) or not self.variables:
            raise ValueError(
                'The variables of a panel are a sequence of names, such as ("A", "R") '
                f"(got {self.variables!r})."
            )
        if self.signs and len(self.signs) != len(self.variables) - 1:
            raise ValueError(
                f"A panel of {len(self.variables)} variables takes "
                f"{len(self.variables) - 1} signs, or none (got {self.signs!r})."
            )

    def to_dict(self) -> dict[str, Any]:
        """The panel as JSON knows it."""
        return asdict(self)


def check_panels(panels: Sequence[Panel], graph: GraphicalModel) -> list[Panel]:
    """The panels, if they show variables of the graph."""
    for panel in panels:
        if not isinstance(panel, Panel):
            raise TypeError(
                f"panels() returns panels such as Panel({get_args(PanelKind)[0]!r}, "
                f'("x",)) (got {panel!r:.100}).'
            )
        for name in (*panel.variables, *panel.marks.values()):
            if name not in graph.variables:
                raise ValueError(
                    f"A panel shows variables of the problem, "
                    f"{', '.join(graph.variables)} (got {name!r})."
                )
            if panel.kind == "path" and len(graph.variables[name].shape) != 1:
                raise ValueError(
                    f"A panel of kind 'path' shows vectors (got {name!r} of shape "
                    f"{graph.variables[name].shape})."
                )
    return list(panels)


def default_panels(graph: GraphicalModel) -> list[Panel]:
    """Panels that suit the shapes and domains of the variables; no intermediates.

    Long vectors of numbers are paths, those of one length in one diagram. Classes are
    written in grids if there are more than two. All else is colors.
    """
    paths: dict[int, list[str]] = {}
    panels = []
    for variable in graph.variables.values():
        if variable.role is Role.INTERMEDIATE:
            continue
        if _is_path(variable):
            paths.setdefault(variable.num_nodes, []).append(variable.name)
            continue
        classes = variable.domain.num_classes
        kind: PanelKind = "grid" if classes and classes > 2 else "matrix"
        panels.append(Panel(kind, (variable.name,)))
    return [*(Panel("path", tuple(names)) for names in paths.values()), *panels]


def _is_path(variable: Variable) -> bool:
    numbers = variable.domain.num_classes is None
    return numbers and len(variable.shape) == 1 and variable.num_nodes >= _LONG
