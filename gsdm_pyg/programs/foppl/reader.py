"""Read FOPPL: text -> tokens -> nested forms, each with its line and column."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from gsdm_pyg.programs.foppl.place import Place

_TOKEN = re.compile(
    r"""(?P<space>[\s,]+|;[^\n]*)
      | (?P<bracket>[()\[\]{}])
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<atom>[^\s,;()\[\]{}"]+)""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+")
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CONSTANTS = {"true": True, "false": False, "nil": None}
_ESCAPES = {"n": "\n", "t": "\t"}


@dataclass(frozen=True)
class Atom:
    """A number, a boolean, a string, a keyword (the string ":name") or nil."""

    place: Place
    value: int | float | bool | str | None


@dataclass(frozen=True)
class Symbol:
    """A name."""

    place: Place
    name: str


@dataclass(frozen=True)
class Group:
    """Forms in brackets."""

    place: Place
    bracket: str  # the opening one
    items: tuple[Form, ...]


Form = Atom | Symbol | Group


def read(text: str, file: str) -> list[Form]:
    """The forms of a source, in order.

    Args:
        text: The source.
        file: Its file, for errors.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    forms: list[Form] = []
    open_groups: list[tuple[str, Place, list[Form]]] = []  # forms around those in it
    position = 0
    while position < len(text):
        line = bisect_right(starts, position)
        place = Place(file, line, position - starts[line - 1] + 1)
        token = _TOKEN.match(text, position)
        if token is None:
            raise place.error('This string has no closing quote: add a " (got none).')
        position, word = token.end(), token.group()
        if token.lastgroup == "string":
            forms.append(Atom(place, _unescape(word[1:-1])))
        elif token.lastgroup == "atom":
            forms.append(_atom(word, place))
        elif word in _CLOSING:
            open_groups.append((word, place, forms))
            forms = []
        elif token.lastgroup == "bracket":
            _check_closing(word, place, open_groups)
            bracket, start, around = open_groups.pop()
            around.append(Group(start, bracket, tuple(forms)))
            forms = around
    if open_groups:
        bracket, place, _ = open_groups[-1]
        raise place.error(
            f"This {bracket} is never closed: add a {_CLOSING[bracket]} "
            "(got the end of the source)."
        )
    return forms


def _check_closing(
    word: str, place: Place, open_groups: list[tuple[str, Place, list[Form]]]
) -> None:
    if not open_groups:
        raise place.error(f"No open bracket is left here to close (got {word}).")
    bracket, start, _ = open_groups[-1]
    if _CLOSING[bracket] != word:
        raise place.error(
            f"The {bracket} of line {start.line}, column {start.column} is closed by "
            f"a {_CLOSING[bracket]} (got {word})."
        )


def _atom(word: str, place: Place) -> Form:
    if word in _CONSTANTS:
        return Atom(place, _CONSTANTS[word])
    if _INTEGER.fullmatch(word):
        return Atom(place, int(word))
    if _REAL.fullmatch(word):
        return Atom(place, float(word))
    if re.match(r"[+-]?\.?\d", word):
        raise place.error(f"A number reads 3, -0.5 or 1e-3 (got {word}).")
    if word[0] in "'`~@#^\\":
        raise place.error(
            "FOPPL has no quotes, no macros and no anonymous functions: define a "
            f"function by defn (got {word})."
        )
    return Atom(place, word) if word[0] == ":" else Symbol(place, word)


def _unescape(text: str) -> str:
    return re.sub(
        r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL
    )
