"""Pyro models as problems."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from types import ModuleType, new_class
from typing import Any, ClassVar, NamedTuple

from gsdm_pyg.checks import whole_number
from gsdm_pyg.programs.errors import ProgramError
from gsdm_pyg.programs.program_problem import ProgramProblem
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.sizes import Size

Model = Callable[..., object]

_LOOP = 3  # at this size, a loop over range(1, n) has two rounds


class _Call(NamedTuple):
    """What `from_pyro` was called with."""

    model: Model
    arguments: inspect.BoundArguments
    observed: tuple[str, ...]


class PyroProblem(ProgramProblem, register=False):
    """A problem that a Pyro model states; `from_pyro` makes one."""

    _call: ClassVar[_Call]

    def __post_init__(self) -> None:
        super().__post_init__()
        _plan(self)  # rejects a model that cannot be a problem

    def program(self) -> object:
        with _pyro_sites().Statements(_plan(self)):
            return self._run(self.sizes())

    def _run(self, sizes: Mapping[str, int]) -> object:
        """Run the model, with its arguments at some sizes."""
        model, arguments, _ = self._call
        values = OrderedDict({**arguments.arguments, **sizes})
        bound = inspect.BoundArguments(arguments.signature, values)
        return model(*bound.args, **bound.kwargs)


def from_pyro(
    model: Model, *args: Any, observed: Iterable[str] = (), **kwargs: Any
) -> PyroProblem:
    """A Pyro model at these arguments, as a problem.

    What the model's statements become:

    - `pyro.sample` is a latent variable, or an observed one with `obs=data`; the data
      tell its shape alone, as training draws new ones. Entries that a mask excludes are
      drawn too: give NaN for them.
    - `pyro.deterministic` is an intermediate variable.
    - A plate gives its sites their shape. Sites that a loop makes, such as f"x_{t}" in
      a sequential plate or in `pyro.markov`, are the entries x[t] of one variable.
    - `pyro.param` is a constant, its current value.
    - `pyro.factor`, subsampling and `poutine.scale` are rejected: they weight data
      that exist, and tell no distribution to draw from.

    Arguments that are whole numbers of at least 1 are sizes, which a family may draw:
    `from_pyro(model, 8).family(n=(2, 8))`. The other arguments are constants.

    On the command line, `path/to/file.py:Schools` is a problem if the file has, outside
    of functions, `Schools = type(from_pyro(model, ...))`.

    Args:
        model: A function with statements of Pyro, or a `PyroModule`.
        args: Arguments of the model.
        observed: Names of more observed variables, which need no data: for a model
            that is called with `obs=None`.
        kwargs: Arguments of the model by name.

    Example::

        problem = from_pyro(eight_schools, sigma, observed=["y"])
        gsdm = GSDM.from_problem(problem).fit(max_time="00:00:10:00")
        posterior = gsdm.sample(problem, given={"y": y}, num_samples=1000)
    """
    sites = _pyro_sites()
    if not callable(model):
        raise TypeError(
            "from_pyro takes a function with statements of Pyro, and its arguments "
            f"(got {type(model).__name__})."
        )
    inner = sites.unwrapped(model)
    name = _name(inner)
    try:
        arguments = inspect.signature(inner).bind(*args, **kwargs)
    except TypeError as failure:
        raise TypeError(
            f"from_pyro({name}, ...) takes the arguments of the model, "
            f"{name}{inspect.signature(inner)}: {failure}."
        ) from failure
    arguments.apply_defaults()
    sizes = {
        key: size
        for key, value in arguments.arguments.items()
        if (size := whole_number(value)) is not None
        if size >= 1 and not hasattr(PyroProblem, key)
    }
    chosen = (observed,) if isinstance(observed, str) else tuple(observed)
    namespace = {
        "__annotations__": dict.fromkeys(sizes, Size),
        "__doc__": inspect.getdoc(inner),
        "__module__": getattr(inner, "__module__", __name__),
        "_call": _Call(model, arguments, chosen),
        **sizes,
    }
    cls = new_class(
        name, (PyroProblem,), {"register": False}, lambda ns: ns.update(namespace)
    )
    return cls()


def _name(model: Any) -> str:
    """The name of a function, also inside of functools.partial or a module."""
    model = getattr(model, "func", model)
    owner = getattr(model, "__self__", model)
    return getattr(owner, "__name__", type(owner).__name__)


@lru_cache(maxsize=1024)
def _plan(problem: PyroProblem) -> Any:
    """The sites of the model, from two or three runs of it."""
    sites = _pyro_sites()
    found = larger = _recorded(problem, problem.sizes())
    sizes = {name: max(size, _LOOP) for name, size in problem.sizes().items()}
    if sizes != problem.sizes():
        with suppress(Exception):  # where other arguments do not fit these sizes
            larger = _recorded(problem, sizes)
    plan = sites.plan_of(found, larger, problem._call.observed)
    data = [site.data for site in found if site.data is not None]
    if not data:
        return plan
    check = sites.DataCheck(data)
    try:
        with seeded(keyed_generator("pyro")), check.dependence.follow(), check:
            problem._run(problem.sizes())
    except ProgramError as failure:
        raise ProgramError(
            f"{failure} The data that a model observes are random values to it."
        ) from failure
    return plan


def _recorded(problem: PyroProblem, sizes: Mapping[str, int]) -> Any:
    with seeded(keyed_generator("pyro")), _pyro_sites().Recorder() as recorder:
        problem._run(sizes)
    return recorder.sites


def _pyro_sites() -> ModuleType:
    """The module that imports Pyro, if it is installed."""
    try:
        from gsdm_pyg.programs import pyro_sites
    except ModuleNotFoundError as failure:
        if (failure.name or "").partition(".")[0] != "pyro":
            raise
        raise ModuleNotFoundError(
            "from_pyro needs Pyro: install it by `pip install pyro-ppl`.",
            name=failure.name,
        ) from failure
    return pyro_sites
