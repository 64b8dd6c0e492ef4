"""Run a program on given values: how likely they are, and whether they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.distributions import Distribution

from gsdm_pyg.private_api import without_validation
from gsdm_pyg.programs.draw import join_entries
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.programs.sites import Handler, Site, handled_by
from gsdm_pyg.seeding import keyed_generator


@dataclass
class Terms:
    """What a program says of given values, by variable."""

    log_prob: dict[str, Tensor] = field(default_factory=dict)  # of those it draws
    value: dict[str, Tensor] = field(default_factory=dict)  # of those it computes
    holds: bool = True  # whether all conditions of factor() are true


class Replayer(Handler):
    """Gives every variable its value, and compares it with what the program says."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self.values = values
        self.log_prob: dict[str, dict[tuple[int, ...], Tensor]] = {}
        self.value: dict[str, dict[tuple[int, ...], Tensor]] = {}
        self.holds = True

    def draw(self, site: Site, distribution: Distribution, shape: torch.Size) -> Tensor:
        given = self._given(site)
        like = distribution.sample(shape)
        given = given.to(like.dtype, copy=True)
        entry = site.entry or ()
        self.log_prob.setdefault(site.variable, {})[entry] = distribution.log_prob(
            given
        )
        return given

    def compute(self, site: Site, value: Tensor) -> Tensor:
        self.value.setdefault(site.variable, {})[site.entry or ()] = value
        return self._given(site).to(value.dtype, copy=True)

    def constrain(self, condition: Tensor) -> None:
        self.holds = self.holds and bool(condition.all())

    def _given(self, site: Site) -> Tensor:
        value = self.values[site.variable]
        return value if site.entry is None else value[site.entry]


def replay(program: Callable[[], object], values: Mapping[str, Tensor]) -> Terms:
    """The terms of the program's joint density at the values of one instance.

    Args:
        program: The program at one size.
        values: An array per variable.
    """
    replayer = Replayer(values)
    seed = seeded(keyed_generator("replay"))  # of draws without a name
    with seed, torch.no_grad(), without_validation(), handled_by(replayer):
        program()

    def joined(parts: dict[str, dict[tuple[int, ...], Tensor]]) -> dict[str, Tensor]:
        return {
            name: join_entries({at: x[None] for at, x in entries.items()})[0]
            for name, entries in parts.items()
        }

    return Terms(joined(replayer.log_prob), joined(replayer.value), replayer.holds)
