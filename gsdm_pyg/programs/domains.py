"""Supports of distributions -> domains of variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from gsdm_pyg.programs.errors import error
from gsdm_pyg.programs.sites import Site
from gsdm_pyg.variables import Categorical, Continuous, Domain, Integer, Simplex

MOST_CLASSES = 256
IsRandom = Callable[[Tensor], bool]


def domain_of(site: Site, distribution: Distribution, is_random: IsRandom) -> Domain:
    """Where the values of a distribution are.

    Args:
        site: The variable, for errors.
        distribution: Its distribution.
        is_random: Whether a tensor depends on a random variable: bounds that do are no
            bounds of the domain.
    """
    if site.domain is not None:
        return site.domain
    try:
        support: Any = distribution.support
    except NotImplementedError:
        support = None
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    if support is None:
        raise _no_domain(site, distribution, "it has no support")
    name = type(support).__name__.lstrip("_")
    if support is constraints.boolean or support is constraints.one_hot:
        return Categorical(2)
    if name == "IntegerInterval" or support.is_discrete:
        return _integers(site, distribution, support, is_random)
    if support is constraints.simplex:
        return Simplex()
    low = _bound(support, "lower_bound", -math.inf, min, is_random)
    high = _bound(support, "upper_bound", math.inf, max, is_random)
    if not low < high:
        raise _no_domain(site, distribution, f"its support is [{low}, {high}]")
    return Continuous(low, high)


def domain_of_value(site: Site, value: Tensor) -> Domain:
    """Where the values of a tensor are that other variables determine."""
    if site.domain is not None:
        return site.domain
    if value.dtype == torch.bool:
        return Categorical(2)
    if value.is_floating_point():
        return Continuous()
    raise error(
        f"Variable {str(site)!r} holds integers: pass domain=Integer(low, high) if "
        "they have an order, such as counts, or domain=Categorical(number of classes) "
        f"(got {value.dtype})."
    )


def _integers(
    site: Site, distribution: Distribution, support: Any, is_random: IsRandom
) -> Domain:
    """Classes, or a range of integers where there is no end or it is far away."""
    low = _bound(support, "lower_bound", 0.0, min, is_random)
    high = _bound(support, "upper_bound", math.inf, max, is_random)
    if not low < high:
        raise _no_domain(site, distribution, f"its values are {low:.0f}..{high:.0f}")
    if low < 0 or high >= MOST_CLASSES:
        return Integer(low, high)
    return Categorical(int(high) + 1)


def _bound(
    support: Any, name: str, default: float, pick: Any, is_random: IsRandom
) -> float:
    value = getattr(support, name, default)
    if isinstance(value, Tensor):
        if is_random(value):
            return default
        return float(pick(value.min().item(), value.max().item()))
    return float(value)


def _no_domain(site: Site, distribution: Distribution, reason: str) -> Exception:
    return error(
        f"Variable {str(site)!r} needs a domain, as {type(distribution).__name__} does "
        f"not tell it ({reason}): pass domain=Categorical(K) for the classes 0..K-1 or "
        f"domain=Continuous(low, high) for numbers (got {distribution!r:.80})."
    )
