"""Problems: a graphical model with a sampler, metrics and a picture."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import torch
from matplotlib.figure import Figure
from torch import Tensor

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Observe
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.one_or_many import complete
from gsdm_pyg.panels import Panel, default_panels
from gsdm_pyg.plotting import comparison_figure
from gsdm_pyg.returned import Method, check_scores
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.sizes import (
    Kind,
    check_range,
    check_size,
    draw_range,
    is_range,
    range_end,
    read_draw,
    size_fields,
)
from gsdm_pyg.variables import Role


class _ProblemType(ABCMeta):
    """Refuses `@dataclass` on a problem, which `Problem` has made one already."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if name == "__dataclass_params__" and name in vars(cls):
            raise TypeError(
                f"{cls.__name__} is a frozen dataclass already, as every Problem is: "
                "remove the decorator (got @dataclass)."
            )
        super().__setattr__(name, value)


@dataclass_transform(frozen_default=True)
class Problem(metaclass=_ProblemType):
    """One problem at one size. Subclasses declare sizes as fields, as a dataclass does.

    A field that is annotated by `Size` is a whole number of at least 1, one by `Sizes`
    a tuple of those. Other fields may hold anything that can be hashed.

    Example::

        class Sum(Problem):
            n: Size
            noise: float = 0.0

            def graphical_model(self): ...
            def sample(self, generator): ...  # or sample_batch(self, num, generator)
    """

    registry: ClassVar[dict[str, type[Problem]]] = {}
    reference: ClassVar[str | None] = None  # path/to/file.py:ClassName, if loaded so
    partial: ClassVar[Sequence[str]] = ()  # metrics that only some instances have
    # The best value of a metric, inf if there is no end, and 0 if it is not named here.
    # `gsdm report` chooses by the first, see `gsdm_pyg.report.choose_metric`.
    best_values: ClassVar[Mapping[str, float]] = {}
    # A constraint holds if it is violated by no more than this, see `violations`.
    tolerance: ClassVar[float] = 1e-3
    size_kinds: ClassVar[Mapping[str, Kind]] = {}  # fields that are Size or Sizes

    def __init_subclass__(cls, register: bool = True) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            raise TypeError(
                f"{cls.__name__} gets its __init__ from its fields: declare them, such "
                "as `n: Size`, and check or convert them in __post_init__, after "
                "super().__post_init__() (got an __init__ of its own)."
            )
        _check_arguments(cls, "sample", "generator=None")
        _check_arguments(cls, "sample_batch", "num", "generator=None")
        _check_arguments(cls, "predict", "latents", "generator=None")
        complete(cls, "sample", "sample_batch")
        complete(cls, "observe", "observe_batch")
        dataclass(frozen=True)(cls)
        cls.size_kinds = {**cls.size_kinds, **size_fields(cls)}
        cls.reference = None
        if register:
            Problem.registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value, kind = getattr(self, field.name), self.size_kinds.get(field.name)
            if kind and not (value is None and field.default is None):
                size = check_size(f"{type(self).__name__}.{field.name}", kind, value)
                object.__setattr__(self, field.name, size)

    @abstractmethod
    def graphical_model(self) -> GraphicalModel:
        """The graph of this problem at this size."""

    def sample(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw every variable from the joint distribution, by name.

        A class defines this or `sample_batch`, and the other one follows from it. With
        simulations that exist already it needs neither.
        """
        raise TypeError(
            f"{type(self).__name__} cannot draw instances: define sample(generator) or "
            "sample_batch(num, generator), or pass simulations (got neither)."
        )

    def sample_batch(
        self, num: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draw `num` instances at once: an array [num, *shape] per variable."""
        return self.sample(generator)  # which says what is missing

    def predict(
        self, latents: Arrays, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draw the observed variables anew, given S samples of the latent ones.

        For `gsdm_pyg.diagnostics.predictive_check`. Programs have it, a class by hand
        defines it.

        Args:
            latents: An array [S, *shape] per latent variable.
            generator: Source of randomness.

        Returns:
            An array [S, *shape] per observed variable.
        """
        raise TypeError(
            f"{type(self).__name__} cannot draw its observed variables given the "
            "latent ones: define predict(self, latents, generator), which takes arrays "
            "[S, *shape] of the latent variables by name and returns such arrays of "
            "the observed ones, or write the problem as a program (got neither)."
        )

    def program(self) -> object:
        """The statements that draw this problem, as those of a function by `@program`.

        For methods that need densities, such as Metropolis-Hastings. Programs have it,
        a class by hand may define it, with the variables of its graph. Where data obey
        constraints by construction, it may state them by `factor` instead.
        """
        raise TypeError(
            f"{type(self).__name__} has no program, from which densities follow: "
            "define program(self) with the statements sample, let, observe and factor "
            "(got none)."
        )

    def metrics(
        self, sample: Arrays, truth: Arrays, observed: Arrays | None = None
    ) -> dict[str, float]:
        """Score one sample of all variables; `truth` is what `given` came from.

        By default the error of each latent variable, over the entries that were not
        observed and NaN if there are none: `rmse_x` of a continuous variable x, and
        `wrong_z`, the share of wrong classes, of a discrete variable z. A method of
        one's own may leave out `observed`, as may `plot`.

        Args:
            sample: An array per variable.
            truth: Likewise, with the values that the given ones are part of.
            observed: A boolean array per variable: which entries were given.
        """
        scores = {}
        for name, variable in graph_of(self).variables.items():
            if variable.role is not Role.LATENT or name not in sample:
                continue
            answer, true = (
                torch.as_tensor(values[name]).double() for values in (sample, truth)
            )
            if observed is not None:
                answer, true = answer[~observed[name]], true[~observed[name]]
            if variable.domain.num_classes:
                scores[f"wrong_{name}"] = (answer != true).double().mean().item()
            else:
                error = (answer - true).square().mean().sqrt()
                scores[f"rmse_{name}"] = error.item()
        return scores

    def plot(self, sample: Arrays, truth: Arrays) -> Figure:
        """A picture of one sample beside the truth; by default all values as colors."""
        names = [name for name in graph_of(self).variables if name in sample]
        return comparison_figure({name: (truth[name], sample[name]) for name in names})

    def panels(self) -> Sequence[Panel]:
        """How the variables look in the workbench; by default as their shapes suggest.

        Those that no panel shows are left out, except for editing.
        """
        return default_panels(graph_of(self))

    def check_given(self, values: Arrays, known: Arrays) -> None:
        """Raise a ValueError if given values contradict each other; by default never.

        Args:
            values: An array [*lead, *shape] per variable of which something is given.
            known: A boolean array per variable: which entries are given.
        """

    def violations(self, samples: Arrays) -> dict[str, Tensor]:
        """By how much S samples miss each constraint: 0 where it holds.

        For `GSDM.solve`, which returns as verified only what misses none by more than
        `tolerance`. Constraints are stated of what is latent or observed; intermediate
        variables follow from these. Programs have it, a class by hand defines it. All
        arrays of this method, of `polish` and of `possible` are on the CPU.

        Args:
            samples: An array [S, *shape] per variable.

        Returns:
            An array [S, *any] per constraint, by names that a user understands.
        """
        raise TypeError(
            f"{type(self).__name__} does not say what a solution is: define "
            "violations(self, samples), which takes arrays [S, *shape] by name and "
            "returns by how much each constraint is missed, such as "
            '{"E": (E - A @ R).abs()}, or write the problem as a program (got neither).'
        )

    def polish(self, samples: Arrays, known: Arrays) -> dict[str, Tensor]:
        """S samples with some variables computed exactly from the others.

        For `GSDM.solve`. By default samples stay as they are.

        Args:
            samples: An array [S, *shape] per variable.
            known: A boolean array [S, *shape] per variable: given entries, which keep
                their values whatever is returned.
        """
        return dict(samples)

    def possible(self, values: Arrays, known: Arrays) -> dict[str, Tensor] | None:
        """The classes that constraints leave to the entries of S instances.

        For `GSDM.solve`, which takes an entry with a single class as known, and an
        entry without one as a contradiction. A problem that defines this needs a model
        that is trained given any of these entries. By default nothing is implied.

        Args:
            values: An array [S, *shape] per variable.
            known: A boolean array [S, *shape] per variable: entries that have a value.

        Returns:
            A boolean array [S, *shape, K] per discrete variable, or None.
        """
        return None

    def read(self, text: str) -> dict[str, Any] | None:
        """What a text gives of B instances, arrays [B, *shape] with NaN where unknown.

        For `gsdm solve`. By default texts are not understood, and the result is None.
        """
        return None

    def write(self, sample: Arrays) -> str | None:
        """One sample as a text that `read` understands; by default None."""
        return None

    def summary(self, scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Metrics of many instances as one of each: their means.

        A metric named in `partial`, or a default one, is the mean over the instances
        that have it, those where it is not NaN.
        """
        scores = check_scores(Method("metrics", self), scores)
        default, means = default_metrics(self), {}
        for name in scores[0]:
            values = torch.tensor([score[name] for score in scores], dtype=torch.double)
            partial = name in self.partial or name in default
            means[name] = (values.nanmean() if partial else values.mean()).item()
        return means

    def observe(
        self, generator: torch.Generator | None = None, mode: Observe = "roles"
    ) -> dict[str, Tensor]:
        """Which entries training conditions on: a boolean array per variable.

        Args:
            generator: Source of randomness.
            mode: "roles" observes the variables whose role says so. "mixed" does so
                in half of the draws. In a quarter every entry is given with one common
                probability, which is drawn; in the others each variable is, with equal
                chance, hidden, given whole, or given at random entries.
        """
        batch = Problem.observe_batch(self, 1, generator, mode)
        return {name: mask[0] for name, mask in batch.items()}

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
        which, common_share = torch.rand(2, num, generator=generator)
        by_role, is_common = which < 1 / 2, which > 3 / 4
        for name, mask in masks.items():
            kind, share = torch.rand(2, num, generator=generator)
            share = share.where(kind > 2 / 3, (kind > 1 / 3).float())
            share = common_share.where(is_common, share)
            each = (num, *[1] * (mask.dim() - 1))  # broadcasts against [num, *shape]
            mixed = torch.rand(mask.shape, generator=generator) < share.view(each)
            masks[name] = mask.where(by_role.view(each), mixed)
        return masks

    @classmethod
    def family(cls, **sizes: Any) -> ProblemFamily:
        """Problems whose sizes are fixed (a number) or drawn from `(low, high)`.

        A field that holds `Sizes` takes a list, the same for all instances, or
        `{"length": (2, 5), "each": (1, 10)}`: how many sizes, and how large each is.
        """
        return ProblemFamily(cls, sizes)

    def draw(self, generator: torch.Generator | None = None) -> Self:
        """A single problem is a family of one size."""
        return self

    def draw_many(
        self, num: int, generator: torch.Generator | None = None
    ) -> tuple[list[Problem], Tensor]:
        """`num` draws: the distinct problems, and which one each draw is, [num]."""
        return [self], torch.zeros(num, dtype=torch.long)

    def at(self, sizes: Mapping[str, Any]) -> Problem:
        """This problem at other sizes, its other fields as they are unless named."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return ProblemFamily(type(self), values).at(sizes)

    def smallest(self) -> Self:
        return self

    def largest(self) -> Self:
        return self

    def __str__(self) -> str:
        """A short name such as BCMF(m=8, n=8, k=4)."""
        sizes = ", ".join(f"{name}={size!r}" for name, size in self.sizes().items())
        return f"{type(self).__name__}({sizes})"

    def sizes(self) -> dict[str, Any]:
        """The sizes of this problem, and its other fields that are not at default."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]
            if field.name in self.size_kinds
            or getattr(self, field.name) != field.default
        }


@dataclass(frozen=True)
class ProblemFamily:
    """Problems of one class whose sizes are drawn per instance."""

    problem: type[Problem]
    ranges: Mapping[str, Any]

    def __post_init__(self) -> None:
        names = [field.name for field in fields(self.problem)]  # type: ignore[arg-type]
        ranges = {}
        for name, size in self.ranges.items():
            if name not in names:
                raise ValueError(
                    f"{self.problem.__name__} takes {', '.join(names)} (got {name!r})."
                )
            ranges[name] = check_range(name, self._kind(name), size)
        object.__setattr__(self, "ranges", ranges)
        self.smallest()
        self.largest()

    def _kind(self, name: str) -> Kind | None:
        return self.problem.size_kinds.get(name)

    def draw(self, generator: torch.Generator | None = None) -> Problem:
        """A problem with each ranged size uniform on low..high, both included."""
        return self.draw_many(1, generator)[0][0]

    def draw_many(
        self, num: int, generator: torch.Generator | None = None
    ) -> tuple[list[Problem], Tensor]:
        """`num` draws: the distinct problems, and which one each draw is, [num]."""
        ranged = {n: s for n, s in self.ranges.items() if is_range(self._kind(n), s)}
        drawn = [
            draw_range(self._kind(name), size, num, generator)
            for name, size in ranged.items()
        ]
        if not drawn:
            return [self.largest()], torch.zeros(num, dtype=torch.long)
        rows, which = torch.cat(drawn, 1).unique(dim=0, return_inverse=True)
        columns = rows.split([draw.size(1) for draw in drawn], 1)
        sizes = {
            name: [read_draw(self._kind(name), row) for row in column.tolist()]
            for name, column in zip(ranged, columns, strict=True)
        }
        problems = [
            self.problem(**{**self.ranges, **dict(zip(ranged, row, strict=True))})
            for row in zip(*sizes.values(), strict=True)
        ]
        return problems, which

    def at(self, sizes: Mapping[str, Any]) -> Problem:
        """The problem at these sizes, fields other than sizes as in the family."""
        others = {n: v for n, v in self.ranges.items() if self._kind(n) is None}
        return self.problem.family(**{**others, **sizes}).largest()

    def smallest(self) -> Problem:
        """The problem with every size at its lower end."""
        return self._at(0)

    def largest(self) -> Problem:
        """The problem with every size at its upper end."""
        return self._at(1)

    def _at(self, end: Literal[0, 1]) -> Problem:
        return self.problem(
            **{n: range_end(self._kind(n), s, end) for n, s in self.ranges.items()}
        )


def default_metrics(problem: Problem) -> set[str]:
    """The names of the metrics that a problem has unless it defines its own."""
    names = graph_of(problem).variables
    return {f"{kind}_{name}" for kind in ("rmse", "wrong") for name in names}


def graph_of(
    problem: Problem, options: GraphOptions = GraphOptions()
) -> GraphicalModel:
    """The graphical model that a model sees of a problem, built once per size."""
    check_problem_argument(problem)
    return _graph(problem, options.intermediates == "drop")


@lru_cache(maxsize=1024)
def _graph(problem: Problem, without_intermediates: bool) -> GraphicalModel:
    if without_intermediates:
        return _graph(problem, False).without_intermediates()
    return problem.graphical_model()


def check_problem_argument(value: Any) -> Problem:
    """A problem of one size; anything else gets an error that says what to pass."""
    if isinstance(value, ProblemFamily):
        name = value.problem.__name__
        raise TypeError(
            f"Here a problem of one size is due: pass {_call(value.problem)}, or the "
            f"family's largest() (got a family of {name})."
        )
    return _check_source(value, "a problem of one size")


def check_source_argument(value: Any) -> Problem | ProblemFamily:
    """A problem or a family; anything else gets an error that says what to pass."""
    if isinstance(value, ProblemFamily):
        return value
    return _check_source(value, "a problem or a family of sizes")


def _check_source(value: Any, due: str) -> Problem:
    if isinstance(value, Problem):
        return value
    if isinstance(value, type) and issubclass(value, Problem):
        raise TypeError(
            f"Here {due} is due: call the class with its sizes, {_call(value)} "
            f"(got the class {value.__name__})."
        )
    raise TypeError(
        f"Here {due} is due, such as BCMF(m=8, n=8, k=4) from the package `problems` "
        f"or one of a subclass of Problem (got {value!r:.100})."
    )


def _call(problem: type[Problem]) -> str:
    """How to make a problem of a class: BCMF(m=..., n=...)."""
    names = ", ".join(f"{name}=..." for name in problem.size_kinds)
    return f"{problem.__name__}({names})"


def _check_arguments(cls: type, name: str, *arguments: str) -> None:
    """Refuse a method that cannot be called with these arguments by position."""
    method = vars(cls).get(name)
    if not inspect.isfunction(method):
        return
    signature = inspect.signature(method)
    try:
        signature.bind(None, *arguments)
    except TypeError:
        raise TypeError(
            f"{name}() of {cls.__name__} draws from a generator: write "
            f"`def {name}(self, {', '.join(arguments)})` and pass the generator to "
            f"torch, as in torch.randn(n, generator=generator) (got {name}{signature})."
        ) from None
