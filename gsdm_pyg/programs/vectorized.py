"""Draws from distributions that `torch.func.vmap` cannot run as torch writes them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributions import (
    Beta,
    Dirichlet,
    Distribution,
    Gamma,
    Independent,
    Multinomial,
    OneHotCategorical,
)
from torch.overrides import TorchFunctionMode

from gsdm_pyg.programs.errors import inside_distributions


def draw_vectorized(distribution: Distribution, shape: torch.Size) -> Tensor:
    """`distribution.sample(shape)` in functions that vmap knows, without gradients."""
    if isinstance(distribution, Independent):
        return draw_vectorized(distribution.base_dist, shape)
    if isinstance(distribution, Beta):
        pair = distribution.concentration1, distribution.concentration0
        return _shares(torch.stack(pair, -1), shape)[..., 0]
    if isinstance(distribution, Dirichlet):
        return _shares(distribution.concentration, shape)
    if isinstance(distribution, Multinomial):
        trial = OneHotCategorical(distribution.probs)
        return trial.sample(torch.Size([distribution.total_count, *shape])).sum(0)
    return distribution.sample(shape)


def _shares(concentration: Tensor, shape: torch.Size) -> Tensor:
    """A Dirichlet draw; in double precision, as small concentrations underflow."""
    double = concentration.double()
    parts = Gamma(double, torch.ones_like(double)).sample(shape)
    return (parts / parts.sum(-1, keepdim=True)).to(concentration.dtype)


@contextmanager
def vectorizing() -> Iterator[None]:
    """Make distributions draw numbers that vmap can batch."""
    with without_remarks(), _NewTensors():
        yield


@contextmanager
def without_remarks() -> Iterator[None]:
    """Do not pass on torch's remarks about functions that it batches one by one.

    These draw correctly, and a user cannot change them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        warnings.filterwarnings("ignore", "An output with one or more", UserWarning)
        yield


class _NewTensors(TorchFunctionMode):
    """Makes distributions draw new numbers where they fill an empty tensor by them.

    That tensor is one for all instances, so vmap cannot fill it by different numbers.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        draw = _DRAWS.get(getattr(func, "__name__", ""))
        if draw is None or not inside_distributions():
            return func(*args, **(kwargs or {}))
        return draw(*args, **(kwargs or {}))


def _normal(x: Tensor, mean: float = 0, std: float = 1) -> Tensor:
    return mean + std * torch.randn_like(x)


def _uniform(x: Tensor, low: float = 0, high: float = 1) -> Tensor:
    return low + (high - low) * torch.rand_like(x)


def _exponential(x: Tensor, rate: float = 1) -> Tensor:
    return -torch.log1p(-torch.rand_like(x)) / rate


def _cauchy(x: Tensor, median: float = 0, sigma: float = 1) -> Tensor:
    return median + sigma * torch.tan(math.pi * (torch.rand_like(x) - 0.5))


_DRAWS: dict[str, Callable[..., Tensor]] = {
    "normal_": _normal,
    "uniform_": _uniform,
    "exponential_": _exponential,
    "cauchy_": _cauchy,
}
