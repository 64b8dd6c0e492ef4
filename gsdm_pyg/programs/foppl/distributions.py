"""Distributions of FOPPL as those of torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributions as td

from gsdm_pyg.programs.foppl.place import Misuse
from gsdm_pyg.programs.foppl.values import (
    Law,
    Value,
    describe,
    from_tensor,
    numbers,
    to_tensor,
    vector,
    whole,
)


def distribution(law: Law) -> td.Distribution:
    """The torch distribution of a law (except `dirac`), whose draws are `encoded`."""
    return LAWS[law.name](*law.parameters)


def encoded(law: Law, value: Value) -> Tensor:
    """A value as the tensor that torch's distribution draws."""
    if law.name == "uniform-discrete":
        value = whole(value) - law.parameters[0]
    tensor = to_tensor(value)
    return tensor.float() if law.name == "flip" else tensor


def decoded(law: Law, drawn: Tensor) -> Value:
    """What a FOPPL program sees of a draw."""
    if law.name == "flip":
        return drawn != 0
    if law.name == "uniform-discrete":
        return drawn + law.parameters[0]
    return from_tensor(drawn)


def _real(value: Value) -> Value:
    numbers([value])
    return value.float() if isinstance(value, Tensor) else float(value)


def _reals(values: Value) -> Tensor:
    """A vector of at least two numbers as a tensor [K]."""
    if len(numbers(vector(values))) < 2:
        raise Misuse(f"takes a vector of two numbers or more (got {len(values)}).")
    return to_tensor(values).float()


def _normal(mean: Value, deviation: Value) -> td.Distribution:
    return td.Normal(_real(mean), _real(deviation))


def _uniform(low: Value, high: Value) -> td.Distribution:
    return td.Uniform(_real(low), _real(high))


def _uniform_discrete(low: Value, high: Value) -> td.Distribution:
    """One of low, ..., high - 1."""
    size = whole(high) - whole(low)
    return td.Categorical(torch.ones(whole(size, least=2)))


def _bernoulli(chance: Value) -> td.Distribution:
    return td.Bernoulli(_real(chance))


def _discrete(weights: Value) -> td.Distribution:
    return td.Categorical(_reals(weights))


def _dirichlet(concentrations: Value) -> td.Distribution:
    return td.Dirichlet(_reals(concentrations))


def _beta(a: Value, b: Value) -> td.Distribution:
    return td.Beta(_real(a), _real(b))


def _gamma(shape: Value, rate: Value) -> td.Distribution:
    return td.Gamma(_real(shape), _real(rate))


def _exponential(rate: Value) -> td.Distribution:
    return td.Exponential(_real(rate))


def _poisson(rate: Value, most: Value = None) -> td.Distribution:
    """The Poisson distribution on 0, ..., most: p(k) ~ rate^k / k!"""
    if most is None:
        raise Misuse(
            "needs a largest value, as in (poisson 3 20) for 0 to 20 (got a rate only)."
        )
    counts = torch.arange(whole(most, least=1) + 1.0)  # [K]
    log_rate = torch.as_tensor(_real(rate)).log()
    return td.Categorical(logits=counts * log_rate - torch.lgamma(counts + 1))


def _laplace(mean: Value, scale: Value) -> td.Distribution:
    return td.Laplace(_real(mean), _real(scale))


def _student_t(degrees: Value, mean: Value = 0, scale: Value = 1) -> td.Distribution:
    return td.StudentT(_real(degrees), _real(mean), _real(scale))


def _dirac(value: Value) -> td.Distribution:
    raise NotImplementedError("dirac is no distribution of torch")


LAWS: dict[str, Callable[..., td.Distribution]] = {
    "bernoulli": _bernoulli,
    "beta": _beta,
    "categorical": _discrete,
    "dirac": _dirac,
    "dirichlet": _dirichlet,
    "discrete": _discrete,
    "exponential": _exponential,
    "flip": _bernoulli,
    "gamma": _gamma,
    "laplace": _laplace,
    "normal": _normal,
    "poisson": _poisson,
    "student-t": _student_t,
    "uniform": _uniform,
    "uniform-continuous": _uniform,
    "uniform-discrete": _uniform_discrete,
}


def check_law(value: Value) -> Law:
    if not isinstance(value, Law):
        raise Misuse(
            f"takes a distribution, such as (normal 0 1) (got {describe(value)})."
        )
    return value
