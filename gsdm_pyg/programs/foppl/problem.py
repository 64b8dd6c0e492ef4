"""FOPPL programs as problems."""

from __future__ import annotations

import keyword
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import new_class
from typing import Any, ClassVar

from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.programs.draw import draw
from gsdm_pyg.programs.foppl.evaluate import Run
from gsdm_pyg.programs.foppl.parse import parse
from gsdm_pyg.programs.foppl.place import Place
from gsdm_pyg.programs.foppl.reader import read
from gsdm_pyg.programs.foppl.syntax import Function, Source
from gsdm_pyg.programs.program_problem import ProgramProblem
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.sizes import Size
from gsdm_pyg.variables import Role


class FopplProblem(ProgramProblem, register=False):
    """A problem that a FOPPL program states; `from_foppl` makes its subclasses."""

    source: ClassVar[Source]

    def program(self) -> None:
        self._run().run()

    def _run(self) -> Run:
        fields = _fields(self.source.main)
        return Run(self.source, [getattr(self, field) for field in fields])

    def graphical_model(self) -> GraphicalModel:
        graph = super().graphical_model()
        _set_roles(graph)
        return graph

    @property
    def given_values(self) -> dict[str, Tensor]:
        """The values that the program observes, for `model.sample(given=...)`.

        An entry that is observed without a value is missing (NaN).
        """
        run = self._run()
        with seeded(keyed_generator("given")):
            draw(run.run, 1, vectorized=False)
        return run.variables.given()


def from_foppl(source: str | Path, name: str | None = None) -> type[FopplProblem]:
    """The problem that a FOPPL program states.

    Args:
        source: A path that ends in `.foppl`, or the text of a program.
        name: The name of the class; by default that of the file. A text with a name is
            found by `resolve_problem` as other problems are.

    Example::

        bcmf = from_foppl("examples/programs/bcmf_sizes.foppl")
        model = GSDM.from_problem(bcmf.family(m=(1, 10), n=(1, 10), k=(1, 4)))
    """
    text = str(source)
    if isinstance(source, str) and not text.endswith(".foppl"):
        return _problem_class(text, "<foppl>", name, None)
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"The FOPPL file does not exist (got {text!r}).")
    return _problem_class(path.read_text(), text, name or path.stem, text)


@lru_cache(maxsize=256)
def _problem_class(
    text: str, file: str, name: str | None, reference: str | None
) -> type[FopplProblem]:
    program = parse(read(text, file), Place(file, 1, 1))
    namespace = {
        "__annotations__": dict.fromkeys(_fields(program.main), Size),
        "__doc__": _comment(text),
        "__module__": __name__,
        "source": program,
    }
    problem: Any = new_class(
        re.sub(r"\W", "_", name or "FopplProgram"),
        (FopplProblem,),
        {"register": reference is None and name is not None},
        lambda body: body.update(namespace),
    )
    problem.reference = reference
    return problem


def _fields(main: Function) -> list[str]:
    """The parameters of main as fields of a problem: names of Python."""
    fields = [parameter.replace("-", "_") for parameter in main.parameters]
    for field in fields:
        usable = field.isidentifier() and not keyword.iskeyword(field)
        if not usable or field.startswith("_") or hasattr(FopplProblem, field):
            raise main.place.error(
                "The arguments of main are sizes, fields of the problem: choose a name "
                f"that Python and Problem leave free, such as n (got {field})."
            )
    return fields


def _comment(text: str) -> str:
    """The comment at the beginning of a source."""
    lines = []
    for line in text.splitlines():
        if not line.startswith(";"):
            break
        lines.append(line.lstrip("; "))
    return "\n".join(lines) or "A FOPPL program."


def _set_roles(graph: GraphicalModel) -> None:
    """A `dirac` on which no other variable depends is a result, no intermediate.

    It is what is given if the program observes nothing else, as the paper's E, and is
    predicted otherwise.
    """
    variables = graph.variables
    observes = any(v.role is Role.OBSERVED for v in variables.values())
    parent, child = graph.edges()
    for name, variable in variables.items():
        nodes = variable.nodes
        own_parent = (parent >= nodes.start) & (parent < nodes.stop)
        own_child = (child >= nodes.start) & (child < nodes.stop)
        if variable.role is Role.INTERMEDIATE and not (own_parent & ~own_child).any():
            role = Role.LATENT if observes else Role.OBSERVED
            variables[name] = replace(variable, role=role)
