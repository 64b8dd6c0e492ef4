"""Variables of a graphical model: their domains and roles (sections 3.3 to 3.5)."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.checks import whole_number


class Role(enum.Enum):
    """What a variable is for: it is given, inferred, or an intermediate result."""

    OBSERVED = "observed"
    LATENT = "latent"
    INTERMEDIATE = "intermediate"

    @classmethod
    def _missing_(cls, value: object) -> Role:
        known = ", ".join(role.value for role in cls)
        raise ValueError(f"A role is one of {known} (got {value!r}).")


@dataclass(frozen=True)
class Continuous:
    """A real number in [low, high], by default any; it has one value column."""

    low: float = -math.inf
    high: float = math.inf

    num_classes: ClassVar[None] = None

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if not isinstance(bound, Real) or isinstance(bound, bool):
                raise ValueError(
                    "Continuous(low, high) takes two numbers, -inf and inf by default "
                    f"(got {bound!r})."
                )
        if not self.low < self.high:
            raise ValueError(
                f"Continuous needs low < high (got {self.low} and {self.high})."
            )

    def decode(self, columns: Tensor) -> Tensor:
        """Columns [..., 1] -> values [...], clamped to the bounds."""
        return columns.squeeze(-1).clamp(self.low, self.high)

    def outside(self, values: Tensor) -> Tensor:
        """Which values [...] are not in the domain, as booleans [...]."""
        low, high = self._bounds
        return ~torch.isfinite(values) | (values < low) | (values > high)

    def holds(self, values: Tensor) -> bool:
        """Whether all values [...] are in the domain and finite as nodes hold them."""
        low, high = self._bounds
        largest = torch.finfo(torch.get_default_dtype()).max
        found = values.aminmax()  # both NaN if any value is
        return bool(
            max(low, -largest) <= found.min.item()
            and found.max.item() <= min(high, largest)
        )

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """The bounds, moved outward to where rounding to float32 takes them."""
        low, high = float(self.low), float(self.high)
        with np.errstate(over="ignore"):
            return min(low, float(np.float32(low))), max(high, float(np.float32(high)))

    def __str__(self) -> str:
        bounded = math.isfinite(self.low) or math.isfinite(self.high)
        return (
            f"real numbers in [{self.low}, {self.high}]" if bounded else "real numbers"
        )


@dataclass(frozen=True)
class Simplex(Continuous):
    """Shares: numbers in [0, 1] whose sum along the last axis of a variable is 1.

    Each share diffuses by itself. What is drawn is divided by its sum in the end.
    """

    low: float = 0.0
    high: float = 1.0

    tolerance: ClassVar[float] = 0.01  # of a sum, as people round what they write

    def __post_init__(self) -> None:
        if (self.low, self.high) != (0, 1):
            raise ValueError(
                "Simplex() takes no bounds: shares are in [0, 1] "
                f"(got {self.low} and {self.high})."
            )

    def close(self, values: Tensor, known: Tensor) -> Tensor:
        """Values [..., K] with those that are not known scaled to what is left of 1.

        Args:
            values: Numbers in [0, 1].
            known: Which of them keep their values, as booleans [..., K].
        """
        left = 1 - values.masked_fill(~known, 0).sum(-1, keepdim=True)
        shares = values.masked_fill(known, 0)
        nothing = shares.sum(-1, keepdim=True) <= 0  # then all are equal
        shares = torch.where(nothing, (~known).to(values), shares)
        total = shares.sum(-1, keepdim=True)
        return torch.where(known, values, shares * left.clamp(min=0) / total)

    def outside(self, values: Tensor) -> Tensor:
        """Which values [..., K] are not in the domain: all, if their sum is wrong.

        The sum of those that are not NaN may be less than 1 where others are.
        """
        total = values.nansum(-1, keepdim=True)
        wrong = total > 1 + self.tolerance
        complete = ~values.isnan().any(-1, keepdim=True)
        wrong |= complete & (total < 1 - self.tolerance)
        return super().outside(values) | wrong

    def holds(self, values: Tensor) -> bool:
        """Whether all values [..., K] are in the domain."""
        error = (values.sum(-1) - 1).abs().max().item()
        return super().holds(values) and error <= self.tolerance

    def __str__(self) -> str:
        return "shares in [0, 1] whose sum along the last axis is 1"


@dataclass(frozen=True)
class Categorical:
    """One of K classes 0..K-1; it diffuses as a one-hot code in K value columns."""

    num_classes: int

    def __post_init__(self) -> None:
        if isinstance(self.num_classes, Tensor) and self.num_classes.dim():
            raise ValueError(
                "This Categorical is the domain of a variable, which takes the number "
                "of its classes; the distribution is torch.distributions.Categorical "
                f"(got a tensor of shape {tuple(self.num_classes.shape)})."
            )
        num_classes = whole_number(self.num_classes)
        if num_classes is None:
            raise ValueError(
                "Categorical takes the number of its classes, a whole number "
                f"(got {self.num_classes!r})."
            )
        object.__setattr__(self, "num_classes", num_classes)
        if num_classes < 2:
            raise ValueError(
                "Categorical needs at least two classes: use Categorical(2) for a "
                f"binary variable (got {self.num_classes})."
            )

    def decode(self, columns: Tensor) -> Tensor:
        """Columns [..., K] -> classes [...] by argmax."""
        return columns.argmax(-1)

    def outside(self, values: Tensor) -> Tensor:
        """Which values [...] are not in the domain, as booleans [...]."""
        return ~(
            (values >= 0) & (values < self.num_classes) & (values == values.long())
        )

    def holds(self, values: Tensor) -> bool:
        """Whether all values [...] are in the domain."""
        if values.dtype == torch.bool:
            return True
        found = values.aminmax()  # both NaN if any value is
        if not (found.min.item() >= 0 and found.max.item() < self.num_classes):
            return False
        return not values.is_floating_point() or bool((values == values.floor()).all())

    def __str__(self) -> str:
        return f"classes 0..{self.num_classes - 1}"


@dataclass(frozen=True)
class Integer:
    """A whole number in [low, high], by default any, such as a count.

    It diffuses as a real number that is rounded in the end, so that neighbors are alike
    and there may be any number of them. A `Categorical` knows no order; it is the
    better choice for a handful of values.
    """

    low: float = -math.inf
    high: float = math.inf

    num_classes: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            number = isinstance(bound, Real) and not isinstance(bound, bool)
            if not number or not (math.isinf(bound) or bound % 1 == 0):
                raise ValueError(
                    "Integer(low, high) takes two whole numbers, -inf and inf by "
                    f"default (got {bound!r})."
                )
            if math.isfinite(bound):
                object.__setattr__(self, name, int(bound))
        if not self.low < self.high:
            raise ValueError(
                f"Integer needs low < high (got {self.low} and {self.high})."
            )

    @property
    def interval(self) -> Continuous:
        """The real numbers that are rounded to one of the domain."""
        return Continuous(self.low - 0.5, self.high + 0.5)

    def decode(self, columns: Tensor) -> Tensor:
        """Columns [..., 1] -> the nearest integers [...]."""
        return columns.squeeze(-1).round().clamp(self.low, self.high).long()

    def outside(self, values: Tensor) -> Tensor:
        """Which values [...] are not in the domain, as booleans [...]."""
        fractional = values != values.round()
        return fractional | self.interval.outside(values)

    def holds(self, values: Tensor) -> bool:
        """Whether all values [...] are in the domain and finite as nodes hold them."""
        if values.dtype == torch.bool:
            values = values.long()
        return self.interval.holds(values) and bool((values == values.round()).all())

    def __str__(self) -> str:
        bounded = math.isfinite(self.low) or math.isfinite(self.high)
        return f"integers in [{self.low}, {self.high}]" if bounded else "integers"


Domain = Continuous | Integer | Categorical


def column_blocks(num_classes: Sequence[int | None]) -> list[slice]:
    """The value columns of each variable, in x [N, W].

    Variables with the same number of classes share one block of columns. Blocks are in
    order of first appearance.

    Args:
        num_classes: The number of classes of each variable, None if it is continuous.
    """
    blocks: dict[int | None, slice] = {}
    width = 0
    for classes in num_classes:
        if classes not in blocks:
            blocks[classes] = slice(width, width + (classes or 1))
            width = blocks[classes].stop
    return [blocks[classes] for classes in num_classes]


def owned_columns(num_classes: Sequence[int | None]) -> Tensor:
    """Which of the W value columns each of V variables owns, as booleans [V, W]."""
    if not num_classes:
        raise ValueError(
            "A graphical model needs at least one variable: call add_variable() "
            "(got none)."
        )
    blocks = column_blocks(num_classes)
    owned = torch.zeros(len(blocks), max(block.stop for block in blocks)).bool()
    for row, block in zip(owned, blocks, strict=True):
        row[block] = True
    return owned


@dataclass(frozen=True)
class Variable:
    """A named array of nodes, numbered from `first_node` in row-major order."""

    name: str
    shape: tuple[int, ...]
    domain: Domain
    role: Role
    first_node: int
    positions: tuple[Tensor, ...] = field(default=(), compare=False)

    @property
    def num_nodes(self) -> int:
        return math.prod(self.shape)

    @property
    def nodes(self) -> slice:
        return slice(self.first_node, self.first_node + self.num_nodes)

    @property
    def coordinates(self) -> Tensor:
        """The positions of each node, [num_nodes, P]."""
        columns = [p.expand(self.shape).reshape(-1) for p in self.positions]
        empty = torch.empty(self.num_nodes, 0, dtype=torch.long)
        return torch.stack(columns, 1) if columns else empty


def check_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints; a single number is the length of a vector."""
    single = whole_number(shape)
    try:
        sizes = [shape] if single is not None else list(shape)
    except TypeError:
        sizes = [None]
    checked = [whole_number(size) for size in sizes]
    if isinstance(shape, str) or None in checked:
        raise ValueError(
            f"The shape of variable {name!r} is a tuple of whole numbers, such as (3, "
            f"4), or () for a single number (got {shape!r})."
        )
    found = tuple(size for size in checked if size is not None)
    if any(size < 1 for size in found):
        raise ValueError(
            f"Every size of variable {name!r} must be at least 1 (got {found})."
        )
    return found


