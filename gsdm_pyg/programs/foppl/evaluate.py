"""Run a FOPPL program: its special forms, and its statements as those of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from gsdm_pyg.programs.foppl.builtins import BUILTINS
from gsdm_pyg.programs.foppl.checks import misused
from gsdm_pyg.programs.foppl.distributions import LAWS, check_law
from gsdm_pyg.programs.foppl.statements import (
    Variables,
    execute,
    name_and_entry,
    observed_value,
)
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
from gsdm_pyg.programs.foppl.values import (
    Law,
    Value,
    choose,
    describe,
    is_boolean,
    vector,
    whole,
)

Scope = Mapping[str, Value]


class Run:
    """One run of a program, under the handler that is active.

    Args:
        source: The program.
        sizes: The arguments of its main function.
    """

    def __init__(self, source: Source, sizes: Sequence[int]) -> None:
        self.source = source
        self.sizes = sizes
        self.variables = Variables()
        self._indices: list[int] = []  # of the loops around
        self._path: list[str] = []  # calls of functions with several calls
        self._choices = 0  # random conditions around

    def run(self) -> Value:
        """Make all statements; the value of the main function."""
        value = self._apply(self.source.main, self.sizes)
        self.variables.check()
        return value

    def _evaluate(self, expression: Expression, scope: Scope) -> Value:
        match expression:
            case Constant():
                return expression.value
            case Name():
                return scope[expression.name]
            case If():
                return self._if(expression, scope)
            case Let():
                inner = dict(scope)
                for name, value in expression.bindings:
                    inner[name] = self._evaluate(value, inner)
                return self._body(expression.body, inner)
            case Foreach():
                return self._foreach(expression, scope)
            case Loop():
                return self._loop(expression, scope)
            case Site():
                return self._site(expression, scope)
            case Call():
                return self._call(expression, self._all(expression.arguments, scope))

    def _all(
        self, expressions: Sequence[Expression], scope: Scope
    ) -> tuple[Value, ...]:
        return tuple([self._evaluate(e, scope) for e in expressions])

    def _body(self, expressions: Sequence[Expression], scope: Scope) -> Value:
        return self._all(expressions, scope)[-1]

    def _apply(self, function: Function, arguments: Sequence[Value]) -> Value:
        scope = dict(zip(function.parameters, arguments, strict=True))
        return self._body(function.body, scope)

    def _call(self, call: Call, arguments: tuple[Value, ...]) -> Value:
        name, place = call.function, call.place
        if call.number is None:
            if name in LAWS:
                return Law(name, arguments)
            return place.call(name, BUILTINS[name], *arguments)
        several = self.source.calls[name] > 1
        if several:
            self._path.append(f"{name}{call.number}")
        value = self._apply(self.source.functions[name], arguments)
        if several:
            self._path.pop()
        return value

    def _if(self, expression: If, scope: Scope) -> Value:
        condition = self._evaluate(expression.condition, scope)
        if not is_boolean(condition):
            raise expression.condition.place.error(
                "if takes a condition, true or false, such as (= x 1) "
                f"(got {describe(condition)})."
            )
        if not isinstance(condition, Tensor):
            return self._evaluate(expression.yes if condition else expression.no, scope)
        self._choices += 1
        yes = self._evaluate(expression.yes, scope)
        no = self._evaluate(expression.no, scope)
        self._choices -= 1
        return expression.place.call("if", choose, condition, yes, no)

    def _foreach(self, expression: Foreach, scope: Scope) -> Value:
        count = self._count("foreach", expression.count, scope)
        vectors = {}
        for name, value in expression.bindings:
            items = value.place.call("foreach", vector, self._evaluate(value, scope))
            if len(items) < count:
                raise value.place.error(
                    f"foreach takes {count} items of each vector (got {len(items)})."
                )
            vectors[name] = items
        values = []
        for index in range(count):
            self._indices.append(index)
            items_here = {name: items[index] for name, items in vectors.items()}
            values.append(self._body(expression.body, {**scope, **items_here}))
            self._indices.pop()
        return tuple(values)

    def _loop(self, expression: Loop, scope: Scope) -> Value:
        count = self._count("loop", expression.count, scope)
        state = self._evaluate(expression.start, scope)
        arguments = self._all(expression.call.arguments, scope)
        for index in range(count):
            self._indices.append(index)
            state = self._call(expression.call, (index, state, *arguments))
            self._indices.pop()
        return state

    def _count(self, form: str, expression: Expression, scope: Scope) -> int:
        count = self._evaluate(expression, scope)
        return expression.place.call(f"The count of {form}", whole, count)

    def _site(self, site: Site, scope: Scope) -> Value:
        statement, place = site.statement, site.place
        if statement == "observe" and self._choices:
            raise place.error(
                "observe inside of an if whose condition is random cannot be followed: "
                "put the if into the distribution, as in (observe (if c (normal 0 1) "
                "(normal 5 1)) y)."
            )
        arguments = list(self._all(site.arguments, scope))
        name, entry = ".".join((*self._path, site.name)), None
        if isinstance(arguments[0], str | tuple):
            name, entry = place.call(statement, name_and_entry, arguments.pop(0))
        if not arguments or len(arguments) > (2 if statement == "observe" else 1):
            raise misused(statement, place)
        law = place.call(statement, check_law, arguments[0])
        entry = tuple(self._indices) if entry is None else entry
        self.variables.add(name, entry, place)
        drawn, value = place.call(law.name, execute, statement, name, entry, law)
        if len(arguments) == 2 and arguments[1] is not None:
            self.variables[name].entries[entry] = place.call(
                "observe", observed_value, law, arguments[1], drawn
            )
        return value
