"""Programs as problems: one function gives the graph, the sampler and the positions."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from types import new_class
from typing import Any, overload

import torch
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.programs.draw import can_vectorize, draw_batch
from gsdm_pyg.programs.errors import ProgramError
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.programs.trace import trace
from gsdm_pyg.sizes import Size


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

    @abstractmethod
    def program(self) -> object:
        """The statements `sample`, `let`, `observe` and `factor`, in any order."""

    def graphical_model(self) -> GraphicalModel:
        return trace(self.program, str(self))

    def sample_batch(
        self, num: int, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        variables = graph_of(self).variables
        with seeded(generator):
            drawn = draw_batch(self.program, num, _vectorized(self))
        return {
            name: drawn[name].long() if variable.domain.num_classes else drawn[name]
            for name, variable in variables.items()
        }


@lru_cache(maxsize=1024)
def _vectorized(problem: ProgramProblem) -> bool:
    return can_vectorize(problem.program, str(problem))


Decorated = Callable[..., object]
Metrics = Callable[..., dict[str, float]]


@overload
def program(function: Decorated) -> type[ProgramProblem]: ...


@overload
def program(
    *, metrics: Metrics | None = None, plot: Callable[..., Any] | None = None
) -> Callable[[Decorated], type[ProgramProblem]]: ...


def program(
    function: Decorated | None = None,
    *,
    metrics: Metrics | None = None,
    plot: Callable[..., Any] | None = None,
) -> Any:
    """A function that draws a model's variables, as a problem.

    Its arguments are sizes; those with a default value, or with an annotation other
    than `Size` and `Sizes`, are other options. A call with all sizes is the problem at
    these sizes, and `family(...)` draws them.

    Args:
        function: The program: the statements `sample`, `let`, `observe` and `factor`.
        metrics: `metrics(sample, truth)`, see `Problem.metrics`.
        plot: `plot(sample, truth)`, see `Problem.plot`.

    Example::

        @program
        def bcmf(m, n, k):
            A = sample("A", Uniform(0, 1), (m, k))
            R = sample("R", Bernoulli(0.3), (k, n))
            C = let("C", A[:, None, :] * R.T[None])
            observe("E", C.sum(-1))

        model = GSDM.from_problem(bcmf.family(m=(1, 10), n=(1, 10), k=(1, 10)))
    """
    if function is None:
        return partial(program, metrics=metrics, plot=plot)
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
