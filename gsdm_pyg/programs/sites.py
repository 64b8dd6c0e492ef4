"""The statements of a program: sample, let, observe and factor.

A statement asks the handler that is active what it means: a draw for data, a node for
the graph, a given value for a check.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from gsdm_pyg.checks import whole_number
from gsdm_pyg.programs.errors import error
from gsdm_pyg.variables import Domain, Role

Shape = Sequence[int] | int


class Site(NamedTuple):
    """One statement that names a variable, or one entry of it."""

    variable: str
    entry: tuple[int, ...] | None  # the place of x[3, 1] in x; None for all of x
    role: Role
    domain: Domain | None  # where the program declares one

    def __str__(self) -> str:
        index = "" if self.entry is None else f"[{', '.join(map(str, self.entry))}]"
        return self.variable + index


class Handler(ABC):
    """What the statements of a program do."""

    @abstractmethod
    def draw(self, site: Site, distribution: Distribution, shape: torch.Size) -> Tensor:
        """The value of a random variable."""

    @abstractmethod
    def compute(self, site: Site, value: Tensor) -> Tensor:
        """The value of a variable that others determine."""

    @abstractmethod
    def constrain(self, condition: Tensor) -> None:
        """A condition that every instance satisfies."""


_ACTIVE: ContextVar[Handler | None] = ContextVar("handler", default=None)


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Let the handler decide what statements do."""
    token = _ACTIVE.set(handler)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def sample(
    name: str,
    distribution: Distribution,
    shape: Shape = (),
    *,
    domain: Domain | None = None,
) -> Tensor:
    """Draw a latent variable.

    Args:
        name: Its name. `f"x[{t}]"` is entry t of a variable x that a loop fills.
        distribution: One of torch.distributions; its parameters may depend on other
            variables.
        shape: How many independent draws, as in `distribution.sample(shape)`; they come
            before the distribution's own batch shape.
        domain: Where the values are; by default the support of the distribution.
    """
    return _draw("sample", name, Role.LATENT, distribution, shape, domain)


def let(
    name: str,
    value: Tensor,
    *,
    role: Role | str = Role.INTERMEDIATE,
    domain: Domain | None = None,
) -> Tensor:
    """Name an intermediate variable, which other variables determine.

    Args:
        name: Its name, as for `sample`.
        value: What it is. Use the result from here on, which depends on the new
            variable alone.
        role: "latent" for a result that is asked for by itself.
        domain: Where the values are. By default real numbers, or two classes for a
            boolean tensor; integers need one.
    """
    return _compute("let", name, Role(role), value, domain)


def observe(
    name: str,
    value: Distribution | Tensor,
    shape: Shape = (),
    *,
    domain: Domain | None = None,
) -> Tensor:
    """Name a variable that is given when the model is used.

    Args:
        name: Its name, as for `sample`.
        value: Its distribution, or a tensor that other variables determine.
        shape: As for `sample`, for a distribution.
        domain: As for `sample` and `let`.
    """
    if isinstance(value, Distribution):
        return _draw("observe", name, Role.OBSERVED, value, shape, domain)
    if tuple(_shape(shape)):
        raise error(
            f"observe({name!r}) of a tensor has the tensor's shape: leave out the "
            f"shape, or pass a distribution (got {tuple(_shape(shape))})."
        )
    return _compute("observe", name, Role.OBSERVED, value, domain)


def factor(condition: Tensor) -> None:
    """State a condition that every instance satisfies, such as `x[1:] >= x[:-1]`.

    Each entry of the condition is a factor of the graph over all that it depends on.
    Instances in which an entry is false are drawn again.
    """
    handler = _handler("factor")
    if not isinstance(condition, Tensor) or condition.dtype != torch.bool:
        kind = getattr(condition, "dtype", type(condition).__name__)
        raise error(
            "factor() takes a condition, a boolean tensor such as x.sum() == 1 "
            f"(got {kind})."
        )
    handler.constrain(condition)


def _draw(
    statement: str,
    name: str,
    role: Role,
    distribution: Distribution,
    shape: Shape,
    domain: Domain | None,
) -> Tensor:
    handler = _handler(statement)
    if not isinstance(distribution, Distribution):
        raise error(
            f"{statement}({name!r}) takes a distribution of torch.distributions, such "
            "as Normal(0, 1); let() names a tensor "
            f"(got {type(distribution).__name__})."
        )
    return handler.draw(_site(name, role, domain), distribution, _shape(shape))


def _compute(
    statement: str, name: str, role: Role, value: Tensor, domain: Domain | None
) -> Tensor:
    handler = _handler(statement)
    if isinstance(value, Distribution):
        raise error(
            f"let({name!r}) names a tensor: use sample() for a distribution "
            f"(got {type(value).__name__})."
        )
    if not isinstance(value, Tensor):
        value = torch.as_tensor(value)
    return handler.compute(_site(name, role, domain), value)


def _handler(statement: str) -> Handler:
    handler = _ACTIVE.get()
    if handler is None:
        raise RuntimeError(
            f"{statement}() is a statement of a program: call it inside of a function "
            "with @program, and pass that to GSDM.from_problem (got a call outside)."
        )
    return handler


def _site(name: str, role: Role, domain: Domain | None) -> Site:
    """Parse "x" or "x[3, 1]"."""
    match = re.fullmatch(r"([^\[\]]+)(?:\[(\s*\d+\s*(?:,\s*\d+\s*)*)\])?", str(name))
    if match is None or not isinstance(name, str):
        raise error(
            "A variable has a name such as 'x', or 'x[3]' for one of its entries "
            f"(got {name!r})."
        )
    variable, index = match.groups()
    entry = None if index is None else tuple(int(i) for i in index.split(","))
    return Site(variable, entry, role, domain)


def _shape(shape: Shape) -> torch.Size:
    sizes = [shape] if whole_number(shape) is not None else list(shape)  # type: ignore[arg-type]
    checked = [whole_number(size) for size in sizes]
    if any(size is None or size < 1 for size in checked):
        raise error(
            "A shape is a tuple of whole numbers of at least 1, which no random value "
            f"decides (got {shape!r})."
        )
    return torch.Size([size for size in checked if size is not None])
