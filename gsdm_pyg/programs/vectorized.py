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
        a, b = (
            Gamma(concentration, torch.ones_like(concentration)).sample(shape)
            for concentration in (
                distribution.concentration1,
                distribution.concentration0,
            )
        )
        return a / (a + b)
    if isinstance(distribution, Dirichlet):
        concentration = distribution.concentration
        parts = Gamma(concentration, torch.ones_like(concentration)).sample(shape)
        return parts / parts.sum(-1, keepdim=True)
    if isinstance(distribution, Multinomial):
        trial = OneHotCategorical(distribution.probs)
        return trial.sample(torch.Size([distribution.total_count, *shape])).sum(0)
    return distribution.sample(shape)


@contextmanager
def vectorizing() -> Iterator[None]:
    """Make distributions draw numbers that vmap can batch.

    torch's remarks about functions that it batches one by one are not passed on: they
    draw correctly, and a user cannot change them.
    """
    with warnings.catch_warnings(), _NewTensors():
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
