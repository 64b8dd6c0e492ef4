"""The density of a program at given values, with what is determined made soft.

A variable that others determine has no density. Where one is given, the program's value
has a normal error, or is right with a high probability if it is a class; so is each
condition of `factor` (the appendix on training parameters).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from gsdm_pyg.encoding import Arrays
from gsdm_pyg.private_api import without_validation
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.programs.draw import join_entries
from gsdm_pyg.programs.errors import ProgramError
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.programs.sites import Handler, Site, handled_by
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.variables import Role

Entry = tuple[int, ...]
Key = tuple[
    str, Entry
]  # a variable, and which entry of it a statement names; () of all


class Softness(NamedTuple):
    """How exactly determined values must fit given ones, and conditions must hold."""

    noise: float  # standard deviation of real numbers
    certainty: float  # probability of a class, and of a condition


class Conditioned(Handler):
    """Runs a program with some entries given, and adds up its log-density.

    Args:
        values: An array per variable; of each, what is not known is not read.
        known: A boolean array per variable.
        classes: The variables that are classes.
        softness: What determined values and conditions are worth.
    """

    def __init__(
        self,
        values: Arrays,
        known: Arrays,
        classes: frozenset[str],
        softness: Softness,
    ) -> None:
        self.given, self.known = values, known
        self.classes, self.softness = classes, softness
        self.values: dict[Key, Tensor] = {}
        self.log_prob: dict[Key, Tensor] = {}  # of each draw, without its event's axes
        self.likelihood: Tensor | float = 0.0  # log, of determined values, conditions

    @abstractmethod
    def propose(self, key: Key, prior: Distribution, shape: torch.Size) -> Tensor:
        """A value of a draw; known entries replace it."""

    def draw(self, site: Site, distribution: Distribution, shape: torch.Size) -> Tensor:
        key = site.variable, site.entry or ()
        value = self._with_given(key, self.propose(key, distribution, shape))
        self.log_prob[key] = distribution.log_prob(value)
        self.values[key] = value.clone()  # the program may change its tensors
        return value

    def compute(self, site: Site, value: Tensor) -> Tensor:
        key = site.variable, site.entry or ()
        taken = self._with_given(key, value)
        if site.variable in self.classes:
            fits = self._condition(value == taken)
        else:
            real = value.to(torch.get_default_dtype())
            fits = Normal(real, self.softness.noise).log_prob(taken.to(real))
        fits = torch.where(self.entry(self.known, key), fits, 0)
        self.likelihood = self.likelihood + fits.sum()
        self.values[key] = taken.clone()
        return taken

    def constrain(self, condition: Tensor) -> None:
        self.likelihood = self.likelihood + self._condition(condition).sum()

    def _condition(self, holds: Tensor) -> Tensor:
        certainty = self.softness.certainty
        return torch.where(holds, math.log(certainty), math.log1p(-certainty))

    def _with_given(self, key: Key, value: Tensor) -> Tensor:
        given, known = self.entry(self.given, key), self.entry(self.known, key)
        if known.shape != value.shape:
            raise ProgramError(
                f"program() must have {key[0]!r} in the shape of the graph, "
                f"{tuple(known.shape)} (got {tuple(value.shape)})."
            )
        return torch.where(known, given.to(value.dtype), value)

    def is_given(self, key: Key) -> bool:
        """Whether all of what a statement names is given."""
        return bool(self.entry(self.known, key).all())

    def entry(self, arrays: Arrays, key: Key) -> Tensor:
        """What a statement names."""
        name, entry = key
        if name not in arrays:
            raise ProgramError(
                f"program() has the variables of the graph, {', '.join(arrays)} "
                f"(got {name!r})."
            )
        return arrays[name][entry] if entry else arrays[name]


class FromPrior(Conditioned):
    """Draws what is not known, and remembers the distributions."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.priors: dict[Key, Distribution] = {}

    def propose(self, key: Key, prior: Distribution, shape: torch.Size) -> Tensor:
        self.priors[key] = prior
        return prior.sample(shape)


class Fixed(Conditioned):
    """Takes every draw from values that are known already."""

    def __init__(self, drawn: Mapping[Key, Tensor], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.drawn = drawn

    def propose(self, key: Key, prior: Distribution, shape: torch.Size) -> Tensor:
        return self.drawn[key]


def run_program(problem: Problem, handler: Conditioned) -> None:
    """Run the program of a problem by the handler."""
    with without_validation(), handled_by(handler):
        problem.program()


def classes_of(problem: Problem) -> frozenset[str]:
    """The variables of a problem that are classes."""
    variables = graph_of(problem).variables.values()
    return frozenset(v.name for v in variables if v.domain.num_classes is not None)


def joined(values: Mapping[Key, Tensor]) -> dict[str, Tensor]:
    """Values [num, *entry_shape] by statement -> [num, *shape] by variable."""
    entries: dict[str, dict[Entry, Tensor]] = {}
    for (name, entry), value in values.items():
        entries.setdefault(name, {})[entry] = value
    return {name: join_entries(parts) for name, parts in entries.items()}


def check_program(problem: Problem) -> FromPrior:
    """A run of the problem's program with nothing given, if it has a density.

    Raises an error where the variables are not those of the graph, and where a draw has
    no name.
    """
    variables = graph_of(problem).variables.values()
    nothing = {v.name: torch.zeros(v.shape) for v in variables}
    known = {name: value.bool() for name, value in nothing.items()}
    given = nothing, known, classes_of(problem), Softness(1.0, 0.9)
    with torch.no_grad(), seeded(keyed_generator("density")):
        first = FromPrior(*given)
        run_program(problem, first)
        again = Fixed(first.values, *given)  # by other random numbers
        run_program(problem, again)
    named = {name for name, _ in first.values}
    for v in variables:
        if v.name not in named and v.role is not Role.INTERMEDIATE:
            raise ProgramError(
                f"program() of {problem} must have the variables of its graph: add "
                f"{v.name!r} (got {', '.join(named) or 'none'})."
            )
    pairs = [(torch.as_tensor(first.likelihood), torch.as_tensor(again.likelihood))]
    pairs += [(value, again.values[key]) for key, value in first.values.items()]
    pairs += [(value, again.log_prob[key]) for key, value in first.log_prob.items()]
    if not all(torch.equal(one, other) for one, other in pairs):
        raise ProgramError(
            f"The density of {problem} is not known: name all of its draws by sample() "
            "or observe() (got values that follow from one without a name)."
        )
    return first


def check_whole(problem: Problem, program: FromPrior, known: Arrays) -> None:
    """Reject what the program cannot condition on.

    That is a part of a vector that one distribution draws as a whole, and intermediate
    variables that the program does not name.

    Args:
        problem: The problem, for errors.
        program: A run of its program.
        known: A boolean array [B, *shape] per variable.
    """
    named = {name for name, _ in program.values}
    for name, mask in known.items():
        if mask.any() and name not in named:
            raise ValueError(
                f"The program of {problem} does not name {name!r}: name it by let() to "
                "give its value (got some of its values)."
            )
    for key, log_prob in program.log_prob.items():
        part = known_entry(known, key)  # [B, *shape of the draw]
        rows = part.reshape(len(part), *log_prob.shape, -1)
        if (rows.any(-1) != rows.all(-1)).any():
            raise ValueError(
                f"{key[0]} of {problem} is drawn as a vector: give all of its entries "
                "or none (got some)."
            )


def known_entry(arrays: Arrays, key: Key) -> Tensor:
    """What belongs to one statement, of arrays [B, *shape]."""
    name, entry = key
    array = arrays[name]
    for i in entry:
        array = array.select(1, i)
    return array
