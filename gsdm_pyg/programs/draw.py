"""Draw data from a program: many instances at once, by `torch.func.vmap`."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from gsdm_pyg.private_api import without_validation
from gsdm_pyg.programs.errors import ProgramError, line_of
from gsdm_pyg.programs.sites import Handler, Site, handled_by
from gsdm_pyg.programs.subexpressions import Subexpressions
from gsdm_pyg.programs.vectorized import draw_vectorized, vectorizing
from gsdm_pyg.variables import Role

logger = logging.getLogger("gsdm_pyg")

TRIES = 1000  # draws per accepted instance, beyond which a condition is too rare

Program = Callable[[], object]
Values = dict[str, Tensor]
Drawn = tuple[Values, Tensor | None]
Entries = dict[str, dict[tuple[int, ...], Tensor]]


class Drawer(Handler):
    """Draws every variable that is not given, and remembers it."""

    def __init__(
        self,
        vectorized: bool,
        subexpressions: Mapping[int, str] | None = None,
        given: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.vectorized = vectorized
        self.subexpressions = subexpressions or {}
        self.given = given or {}
        self.entries: Entries = {}
        self.accepted: Tensor | None = None  # whether all conditions hold so far

    def draw(self, site: Site, distribution: Distribution, shape: torch.Size) -> Tensor:
        if self.vectorized:
            return self.compute(site, draw_vectorized(distribution, shape))
        return self.compute(site, distribution.sample(shape))

    def compute(self, site: Site, value: Tensor) -> Tensor:
        if site.variable in self.given:
            given = self.given[site.variable]
            given = given if site.entry is None else given[site.entry]
            value = given.to(value.dtype)  # Bernoulli draws classes as real numbers
        # Copies: the program may change its tensors afterwards, each by itself.
        self.entries.setdefault(site.variable, {})[site.entry or ()] = value.clone()
        return value.clone()

    def name_result(self, call: int, function: str, value: Tensor) -> Tensor:
        """Remember the result of a function that is a variable without a name."""
        name = self.subexpressions.get(call)
        if name is None:
            return value
        return self.compute(Site(name, None, Role.INTERMEDIATE, None), value)

    def constrain(self, condition: Tensor) -> None:
        holds = condition.all()
        self.accepted = holds if self.accepted is None else self.accepted & holds


def draw_accepted(draw: Callable[[int], Drawn], num: int) -> Values:
    """`num` instances that satisfy all conditions: an array [num, *shape] per variable.

    Args:
        draw: Draws instances, and says which of them satisfy all conditions.
        num: How many instances.
    """
    drawn, accepted = draw(num)
    if accepted is None:
        return drawn
    parts, found, tried = [], 0, 0
    while True:
        parts.append({name: value[accepted] for name, value in drawn.items()})
        found, tried = found + int(accepted.sum()), tried + len(accepted)
        if found >= num:
            joined = {n: torch.cat([part[n] for part in parts]) for n in drawn}
            return {name: value[:num] for name, value in joined.items()}
        if tried > TRIES * max(found, 1):
            raise ProgramError(
                "factor() draws instances again until its conditions hold, and here "
                f"they hardly ever do ({found} of {tried} draws): state conditions "
                "that hold by construction, or draw from a narrower distribution."
            )
        share = max(found, 1) / tried
        more = min(math.ceil(1.2 * (num - found) / share) + 1, 100 * num)
        drawn, accepted = draw(more)
        assert accepted is not None  # as before


def draw(
    program: Program,
    num: int,
    vectorized: bool,
    subexpressions: Mapping[int, str] | None = None,
    given: Values | None = None,
) -> Drawn:
    """`num` instances, and which of them satisfy all conditions, if there are any.

    Args:
        program: The program at one size.
        num: How many instances.
        vectorized: Whether to run the program once for all of them.
        subexpressions: Variables that the program does not name, see `trace`.
        given: Variables to take as they are, [num, *shape]; the others follow them.
    """
    drawers: list[Drawer] = []

    def run(_: Tensor, given: Values) -> list[Tensor]:
        drawer = Drawer(vectorized, subexpressions, given)
        modes: Any = Subexpressions(drawer.name_result)
        with handled_by(drawer), modes if subexpressions else nullcontext():
            program()
        drawers.append(drawer)
        flags = [] if drawer.accepted is None else [drawer.accepted]
        return [x for parts in drawer.entries.values() for x in parts.values()] + flags

    numbers, given = torch.empty(num, 0), given or {}
    with torch.no_grad(), without_validation():
        if vectorized:
            with vectorizing():
                drawn = torch.func.vmap(run, randomness="different")(numbers, given)
        else:
            runs = [
                run(number, {name: value[i] for name, value in given.items()})
                for i, number in enumerate(numbers)
            ]
            drawn = [torch.stack(parts) for parts in zip(*runs, strict=True)]
    values, rest = {}, iter(drawn)
    for name, parts in drawers[0].entries.items():
        values[name] = join_entries({at: next(rest) for at in parts})
    return values, next(rest, None)


def join_entries(entries: dict[tuple[int, ...], Tensor]) -> Tensor:
    """Entries [num, *entry_shape] of a variable -> [num, *shape]."""
    if () in entries:
        return entries[()]
    lead = [max(index) + 1 for index in zip(*entries, strict=True)]
    every = itertools.product(*map(range, lead))
    return torch.stack([entries[at] for at in every], 1).unflatten(1, lead)


def can_vectorize(program: Program, name: str) -> bool:
    """Whether the program runs for many instances at once; if not, a warning says why.

    Args:
        program: The program at one size.
        name: Its name, for the warning.
    """
    state = torch.random.get_rng_state()
    try:
        draw(program, 2, vectorized=True)
    except (RuntimeError, ValueError) as failure:
        reason = str(failure).strip().splitlines()[0]
        logger.warning(
            "The program %s is run instance by instance, which is slower: torch.func."
            "vmap cannot run it for many at once (%s): %s",
            name,
            line_of(failure.__traceback__),
            reason,
        )
        return False
    finally:
        torch.random.set_rng_state(state)
    return True
