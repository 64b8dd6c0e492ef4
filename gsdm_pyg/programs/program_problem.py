"""Programs as problems: one function gives the graph, the sampler and the positions."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial, wraps
from types import new_class
from typing import Any, ClassVar, overload

import torch
from torch import Tensor

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import ProgramIntermediates
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.programs.draw import Drawn, can_vectorize, draw, draw_accepted
from gsdm_pyg.programs.errors import ProgramError
from gsdm_pyg.programs.positions import (
    all_axes,
    positions_by_graph,
    positions_by_program,
    typical_sizes,
)
from gsdm_pyg.programs.predict import draw_given
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.programs.recording import RecordedDraws
from gsdm_pyg.programs.trace import Traced, trace, warn_of_unused
from gsdm_pyg.programs.verify import verify
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.sizes import Size
from gsdm_pyg.variables import Continuous, Role, Variable

Positions = Mapping[str, Sequence[int]]
MOST_NODES = 20_000  # of graphs whose positions are checked at their own size


class ProgramProblem(Problem, register=False):
    """A problem whose graph and sampler are one program.

    Subclasses declare sizes as fields, and write the program as a method. A function
    with `@program` is such a class.

    Example::

        class Noisy(ProgramProblem):
            n: Size

            def program(self):
                x = sample("x", Normal(0.0, 1.0), self.n)
                observe("y", Normal(x, 0.5))
    """

    intermediates: ClassVar[ProgramIntermediates] = "named"
    """"all" makes every result of a function of torch an intermediate variable, not
    only those that `let` names."""
    positions: ClassVar[Positions | None] = None
    """The axes of each variable whose index a model knows; by default they are found,
    see `gsdm_pyg.programs.positions`."""

    @abstractmethod
    def program(self) -> object:
        """The statements `sample`, `let`, `observe` and `factor`, in any order."""

    def graphical_model(self) -> GraphicalModel:
        known = found_positions(self)
        graph = trace(self.program, str(self), known, self.intermediates).graph
        warn_of_unused(graph, str(self))
        return graph

    def sample_batch(
        self, num: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        with seeded(generator):
            drawn = draw_accepted(_draws(self), num)
        return _by_domain(drawn, graph_of(self).variables.values())

    def predict(
        self, latents: Arrays, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Run the program with the latent variables given.

        Intermediate variables are computed from them. Draws without a name are new.
        """
        variables = graph_of(self).variables.values()
        fixed = [v for v in variables if v.role is Role.LATENT]
        given = _check_samples("predict", str(self), fixed, latents)
        with seeded(generator):
            drawn = draw_given(self.program, given, _can_vectorize(self))
        return _by_domain(drawn, [v for v in variables if v.role is Role.OBSERVED])

    def violations(self, samples: Arrays) -> dict[str, Tensor]:
        """Values that the program cannot draw or computes otherwise, see `verify`."""
        return self._verified("violations", samples)[0]

    def polish(self, samples: Arrays, known: Arrays) -> dict[str, Tensor]:
        """Variables that `let` names, as the program computes them from the others."""
        computed = self._verified("polish", samples)[1]
        variables = graph_of(self).variables
        whole = [variables[name] for name in computed if name in variables]
        exact = _by_domain(computed, whole)
        return {**samples, **exact}

    def _verified(
        self, method: str, samples: Arrays
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        variables = graph_of(self).variables.values()
        due = [v for v in variables if v.role is not Role.INTERMEDIATE]
        given = _check_samples(method, str(self), due, samples)
        return verify(self.program, given, _can_vectorize(self))


def _check_samples(
    method: str, problem: str, variables: Sequence[Variable], samples: Arrays
) -> dict[str, Tensor]:
    """An array [S, *shape] of each variable, the same S for all."""
    names = ", ".join(v.name for v in variables) or "none"
    if not variables or not {v.name for v in variables} <= set(samples):
        raise ValueError(
            f"{method}() of {problem} takes samples of its variables {names} "
            f"(got {', '.join(map(str, samples)) or 'none'})."
        )
    given = {v.name: torch.as_tensor(samples[v.name]) for v in variables}
    first = next(iter(given.values()))
    num = len(first) if first.dim() else 0
    for v in variables:
        if given[v.name].shape != (num, *v.shape):
            raise ValueError(
                f"samples[{v.name!r}] must have the shape (S, *{v.shape}), S samples "
                f"of each variable (got {tuple(given[v.name].shape)})."
            )
    return given


def _by_domain(drawn: Arrays, variables: Iterable[Variable]) -> dict[str, Tensor]:
    """What was drawn of some variables, classes and counts as integers."""
    return {
        v.name: drawn[v.name]
        if isinstance(v.domain, Continuous)
        else drawn[v.name].long()
        for v in variables
    }


def found_positions(problem: Problem) -> Positions:
    """The axes of each variable whose index a model needs to know, at any size.

    Those that a program declares, or that are found for it at small sizes; for other
    problems, those that the graph alone does not allow to permute. Where a problem has
    no such sizes, all of them.
    """
    if isinstance(problem, ProgramProblem) and problem.positions is not None:
        return problem.positions
    small = _typical(problem)
    if isinstance(problem, ProgramProblem):
        if small is None:
            return all_axes(_traced(problem).graph)
        assert isinstance(small, ProgramProblem)
        return _positions_by_program(small)
    return all_axes(graph_of(problem)) if small is None else _positions_by_graph(small)


def check_positions(problem: Problem) -> None:
    """Reject a program of which an index needs a position at this size only.

    What is special about `x[8]` shows at sizes beyond 8 only.
    """
    if not isinstance(problem, ProgramProblem) or problem.positions is not None:
        return
    known, graph = found_positions(problem), graph_of(problem)
    if _typical(problem) is None or graph.num_nodes > MOST_NODES:
        return
    needed = _positions_by_program(problem)
    missing = any(set(axes) - set(known.get(n, ())) for n, axes in needed.items())
    if missing:
        declared = {
            name: tuple(sorted({*known.get(name, ()), *needed.get(name, ())}))
            for name in graph.variables
            if name in known or name in needed
        }
        raise ProgramError(
            f"{problem} treats values of an index differently that are alike at small "
            f"sizes: write @program(positions={declared}) so that models of all sizes "
            f"know it (got positions {dict(known)})."
        )


@lru_cache(maxsize=1024)
def _typical(problem: Problem) -> Problem | None:
    """The problem at small sizes; None if it does not run at them."""
    try:
        small: Problem = replace(problem, **typical_sizes(problem))  # type: ignore[type-var]
        if isinstance(small, ProgramProblem):
            _positions_by_program(small)
        else:
            graph_of(small)
    except Exception:  # of the user's program, at sizes that the user did not ask for
        return None
    return small


@lru_cache(maxsize=64)
def _traced(problem: ProgramProblem) -> Traced:
    """The trace without positions."""
    return trace(problem.program, str(problem), None, problem.intermediates)


@lru_cache(maxsize=64)
def _positions_by_graph(problem: Problem) -> Positions:
    return positions_by_graph(graph_of(problem))


@lru_cache(maxsize=64)
def _positions_by_program(problem: ProgramProblem) -> Positions:
    traced = _traced(problem)

    def instance() -> Mapping[str, Tensor]:
        drawn = draw_accepted(partial(draw, problem.program, vectorized=False), 1)
        return {name: value[0] for name, value in drawn.items()}

    with seeded(keyed_generator("positions")):
        return positions_by_program(
            traced.graph, problem.program, instance, traced.conditioned
        )


@lru_cache(maxsize=1024)
def _can_vectorize(problem: ProgramProblem) -> bool:
    return can_vectorize(problem.program, str(problem))


@lru_cache(maxsize=1024)
def _draws(problem: ProgramProblem) -> Callable[[int], Drawn]:
    """Draws instances of a problem, many at once if that is possible."""
    unnamed = {}
    if problem.intermediates == "all":
        unnamed = _traced(problem).subexpressions
    vectorized = _can_vectorize(problem)

    def draws(num: int) -> Drawn:
        return draw(problem.program, num, vectorized and num > 1, unnamed)

    return RecordedDraws(draws) if vectorized else draws


Decorated = Callable[..., object]
Metrics = Callable[..., dict[str, float]]


@overload
def program(function: Decorated) -> type[ProgramProblem]: ...


@overload
def program(
    *,
    metrics: Metrics | None = None,
    plot: Callable[..., Any] | None = None,
    intermediates: ProgramIntermediates = "named",
    positions: Positions | None = None,
) -> Callable[[Decorated], type[ProgramProblem]]: ...


def program(
    function: Decorated | None = None,
    *,
    metrics: Metrics | None = None,
    plot: Callable[..., Any] | None = None,
    intermediates: ProgramIntermediates = "named",
    positions: Positions | None = None,
) -> Any:
    """A function that draws a model's variables, as a problem.

    Its arguments are sizes; those with a default value, or with an annotation other
    than `Size` and `Sizes`, are other options. A call with all sizes is the problem at
    these sizes, and `family(...)` draws them.

    Args:
        function: The program: the statements `sample`, `let`, `observe` and `factor`.
        metrics: `metrics(sample, truth)`, see `Problem.metrics`.
        plot: `plot(sample, truth)`, see `Problem.plot`.
        intermediates: "named": only `let` names intermediate variables. "all": every
            result of a function of torch is one, too.
        positions: The axes of each variable whose index a model knows, such as
            `{"x": (0,)}`; by default they are found.

    Example::

        @program
        def bcmf(m, n, k):
            A = sample("A", Uniform(0, 1), (m, k))
            R = sample("R", Bernoulli(0.3), (k, n))
            C = let("C", A[:, None, :] * R.T[None])
            observe("E", C.sum(-1))

        model = GSDM.from_problem(bcmf.family(m=(1, 10), n=(1, 10), k=(1, 10)))
    """
    check_choice("intermediates", intermediates, ProgramIntermediates)
    settings = {"intermediates": intermediates, "positions": positions}
    if function is None:
        return partial(program, metrics=metrics, plot=plot, **settings)
    if not inspect.isfunction(function):
        raise TypeError(
            "@program goes before a function, `def name(n, ...):` "
            f"(got {type(function).__name__})."
        )
    fields, annotations = {}, {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (_POSITIONAL, inspect.Parameter.KEYWORD_ONLY):
            raise ProgramError(
                f"The arguments of the program {function.__name__} are sizes, each by "
                f"its name (got {parameter})."
            )
        hint, default = parameter.annotation, parameter.default
        if hasattr(ProgramProblem, name):
            raise ProgramError(
                f"An argument of the program {function.__name__} needs a name that "
                f"problems do not use themselves: choose another (got {name!r})."
            )
        if isinstance(default, list | dict | set | Tensor):
            raise ProgramError(
                f"The default of {name!r} in the program {function.__name__} must be a "
                f"value that can be hashed, such as a tuple (got {default!r:.60})."
            )
        if hint is inspect.Parameter.empty:
            hint = Size if default is inspect.Parameter.empty else Any
        annotations[name] = hint
        if default is not inspect.Parameter.empty:
            fields[name] = default

    def run(self: ProgramProblem) -> object:
        return function(**{name: getattr(self, name) for name in annotations})

    methods: dict[str, Any] = {"program": run}
    for name, method in (("metrics", metrics), ("plot", plot)):
        if method is not None:
            methods[name] = _as_method(method)
    namespace = {
        "__annotations__": annotations,
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        **settings,
        **fields,
        **methods,
    }
    bases = (ProgramProblem,)
    return new_class(
        function.__name__, bases, exec_body=lambda ns: ns.update(namespace)
    )


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the problem as a first argument that it does not see."""

    @wraps(function)
    def method(self: ProgramProblem, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", _POSITIONAL),
            *inspect.signature(function).parameters.values(),
        ]
    )
    return method