def check_domain(name: str, domain: Any) -> Domain:
    """A domain, which is an instance of its class."""
    if not isinstance(domain, Domain):
        raise ValueError(
            f"The domain of variable {name!r} is Continuous(low, high), Integer(low, "
            "high), Categorical(num_classes) or Simplex() "
            f"(got {domain!r})."
        )
    return domain


def check_positions(
    name: str, shape: tuple[int, ...], positions: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Positions as int64; they must be integers that broadcast to the shape."""
    if isinstance(positions, Tensor):
        raise TypeError(
            f"The positions of variable {name!r} must be a sequence of tensors, one "
            f"per coordinate: write positions=(...,) (got {tuple(positions.shape)})."
        )
    for position in positions:
        dtype = getattr(position, "dtype", type(position).__name__)
        if not isinstance(position, Tensor) or not _is_integer(position):
            raise TypeError(
                f"The positions of variable {name!r} must be integer tensors, "
                f"such as torch.arange({shape[0] if shape else 1}) (got {dtype})."
            )
        if not _broadcasts(tuple(position.shape), shape):
            raise ValueError(
                f"The positions of variable {name!r} must broadcast to its shape "
                f"{shape}: add axes with [:, None] (got {tuple(position.shape)})."
            )
    return tuple(position.long() for position in positions)


def _is_integer(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    sizes = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(a in (1, b) for a, b in sizes)
