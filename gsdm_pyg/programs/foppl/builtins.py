"""Functions of FOPPL: arithmetic and conditions; `vectors` adds the others.

Constants are folded in Python, so that counts and indices stay constant. Arguments that
do not fit raise `Misuse`, to which the evaluator adds the function and its place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise

import torch
from torch import Tensor

from gsdm_pyg.programs.foppl.place import Misuse
from gsdm_pyg.programs.foppl.values import (
    Value,
    describe,
    is_boolean,
    is_number,
    is_random,
    numbers,
)
from gsdm_pyg.programs.foppl.vectors import VECTORS, Builtin

# Numbers


def _sum(*terms: Value) -> Value:
    return reduce(operator.add, numbers(terms)) if terms else 0


def _product(*factors: Value) -> Value:
    return reduce(operator.mul, numbers(factors)) if factors else 1


def _difference(first: Value, *others: Value) -> Value:
    numbers((first, *others))
    return reduce(operator.sub, others, first) if others else -first


def _quotient(first: Value, *others: Value) -> Value:
    numbers((first, *others))
    return reduce(_divide, others, first) if others else _divide(1, first)


def _divide(a: Value, b: Value) -> Value:
    exact = isinstance(a, int) and isinstance(b, int) and b != 0 and a % b == 0
    return a // b if exact else a / b


def _power(base: Value, exponent: Value) -> Value:
    numbers((base, exponent))
    if is_random((base, exponent)):
        return torch.pow(base, exponent)
    result = base**exponent
    if isinstance(result, complex):
        raise Misuse(f"has no real result (got {base} and {exponent}).")
    return result


def _remainder(number: Value, divisor: Value) -> Value:
    numbers((number, divisor))
    return number % divisor


def _of_one(
    constant: Callable[[float], Value], random: Callable[[Tensor], Tensor]
) -> Builtin:
    """A function of one number."""

    def function(x: Value) -> Value:
        numbers([x])
        return random(x) if isinstance(x, Tensor) else constant(x)

    return function


def _extreme(
    constant: Callable[[Sequence[Value]], Value],
    random: Callable[[Tensor, Tensor], Tensor],
) -> Builtin:
    """The least or the largest of some numbers."""

    def pick(a: Value, b: Value) -> Value:
        if is_random((a, b)):
            return random(torch.as_tensor(a), torch.as_tensor(b))
        return constant((a, b))

    def function(first: Value, *others: Value) -> Value:
        return reduce(pick, numbers((first, *others)))

    return function


# Conditions


def _comparison(compare: Callable[[Value, Value], Value]) -> Builtin:
    def function(first: Value, second: Value, *others: Value) -> Value:
        values = numbers((first, second, *others))
        return _and(*(compare(a, b) for a, b in pairwise(values)))

    return function


def _equal(first: Value, second: Value, *others: Value) -> Value:
    return _and(*(_equal_pair(a, b) for a, b in pairwise((first, second, *others))))


def _equal_pair(a: Value, b: Value) -> Value:
    if not is_random((a, b)):
        return is_boolean(a) == is_boolean(b) and a == b
    for kind in (is_number, is_boolean):
        if kind(a) and kind(b):
            return a == b
    raise Misuse(
        "compares a random value with one of its kind, two numbers or two booleans "
        f"(got {describe(a)} and {describe(b)})."
    )


def _not_equal(first: Value, second: Value, *others: Value) -> Value:
    return _not(_equal(first, second, *others))


def _and(*conditions: Value) -> Value:
    return reduce(operator.and_, _booleans(conditions), True)


def _or(*conditions: Value) -> Value:
    return reduce(operator.or_, _booleans(conditions), False)


def _not(condition: Value) -> Value:
    _booleans([condition])
    return ~condition if isinstance(condition, Tensor) else not condition


def _booleans(values: Sequence[Value]) -> Sequence[Value]:
    for value in values:
        if not is_boolean(value):
            raise Misuse(
                "takes conditions, true or false, such as (> x 0) "
                f"(got {describe(value)})."
            )
    return values


BUILTINS: dict[str, Builtin] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
    "pow": _power,
    "mod": _remainder,
    "min": _extreme(min, torch.minimum),
    "max": _extreme(max, torch.maximum),
    "abs": _of_one(abs, torch.abs),
    "exp": _of_one(math.exp, torch.exp),
    "log": _of_one(math.log, torch.log),
    "sqrt": _of_one(math.sqrt, torch.sqrt),
    "sin": _of_one(math.sin, torch.sin),
    "cos": _of_one(math.cos, torch.cos),
    "tanh": _of_one(math.tanh, torch.tanh),
    "<": _comparison(operator.lt),
    ">": _comparison(operator.gt),
    "<=": _comparison(operator.le),
    ">=": _comparison(operator.ge),
    "=": _equal,
    "not=": _not_equal,
    "and": _and,
    "or": _or,
    "not": _not,
    **VECTORS,
}
