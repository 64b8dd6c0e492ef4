"""Run a program on given values: what it computes from them, and what does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution

from gsdm_pyg.private_api import without_validation
from gsdm_pyg.programs.draw import Entries, Values, join_entries
from gsdm_pyg.programs.random_state import seeded
from gsdm_pyg.programs.sites import Handler, Site, handled_by
from gsdm_pyg.programs.vectorized import vectorizing
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.variables import Role


class Verifier(Handler):
    """Takes what is drawn or observed as given, and computes the rest."""

    def __init__(self, given: Values) -> None:
        self.given = given
        self.missed: Entries = {}  # by how much given values do not fit
        self.computed: Entries = {}  # what `let` names
        self.num_conditions = 0

    def draw(self, site: Site, distribution: Distribution, shape: torch.Size) -> Tensor:
        value = self._given(site)
        if _is_index(distribution):
            value = value.long()
        self._miss(
            f"support of {site.variable}", site, _impossible(distribution, value)
        )
        return value

    def compute(self, site: Site, value: Tensor) -> Tensor:
        if site.role is Role.OBSERVED:
            given = self._given(site)
            self._miss(site.variable, site, (value.to(given) - given).abs())
            return given.to(value.dtype)
        entries = self.computed.setdefault(site.variable, {})
        entries[site.entry or ()] = value.clone()
        if site.role is Role.LATENT:
            given = self._given(site)
            self._miss(site.variable, site, (value.to(given) - given).abs())
        return value.clone()

    def constrain(self, condition: Tensor) -> None:
        self.num_conditions += 1
        name = f"condition {self.num_conditions} of factor()"
        self.missed[name] = {(): ~condition}

    def _given(self, site: Site) -> Tensor:
        value = self.given[site.variable]
        value = value if site.entry is None else value[site.entry]
        # Copies: the program may change them. Distributions take real numbers.
        return value.to(torch.get_default_dtype(), copy=True)

    def _miss(self, name: str, site: Site, amount: Tensor) -> None:
        self.missed.setdefault(name, {})[site.entry or ()] = amount


def verify(
    program: Callable[[], object], given: Values, vectorized: bool
) -> tuple[Values, Values]:
    """By how much values do not fit a program, and what it computes from them.

    Both are arrays [S, *any], by the name of the constraint and of the variable: what
    is drawn must be possible (1 where it is not), computed variables that are latent or
    observed must have the value that is computed, and conditions must be true.

    Args:
        program: The program at one size.
        given: An array [S, *shape] per latent and observed variable.
        vectorized: Whether to run the program once for all S samples.
    """
    verifiers: list[Verifier] = []

    def run(given: Values) -> tuple[list[Tensor], list[Tensor]]:
        verifier = Verifier(given)
        with handled_by(verifier):
            program()
        verifiers.append(verifier)
        parts = verifier.missed, verifier.computed
        missed, computed = ([x for e in p.values() for x in e.values()] for p in parts)
        return missed, computed

    num = len(next(iter(given.values())))
    with torch.no_grad(), without_validation(), seeded(keyed_generator("verify")):
        before = torch.random.get_rng_state()
        if vectorized:
            with vectorizing():
                missed, computed = torch.func.vmap(run, randomness="different")(given)
        else:
            runs = [run({n: v[i] for n, v in given.items()}) for i in range(num)]
            missed, computed = (
                [torch.stack(parts) for parts in zip(*rows, strict=True)]
                for rows in zip(*runs, strict=True)
            )
        if not torch.equal(before, torch.random.get_rng_state()):
            raise ValueError(
                "The program draws random numbers without a name, so that its values "
                "cannot be verified: name them by sample() (got no name)."
            )
    return (
        _by_name(verifiers[0].missed, missed),
        _by_name(verifiers[0].computed, computed),
    )


def _impossible(distribution: Distribution, value: Tensor) -> Tensor:
    """Which values are outside of the support, or have no probability."""
    support = distribution.support
    if support is not None and not support.is_discrete:
        return ~support.check(value)
    if support is None:
        return ~(distribution.log_prob(value) > _least(distribution))
    inside = support.check(value)
    shape = inside.shape + (1,) * (value.dim() - inside.dim())
    legal = torch.where(inside.view(shape), value, torch.zeros_like(value))
    return ~(inside & (distribution.log_prob(legal) > _least(distribution)))


def _least(distribution: Distribution) -> float:
    """The log-probability of what a discrete distribution cannot draw.

    torch keeps the probabilities of classes above the resolution of their type.
    """
    if isinstance(distribution, Bernoulli | Categorical):
        return math.log(2 * torch.finfo(distribution.logits.dtype).eps)
    return -math.inf


def _is_index(distribution: Distribution) -> bool:
    """Whether what is drawn may be an index; all others draw real numbers."""
    for wrapped in ("base_dist", "component_distribution"):
        if hasattr(distribution, wrapped):
            return _is_index(getattr(distribution, wrapped))
    return isinstance(distribution, Categorical)


def _by_name(entries: Entries, flat: list[Tensor]) -> Values:
    """Results in the order of the entries -> an array [S, *any] per name.

    A name of which only some entries are there gets an array per entry.
    """
    rest, found = iter(flat), {}
    for name, parts in entries.items():
        arrays = {at: next(rest) for at in parts}
        try:
            found[name] = join_entries(arrays)
        except KeyError:
            found |= {f"{name}{list(at)}": array for at, array in arrays.items()}
    return found
