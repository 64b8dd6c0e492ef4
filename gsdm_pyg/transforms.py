"""The scales that real variables diffuse on: y = f((x - origin) / width).

| f | x | y |
| --- | --- | --- |
| identity | any | x itself |
| log | beyond `origin`, on the side of the sign of `width` | any |
| probit | between `origin` and `origin + width` | any; Gaussian for a uniform x |
| asinh | any | linear within `width` of `origin`, logarithmic outside |

A support that has an end becomes the whole line, so that no sample needs to be clamped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gsdm_pyg.choices import Transform
from gsdm_pyg.variables import Continuous, Domain, Integer

_AT_BOUND = 1e-3  # share of draws at a bound from which it has mass of its own
_HEAVY = 10.0  # excess kurtosis; 3 for Laplace, 6 for exponential and for t with 5
_LOG_SPREAD = 5.0  # largest standard deviation of logarithms
_REACH = {"log": 16.0, "probit": 5.16, "asinh": 16.0}  # to where f is 1e-7 of its range
_LARGEST = 87.0  # exp and sinh of more overflow in float32


class Scale(NamedTuple):
    """A transform and its constants."""

    transform: Transform = "identity"
    origin: float = 0.0
    width: float = 1.0

    def apply(self, x: Tensor) -> Tensor:
        """Natural values -> y, finite also at the ends of the support."""
        if self.transform == "identity":
            return x
        return APPLY[self.transform]((x - self.origin) / self.width)

    def invert(self, y: Tensor) -> Tensor:
        """y -> natural values."""
        if self.transform == "identity":
            return y
        return self.origin + self.width * INVERT[self.transform](y)

    def limits(self, loc: float, scale: float) -> tuple[float, float]:
        """The range of y that values keep to, given its mean and standard deviation.

        It ends where float32 no longer distinguishes natural values from the bounds.
        """
        if self.transform == "identity":
            return -math.inf, math.inf
        reach = _REACH[self.transform]
        low, high = (loc + sign * reach * max(scale, 1.0) for sign in (-1, 1))
        if self.transform == "probit":
            low, high = min(low, -reach), max(high, reach)
        return max(low, -_LARGEST), min(high, _LARGEST)


def choose_scale(domain: Domain, draws: Tensor) -> Scale:
    """The scale that suits the draws of a variable.

    Supports with one end are transformed by log, those with two by probit, and draws of
    heavy tails on the whole line by asinh. The identity is kept where draws are equal
    to a bound, which then has mass of its own, and where they come so close to one that
    their logarithms spread too far.

    Args:
        domain: Where the values are.
        draws: Values of the variable, float64.
    """
    if isinstance(domain, Integer):
        domain = domain.interval
    if not isinstance(domain, Continuous) or draws.aminmax().min == draws.max():
        return Scale()
    low, high = domain.low, domain.high
    at_bound = (draws <= low) | (draws >= high)
    if at_bound.double().mean() > _AT_BOUND:
        return Scale()
    if math.isfinite(low) and math.isfinite(high):
        return Scale("probit", low, high - low)
    if math.isfinite(low) or math.isfinite(high):
        scale = Scale("log", low, 1.0) if math.isfinite(low) else Scale("log", high, -1)
        spread = scale.apply(draws[~at_bound]).std(correction=0)
        return scale if spread < _LOG_SPREAD else Scale()
    return _robust(draws) if is_heavy(draws) else Scale()


def is_heavy(draws: Tensor) -> bool:
    """Whether a few draws are so large that they determine the standard deviation."""
    centered = draws - draws.mean()
    spread = centered.square().mean().sqrt()
    return bool((centered / spread).pow(4).mean() - 3 > _HEAVY)


def _robust(draws: Tensor) -> Scale:
    """asinh around the median; the identity if half of the draws are equal."""
    first, median, third = _quantiles(draws, (0.25, 0.5, 0.75))
    if not first < third:
        return Scale()
    return Scale("asinh", median, (third - first) / 2)


def _quantiles(draws: Tensor, levels: tuple[float, ...]) -> list[float]:
    """Quantiles of any number of draws, which torch.quantile bounds."""
    ordered = draws.sort().values
    return [ordered[int(level * (len(ordered) - 1))].item() for level in levels]


def _log(u: Tensor) -> Tensor:
    return u.clamp(min=torch.finfo(u.dtype).tiny).log()


def _probit(u: Tensor) -> Tensor:
    info = torch.finfo(u.dtype)
    return torch.special.ndtri(u.clamp(info.tiny, 1 - info.eps / 2))


def _normal_cdf(y: Tensor) -> Tensor:
    return torch.erfc(-math.sqrt(0.5) * y) / 2  # ndtr is 0 below -6 in float32


APPLY: dict[Transform, Callable[[Tensor], Tensor]] = {
    "log": _log,
    "probit": _probit,
    "asinh": torch.asinh,
}
INVERT: dict[Transform, Callable[[Tensor], Tensor]] = {
    "log": torch.exp,
    "probit": _normal_cdf,
    "asinh": torch.sinh,
}
