"""Forms -> expressions, with all checks that need no run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from gsdm_pyg.programs.foppl.builtins import BUILTINS
from gsdm_pyg.programs.foppl.checks import (
    USES,
    check_arguments,
    check_recursion,
    misused,
    unknown,
)
from gsdm_pyg.programs.foppl.distributions import LAWS
from gsdm_pyg.programs.foppl.forms import (
    bindings_of,
    is_definition,
    strings,
    symbol_name,
)
from gsdm_pyg.programs.foppl.place import Place
from gsdm_pyg.programs.foppl.reader import Atom, Form, Group, Symbol
from gsdm_pyg.programs.foppl.syntax import (
    Call,
    Constant,
    Expression,
    Foreach,
    Function,
    If,
    Let,
    Loop,
    Name,
    Site,
    Source,
)

Scope = frozenset[str]


def parse(forms: Sequence[Form], start: Place) -> Source:
    """The program that forms are.

    Args:
        forms: The definitions, and the expressions of the program itself.
        start: The beginning of the source, for errors.
    """
    parser = _Parser(forms)
    for form in forms:
        if is_definition(form):
            parser.declare(form)
    functions = {name: parser.function(name) for name in parser.definitions}
    own = [form for form in forms if not is_definition(form)]
    if own and "main" in functions:
        raise own[0].place.error(
            "A program is its function main, or an expression after its definitions: "
            "remove one of them (got both)."
        )
    if not own and "main" not in functions:
        raise start.error(
            "A program has an expression after its definitions, or a function "
            "(defn main [size ...] ...) (got neither)."
        )
    parser.caller = "main"
    main = functions.get("main") or Function(
        own[0].place, "main", (), parser.body(own, frozenset())
    )
    check_recursion(parser.callees)
    return Source(functions, main, parser.calls)


class _Parser:
    def __init__(self, forms: Sequence[Form]) -> None:
        self.definitions: dict[str, tuple[Group, Group]] = {}  # form and parameters
        self.callees: dict[str, dict[str, Place]] = {}
        self.calls: Counter[str] = Counter()
        self.caller = "main"
        self._taken = set(strings(forms))  # names of variables
        self._sites: Counter[str] = Counter()

    def declare(self, form: Form) -> None:
        match form:
            case Group(items=(_, Symbol() as name, Group(_, "[") as parameters, _, *_)):
                pass
            case _:
                raise misused("defn", form.place)
        if name.name in USES or name.name in self.definitions:
            raise name.place.error(
                "Every function has a name of its own, and none that of a special form "
                f"(got {name.name} again)."
            )
        self.definitions[name.name] = form, parameters

    def function(self, name: str) -> Function:
        self.caller = name
        form, group = self.definitions[name]
        parameters = tuple(symbol_name(item) for item in group.items)
        named = [parameter for parameter in parameters if parameter != "_"]
        if len(set(named)) < len(named):
            raise group.place.error(
                f"Every argument of {name} has a name of its own (got one twice)."
            )
        body = self.body(form.items[3:], frozenset(parameters))
        return Function(form.place, name, parameters, body)

    def body(
        self, forms: Sequence[Form], scope: Scope, hint: str | None = None
    ) -> tuple[Expression, ...]:
        """Expressions, the last of which is the value."""
        expressions = [self.expression(form, scope) for form in forms[:-1]]
        expressions += [self.expression(form, scope, hint) for form in forms[-1:]]
        return tuple(expressions)

    def expression(
        self, form: Form, scope: Scope, hint: str | None = None
    ) -> Expression:
        """The expression of a form.

        Args:
            form: What to parse.
            scope: The names that have a value here.
            hint: The name of the value in a `let`, which a sample is named by.
        """
        match form:
            case Atom(place, value):
                return Constant(place, value)
            case Symbol(place, name):
                if name not in scope:
                    raise unknown("value", form, scope)
                return Name(place, name)
            case Group(place, "[", items):
                return Call(place, "vector", self.body(items, scope), None)
            case Group(place, "{", items):
                return Call(place, "hash-map", self.body(items, scope), None)
            case Group(place, _, (Symbol(_, name) as head, *rest)):
                if name in USES:
                    return self._special(name, form, scope, hint)
                return self._call(place, head, rest, scope)
        raise form.place.error(
            "A call begins with the name of a function, as in (+ 1 2) (got none)."
        )

    def _special(
        self, head: str, form: Group, scope: Scope, hint: str | None
    ) -> Expression:
        place, items = form.place, form.items[1:]
        match head, items:
            case "if", (condition, yes, no):
                return If(
                    place,
                    self.expression(condition, scope),
                    self.expression(yes, scope),
                    self.expression(no, scope),
                )
            case "let", (Group(_, "[") as group, _, *_):
                bindings = []
                for name, value in bindings_of(group):
                    bindings.append((name, self.expression(value, scope, name)))
                    scope |= {name}
                body = self.body(items[1:], scope, hint)
                return Let(place, tuple(bindings), body)
            case "foreach", (count, Group(_, "[") as group, _, *_):
                repeats = self.expression(count, scope)
                vectors = tuple(
                    (name, self.expression(value, scope))
                    for name, value in bindings_of(group)
                )
                scope |= {name for name, _ in vectors}
                body = self.body(items[2:], scope, hint)
                return Foreach(place, repeats, vectors, body)
            case "loop", (count, start, Symbol() as function, *rest):
                repeats = self.expression(count, scope)
                state = self.expression(start, scope)
                call = self._call(function.place, function, rest, scope, 2)
                return Loop(place, repeats, state, call)
            case "sample", (_,) | (_, _):
                return self._site("sample", form, scope, hint)
            case "observe", (_,) | (_, _) | (_, _, _):
                return self._site("observe", form, scope, hint)
        raise misused(head, place)

    def _site(
        self,
        statement: Literal["sample", "observe"],
        form: Group,
        scope: Scope,
        hint: str | None,
    ) -> Site:
        if hint is None or hint == "_":
            self._sites[statement] += 1
            hint = f"{statement}{self._sites[statement]}"
        name, number = hint, 1
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        return Site(form.place, statement, name, self.body(form.items[1:], scope))

    def _call(
        self,
        place: Place,
        head: Symbol,
        rest: Sequence[Form],
        scope: Scope,
        more: int = 0,
    ) -> Call:
        """A call, which gets `more` arguments before those in the source."""
        name, count = head.name, more + len(rest)
        arguments = self.body(rest, scope)
        if name in self.definitions:
            parameters = self.definitions[name][1]
            check_arguments(name, len(parameters.items), count, place)
            self.calls[name] += 1
            self.callees.setdefault(self.caller, {})[name] = place
            return Call(place, name, arguments, self.calls[name])
        if name in scope:
            raise head.place.error(
                f"{name} is a value: a call begins with the name of a function of the "
                "program or of FOPPL (got a value)."
            )
        if name not in BUILTINS and name not in LAWS:
            raise unknown(
                "function", head, {*BUILTINS, *LAWS, *self.definitions, *USES}
            )
        check_arguments(name, BUILTINS.get(name) or LAWS[name], count, place)
        return Call(place, name, arguments, None)
