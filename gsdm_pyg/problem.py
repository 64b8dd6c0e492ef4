"""Problems: a graphical model with a sampler, metrics and a picture."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.checks import check_choice
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.variables import Role
from gsdm_pyg.view import GraphView

Observe = Literal["roles", "mixed"]


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
        dataclass(frozen=True)(cls)
        cls.reference = None
        Problem.registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        cls = type(self)
        if cls.sample is Problem.sample and cls.sample_batch is Problem.sample_batch:
            raise TypeError(
                f"{cls.__name__} cannot draw instances: define sample(generator), or "
                "sample_batch(num, generator) (got neither)."
            )
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

    def sample(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw every variable from the joint distribution, by name.

        A problem defines this or `sample_batch`; each is the default of the other.
        """
        batch = self.sample_batch(1, generator)
        return {name: values[0] for name, values in batch.items()}

    def sample_batch(
        self, num: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draw `num` instances at once: an array [num, *shape] per variable."""
        return _stack([self.sample(generator) for _ in range(num)])

    @abstractmethod
    def metrics(self, sample: Arrays, truth: Arrays) -> dict[str, float]:
        """Judge one sample of all variables; `truth` is what `given` came from.

        Like `plot` it may have a third argument `observed`: a boolean array per
        variable that tells which entries were given.
        """

    @abstractmethod
    def plot(self, sample: Arrays, truth: Arrays) -> Figure:
        """A picture of one sample beside the truth."""

    def summary(self, judged: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Metrics of many instances as one of each: their means.

        A metric named in `partial` is the mean over the instances that have it, those
        where it is not NaN.
        """
        means = {}
        for name in judged[0]:
            values = torch.tensor([float(j[name]) for j in judged], dtype=torch.double)
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
        batch = self.observe_batch(1, generator, mode)
        return {name: observed[0] for name, observed in batch.items()}

    def observe_batch(
        self,
        num: int,
        generator: torch.Generator | None = None,
        mode: Observe = "roles",
    ) -> dict[str, Tensor]:
        """`observe` for `num` instances: a boolean array [num, *shape] per variable."""
        if type(self).observe is not Problem.observe:
            return _stack([self.observe(generator, mode) for _ in range(num)])
        check_choice("observe", mode, Observe)
        variables = graph_of(self).variables.values()
        by_role = torch.ones(num, dtype=torch.bool)
        if mode == "mixed":
            by_role = _uniform((num,), generator) < 0.5
        masks = {}
        for v in variables:
            each = (num, *[1] * len(v.shape))  # broadcasts against [num, *shape]
            observed = torch.full((num, *v.shape), v.role is Role.OBSERVED)
            if mode == "mixed":
                kind, share = _uniform((2, num), generator)
                share = share.where(kind > 2 / 3, (kind > 1 / 3).float())
                mixed = _uniform((num, *v.shape), generator) < share.view(each)
                observed = observed.where(by_role.view(each), mixed)
            masks[v.name] = observed
        return masks

    @classmethod
    def family(cls, **sizes: int | tuple[int, int]) -> ProblemFamily:
        """Problems whose sizes are fixed (a number) or drawn from `(low, high)`."""
        return ProblemFamily(cls, sizes)

    def draw(self, generator: torch.Generator | None = None) -> Self:
        """A single problem is a family of one size."""
        return self

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
        sizes = {}
        for name, size in self.ranges.items():
            if _is_range(size):
                low, high = size
                size = int(torch.randint(low, high + 1, (), generator=generator))
            sizes[name] = size
        return self.problem(**sizes)

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


def graph_of(problem: Problem, view: GraphView = GraphView()) -> GraphicalModel:
    """The graphical model of a problem as a view shows it, built once per size."""
    return _graph(problem, view.intermediates == "drop")


@lru_cache(maxsize=1024)
def _graph(problem: Problem, without_intermediates: bool) -> GraphicalModel:
    if without_intermediates:
        return _graph(problem, False).without_intermediates()
    return problem.graphical_model()


def resolve_problem(name: str) -> type[Problem]:
    """The problem class called `name`, or the one at `path/to/file.py:ClassName`.

    A bare name is looked up among the problems imported so far and then in a package
    `problems` on the import path.
    """
    if ":" in name:
        return _load(name)
    if name not in Problem.registry and importlib.util.find_spec("problems"):
        importlib.import_module("problems")
    if name not in Problem.registry:
        known = ", ".join(sorted(Problem.registry)) or "none"
        raise ValueError(
            f"No problem is called {name!r}. Known: {known}. Or name a file: "
            "path/to/file.py:ClassName."
        )
    return Problem.registry[name]


def _load(name: str) -> type[Problem]:
    path, _, class_name = name.rpartition(":")
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"The problem file does not exist (got {path!r}).")
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(file):
            break
    else:
        digest = zlib.crc32(str(file).encode())
        spec = importlib.util.spec_from_file_location(
            f"gsdm_problem_{file.stem}_{digest:08x}", file
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[spec.name]
            raise
    problem = getattr(module, class_name, None)
    if not (isinstance(problem, type) and issubclass(problem, Problem)):
        raise ValueError(
            f"{path} defines no Problem of that name (got {class_name!r})."
        )
    problem.reference = name
    return problem


def _is_range(size: Any) -> bool:
    return isinstance(size, list | tuple)


def _stack(instances: Sequence[Arrays]) -> dict[str, Tensor]:
    """Arrays of several instances [*shape] -> one array [num, *shape] per name."""
    return {
        name: torch.stack([torch.as_tensor(values[name]) for values in instances])
        for name in instances[0]
    }


def _uniform(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    return torch.rand(shape, generator=generator)
