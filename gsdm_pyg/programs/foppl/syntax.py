"""The expressions of a FOPPL program, as `parse` builds and `evaluate` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gsdm_pyg.programs.foppl.place import Place
from gsdm_pyg.programs.foppl.values import Value


@dataclass(frozen=True)
class Constant:
    place: Place
    value: Value


@dataclass(frozen=True)
class Name:
    place: Place
    name: str


@dataclass(frozen=True)
class If:
    place: Place
    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True)
class Let:
    place: Place
    bindings: tuple[tuple[str, Expression], ...]
    body: tuple[Expression, ...]


@dataclass(frozen=True)
class Foreach:
    """A vector of `count` values of the body, with items of vectors by name."""

    place: Place
    count: Expression
    bindings: tuple[tuple[str, Expression], ...]
    body: tuple[Expression, ...]


@dataclass(frozen=True)
class Call:
    """A call of a built-in function, or of a function of the program."""

    place: Place
    function: str
    arguments: tuple[Expression, ...]
    number: int | None  # among all calls of a function of the program, from 1


@dataclass(frozen=True)
class Loop:
    """`count` calls of a function (index, state, arguments...) -> state."""

    place: Place
    count: Expression
    start: Expression
    call: Call  # without index and state


@dataclass(frozen=True)
class Site:
    """A `sample` or an `observe`."""

    place: Place
    statement: Literal["sample", "observe"]
    name: str  # where the program gives none
    arguments: tuple[Expression, ...]


Expression = Constant | Name | If | Let | Foreach | Call | Loop | Site


@dataclass(frozen=True)
class Function:
    """A `defn`, or the expressions of the program itself."""

    place: Place
    name: str
    parameters: tuple[str, ...]
    body: tuple[Expression, ...]


@dataclass(frozen=True)
class Source:
    """A program: its functions, its main function and how often each is called."""

    functions: Mapping[str, Function]
    main: Function
    calls: Mapping[str, int]  # places in the source, by function
