"""What all methods without training have in common: checks, seeds and evaluation."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import torch
from torch import Tensor

from gsdm_pyg.checks import check_count
from gsdm_pyg.choices import Observe
from gsdm_pyg.data import check_given
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.evaluation import Evaluation, evaluate_answers
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.seeding import as_seed, keyed_generator
from gsdm_pyg.settings_base import Settings


class Baseline(Settings, ABC):
    """A method that draws all variables of a problem given some, without training.

    Subclasses declare settings as fields with a docstring each, set `name`, and define
    `draw`.

    Example::

        class Sort(Baseline):
            name = "sort"

            def check(self, problem): ...
            def draw(self, problem, values, known, num_samples, generator): ...
    """

    registry: ClassVar[dict[str, type[Baseline]]] = {}
    name: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            Baseline.registry[cls.name] = cls

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if the method cannot solve the problem."""

    @abstractmethod
    def draw(
        self,
        problem: Problem,
        values: Arrays,
        known: Arrays,
        num_samples: int,
        generator: torch.Generator,
    ) -> Mapping[str, Tensor]:
        """Samples of each of B instances: an array [B, num_samples, *shape] each.

        Variables that a method does not draw may be left out. What is known is put in
        afterwards.

        Args:
            problem: The problem, which `check` let pass.
            values: An array [B, *shape] per variable, zero where nothing is known.
            known: A boolean array [B, *shape] per variable.
            num_samples: How many samples of each instance.
            generator: Source of randomness.
        """

    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        *,
        generator: torch.Generator | int | None = None,
    ) -> dict[str, Tensor]:
        """Draw all variables given some: an array [num_samples, *shape] per variable.

        Where `given` holds B instances, arrays [B, *shape], the results are
        [B, num_samples, *shape]. See `GSDM.sample`.

        Args:
            problem: The problem to solve.
            given: Arrays by name, whole or with NaN for missing entries.
            num_samples: How many samples to draw, of each instance.
            generator: Source of randomness, or a seed.
        """
        check_count("num_samples", num_samples)
        seed = as_seed(generator)
        graph = graph_of(problem)
        self.check(problem)
        values, known = check_given(graph, {} if given is None else given)
        problem.check_given(values, known)
        name, variable = next(iter(graph.variables.items()))
        several = known[name].dim() > len(variable.shape)  # instances, [B, *shape]
        if not several:
            values, known = (
                {n: a[None] for n, a in arrays.items()} for arrays in (values, known)
            )
        drawn = self._draw(problem, values, known, num_samples, seed)
        return drawn if several else {n: value[0] for n, value in drawn.items()}

    def evaluate(
        self,
        problem: Problem,
        num_instances: int = 64,
        *,
        seed: int = 0,
        observe: Observe = "roles",
    ) -> Evaluation:
        """Draw one answer for each of `num_instances` fresh instances and score it.

        Args:
            problem: The problem, of any size.
            num_instances: Instances to average over; those of `GSDM.evaluate`.
            seed: Chooses instances and randomness.
            observe: What is given, as the setting of a model.
        """
        check_count("num_instances", num_instances)
        graph_of(problem)
        self.check(problem)

        def answer(problem: Problem, values: Arrays, known: Arrays) -> Any:
            drawn = self._draw(problem, values, known, 1, as_seed(seed))
            return {name: value[:, 0] for name, value in drawn.items()}

        return evaluate_answers(answer, problem, num_instances, seed, observe)

    def _draw(
        self,
        problem: Problem,
        values: Arrays,
        known: Arrays,
        num_samples: int,
        seed: int,
    ) -> dict[str, Tensor]:
        """Samples [B, num_samples, *shape] with what is known in its place."""
        full, variables = {}, graph_of(problem).variables
        for name, variable in variables.items():
            continuous = variable.domain.num_classes is None
            dtype = torch.get_default_dtype() if continuous else torch.long
            value = values.get(name, torch.zeros(()))
            full[name] = torch.where(known[name], value, 0).to(dtype)
        generator = keyed_generator(self.name, seed)
        drawn = self.draw(problem, full, known, num_samples, generator)
        samples = {}
        for name, value in full.items():
            mask, value = known[name][:, None], value[:, None]  # [B, 1, *shape]
            if name in drawn:
                samples[name] = torch.where(mask, value, drawn[name].to(value.dtype))
            elif mask.all():
                samples[name] = value.expand(-1, num_samples, *value.shape[2:])
        return samples


def names() -> list[str]:
    """The names of all baselines that are known."""
    _import_all()
    return sorted(Baseline.registry)


def create(name: str, **settings: Any) -> Baseline:
    """A baseline by its name, with some settings changed."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
        raise ValueError(f"No baseline is called {name!r}; {hint}")
    return Baseline.registry[name].parse(settings)


def _import_all() -> None:
    """Import those of single problems, where the package `problems` is at hand."""
    if find_spec("problems") and find_spec("problems.by_hand"):
        import_module("problems.by_hand")
