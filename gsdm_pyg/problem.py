"""Problems: a graphical model with a sampler, metrics and a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Self, dataclass_transform

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Observe
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.variables import Role


@dataclass_transform(frozen_default=True)
class Problem(ABC):
    """One problem at one size. Subclasses declare sizes as fields, as a dataclass does.

    Example::

        class Sum(Problem):
            n: int

            def graphical_model(self): ...
            def sample(self, generator): ...  # or sample_batch(self, num, generator)
            def metrics(self, sample, truth): ...
            def plot(self, sample, truth): ...
    """

    registry: ClassVar[dict[str, type[Problem]]] = {}
    reference: ClassVar[str | None] = None  # path/to/file.py:ClassName, if loaded so
    partial: ClassVar[Sequence[str]] = ()  # metrics that only some instances have

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _complete(cls, "sample", "sample_batch")
        _complete(cls, "observe", "observe_batch")
        dataclass(frozen=True)(cls)
        cls.reference = None
        Problem.registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            is_count = isinstance(value, int) and not isinstance(value, bool)
            if field.type in ("int", int) and not (is_count and value >= 1):
                raise ValueError(
                    f"{type(self).__name__}.{field.name} is a size: give a whole "
                    f"number of at least 1 (got {value!r})."
                )

    @abstractmethod
    def graphical_model(self) -> GraphicalModel:
        """The graph of this problem at this size."""

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw every variable from the joint distribution, by name.

        A class defines this or `sample_batch`, and the other one follows from it.
        """

    @abstractmethod
    def sample_batch(
        self, num: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draw `num` instances at once: an array [num, *shape] per variable."""

    @abstractmethod
    def metrics(self, sample: Arrays, truth: Arrays) -> dict[str, float]:
        """Score one sample of all variables; `truth` is what `given` came from.

        Like `plot` it may have a third argument `observed`: a boolean array per
        variable that tells which entries were given.
        """

    @abstractmethod
    def plot(self, sample: Arrays, truth: Arrays) -> Figure:
        """A picture of one sample beside the truth."""

    def summary(self, scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Metrics of many instances as one of each: their means.

        A metric named in `partial` is the mean over the instances that have it, those
        where it is not NaN.
        """
        means = {}
        for name in scores[0]:
            values = torch.tensor(
                [float(score[name]) for score in scores], dtype=torch.double
            )
            mean = values.nanmean() if name in self.partial else values.mean()
            means[name] = mean.item()
        return means

    def observe(
        self, generator: torch.Generator | None = None, mode: Observe = "roles"
    ) -> dict[str, Tensor]:
        """Which entries training conditions on: a boolean array per variable.

        Args:
            generator: Source of randomness.
            mode: "roles" observes the variables whose role says so. "mixed" does so
                in half of the draws; in the others each variable is, with equal
                chance, hidden, given whole, or given at random entries.
        """
        return _first(Problem.observe_batch(self, 1, generator, mode))

    def observe_batch(
        self,
        num: int,
        generator: torch.Generator | None = None,
        mode: Observe = "roles",
    ) -> dict[str, Tensor]:
        """`observe` for `num` instances: a boolean array [num, *shape] per variable."""
        check_choice("observe", mode, Observe)
        masks = {
            v.name: torch.full((num, *v.shape), v.role is Role.OBSERVED)
            for v in graph_of(self).variables.values()
        }
        if mode == "roles":
            return masks
        by_role = torch.rand(num, generator=generator) < 0.5
        for name, mask in masks.items():
            kind, share = torch.rand(2, num, generator=generator)
            share = share.where(kind > 2 / 3, (kind > 1 / 3).float())
            each = (num, *[1] * (mask.dim() - 1))  # broadcasts against [num, *shape]
            mixed = torch.rand(mask.shape, generator=generator) < share.view(each)
            masks[name] = mask.where(by_role.view(each), mixed)
        return masks

    @classmethod
    def family(cls, **sizes: int | tuple[int, int]) -> ProblemFamily:
        """Problems whose sizes are fixed (a number) or drawn from `(low, high)`."""
        return ProblemFamily(cls, sizes)

    def draw(self, generator: torch.Generator | None = None) -> Self:
        """A single problem is a family of one size."""
        return self

    def draw_many(
        self, num: int, generator: torch.Generator | None = None
    ) -> tuple[list[Problem], Tensor]:
        """`num` draws: the distinct problems, and which one each draw is, [num]."""
        return [self], torch.zeros(num, dtype=torch.long)

    def smallest(self) -> Self:
        return self

    def largest(self) -> Self:
        return self

    def sizes(self) -> dict[str, Any]:
        """The fields of this problem that differ from their defaults, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        }


@dataclass(frozen=True)
class ProblemFamily:
    """Problems of one class whose sizes are drawn per instance."""

    problem: type[Problem]
    ranges: Mapping[str, Any]

    def __post_init__(self) -> None:
        names = [field.name for field in fields(self.problem)]  # type: ignore[arg-type]
        for name, size in self.ranges.items():
            if name not in names:
                raise ValueError(
                    f"{self.problem.__name__} takes {', '.join(names)} (got {name!r})."
                )
            if _is_range(size) and not (
                len(size) == 2
                and all(isinstance(end, int) for end in size)
                and size[0] <= size[1]
            ):
                raise ValueError(
                    f"The range of {name} is [low, high] with whole numbers and "
                    f"low <= high (got {list(size)})."
                )
        self.smallest()
        self.largest()

    def draw(self, generator: torch.Generator | None = None) -> Problem:
        """A problem with each ranged size uniform on low..high, both included."""
        return self.draw_many(1, generator)[0][0]

    def draw_many(
        self, num: int, generator: torch.Generator | None = None
    ) -> tuple[list[Problem], Tensor]:
        """`num` draws: the distinct problems, and which one each draw is, [num]."""
        ranged = {name: size for name, size in self.ranges.items() if _is_range(size)}
        drawn = [
            torch.randint(low, high + 1, (num,), generator=generator)
            for low, high in ranged.values()
        ]
        if not drawn:
            return [self.largest()], torch.zeros(num, dtype=torch.long)
        sizes, which = torch.stack(drawn, 1).unique(dim=0, return_inverse=True)
        problems = [
            self.problem(**{**self.ranges, **dict(zip(ranged, row, strict=True))})
            for row in sizes.tolist()
        ]
        return problems, which

    def smallest(self) -> Problem:
        """The problem with every size at its lower end."""
        return self._at(0)

    def largest(self) -> Problem:
        """The problem with every size at its upper end."""
        return self._at(1)

    def _at(self, end: int) -> Problem:
        return self.problem(
            **{
                n: size[end] if _is_range(size) else size
                for n, size in self.ranges.items()
            }
        )


def graph_of(
    problem: Problem, options: GraphOptions = GraphOptions()
) -> GraphicalModel:
    """The graphical model that a model sees of a problem, built once per size."""
    return _graph(problem, options.intermediates == "drop")


@lru_cache(maxsize=1024)
def _graph(problem: Problem, without_intermediates: bool) -> GraphicalModel:
    if without_intermediates:
        return _graph(problem, False).without_intermediates()
    return problem.graphical_model()


def _is_range(size: Any) -> bool:
    return isinstance(size, list | tuple)


def _complete(cls: type, one: str, many: str) -> None:
    """Where a class defines only one of two methods, derive the other from it."""
    for_one, for_many = vars(cls).get(one), vars(cls).get(many)
    if for_one is None and for_many is not None:
        setattr(cls, one, _for_one(for_many))
    elif for_many is None and for_one is not None:
        setattr(cls, many, _for_many(for_one))


def _for_one(for_many: Callable[..., dict[str, Tensor]]) -> Callable:
    def for_one(self: Problem, *arguments: Any, **named: Any) -> dict[str, Tensor]:
        return _first(for_many(self, 1, *arguments, **named))

    return for_one


def _for_many(for_one: Callable[..., dict[str, Tensor]]) -> Callable:
    def for_many(
        self: Problem, num: int, *arguments: Any, **named: Any
    ) -> dict[str, Tensor]:
        instances = [for_one(self, *arguments, **named) for _ in range(num)]
        return {
            name: torch.stack([torch.as_tensor(values[name]) for values in instances])
            for name in instances[0]
        }

    return for_many


def _first(batch: Arrays) -> dict[str, Tensor]:
    return {name: values[0] for name, values in batch.items()}
