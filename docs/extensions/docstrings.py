"""What autodoc does not know of our docstrings: shapes, and settings."""

import re
from typing import Any, Literal, get_args, get_origin

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import gsdm_pyg.settings
from gsdm_pyg.settings_base import Settings


def escape_shapes(app: Sphinx, *described: Any) -> None:
    """Write the star of a shape [num, *shape] as such: a docstring has no emphasis."""
    lines: list[str] = described[-1]
    lines[:] = [re.sub(r"([\[ ])\*(\w+[\],])", r"\1\\*\2", line) for line in lines]


def add_default(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """The default of a setting, and the values that it may take."""
    path = name.removeprefix("gsdm_pyg.").removeprefix("settings.").split(".")
    owner = getattr(gsdm_pyg.settings, path[0], None)
    if len(path) != 2 or not (isinstance(owner, type) and issubclass(owner, Settings)):
        return
    field = owner.model_fields.get(path[1])
    if field is None:
        return
    default = field.get_default(call_default_factory=True)
    lines += ["", f"Default: ``{default!r}``."]
    if get_origin(field.annotation) is Literal:
        choices = get_args(field.annotation)
        lines[-1] += f" One of {', '.join(f'``{choice!r}``' for choice in choices)}."


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("autodoc-process-docstring", escape_shapes)
    app.connect("autodoc-process-docstring", add_default, priority=900)
    return {"parallel_read_safe": True}
