"""Solve q' = f(p), p' = g(q), which epidemics and predators follow in logarithms."""

from collections.abc import Callable

from torch import Tensor

Rate = Callable[[Tensor], Tensor]


def leapfrog(
    q: Tensor, p: Tensor, f: Rate, g: Rate, time: float, steps: int
) -> tuple[Tensor, Tensor]:
    """q and p after some time, by Störmer and Verlet's method."""
    h = time / steps
    p = p + h / 2 * g(q)
    for _ in range(steps):
        q = q + h * f(p)
        p = p + h * g(q)
    return q, p - h / 2 * g(q)
