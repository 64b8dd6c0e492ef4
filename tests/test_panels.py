"""How variables look: what a problem says, and what follows from shapes and domains."""

import re

import pytest

from gsdm_pyg import Categorical, GraphicalModel, Integer, Panel, Role
from gsdm_pyg.panels import check_panels, default_panels


def test_default_panels_follow_shapes_and_domains_and_leave_out_intermediates():
    graph = GraphicalModel()
    graph.add_variable("path", (20,))
    graph.add_variable("counts", (20,), Integer(0))
    graph.add_variable("short", (3,))
    graph.add_variable("image", (4, 5))
    graph.add_variable("bits", (30,), Categorical(2))
    graph.add_variable("digits", (4, 4), Categorical(9))
    graph.add_variable("scalar", ())
    graph.add_variable("inner", (4, 5), role=Role.INTERMEDIATE)
    assert default_panels(graph) == [
        Panel("path", ("path", "counts")),
        Panel("matrix", ("short",)),
        Panel("matrix", ("image",)),
        Panel("matrix", ("bits",)),
        Panel("grid", ("digits",)),
        Panel("matrix", ("scalar",)),
    ]


WRONG = [
    (lambda: Panel("grids", ("x",)), "Panel.kind"),
    (lambda: Panel("grid", "x"), "a sequence of names"),
    (lambda: Panel("grid", ()), "a sequence of names"),
    (lambda: Panel("grid", ("x", "y"), signs=("=", "=")), "takes 1 signs, or none"),
]


@pytest.mark.parametrize("make, message", WRONG)
def test_wrong_panels_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_panels_show_variables_of_the_problem():
    graph = GraphicalModel()
    graph.add_variable("x", (2, 2))
    with pytest.raises(ValueError, match=r"variables of the problem, x \(got 'y'\)"):
        check_panels([Panel("grid", ("y",))], graph)
    with pytest.raises(ValueError, match=r"'path' shows vectors \(got 'x' of shape"):
        check_panels([Panel("path", ("x",))], graph)
    with pytest.raises(TypeError, match="returns panels such as"):
        check_panels(["x"], graph)
