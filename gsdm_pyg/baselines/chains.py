"""Markov chains on the random choices of a program, all stepping together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from gsdm_pyg.baselines.density import (
    Conditioned,
    Key,
    Softness,
    classes_of,
    joined,
    known_entry,
    run_program,
)
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem
from gsdm_pyg.programs.draw import can_vectorize
from gsdm_pyg.programs.vectorized import draw_vectorized, vectorizing

_BLOCK = 1000  # steps whose choices are drawn at once


class State(NamedTuple):
    """What a run of the program tells, of each chain."""

    values: dict[Key, Tensor]  # [chains, *shape]
    log_prob: dict[Key, Tensor]  # of each draw, [chains, *sites of it]
    likelihood: Tensor  # log, of determined values and conditions, [chains]


class Chains:
    """The states of several chains, which step together.

    Args:
        problem: The problem.
        sites: A tensor in the shape of each draw's log-probability.
        values: What is given, [chains, *shape] per variable.
        known: Which entries are given, likewise.
        softness: What determined values and conditions are worth.
    """

    def __init__(
        self,
        problem: Problem,
        sites: Mapping[Key, Tensor],
        values: Arrays,
        known: Arrays,
        softness: Softness,
    ) -> None:
        self.sites = sites
        self.num = num = len(next(iter(known.values())))
        free = [  # of each draw, which of its sites are not given
            ~known_entry(known, key).reshape(num, log_prob.numel(), -1)[..., 0]
            for key, log_prob in sites.items()
        ]
        self.free = torch.cat([torch.zeros(num, 0, dtype=torch.bool), *free], 1)
        self._run = _Runs(problem, values, known, softness)
        self.state = self._run({}, {})

    def values(self) -> dict[str, Tensor]:
        """All variables of the program, [chains, *shape]."""
        return joined(self.state.values)

    def walk(self, steps: int) -> None:
        """Make that many steps."""
        movable = self.free.any(1)
        if not movable.any():
            return
        weights = torch.where(movable[:, None], self.free, True).double()
        for first in range(0, steps, _BLOCK):
            size = min(_BLOCK, steps - first)
            choices = torch.multinomial(weights, size, replacement=True)
            levels = torch.rand(self.num, size).log()
            for choice, level in zip(choices.T, levels.T, strict=True):
                self._step(choice, level)

    def _step(self, choice: Tensor, level: Tensor) -> None:
        """Propose one site of each chain [chains], accept at a log-level [chains]."""
        chosen = torch.zeros_like(self.free)
        chosen[torch.arange(self.num), choice] = True
        chosen &= self.free  # chains of which everything is given stay
        old, new = self.state, self._run(self.state.values, self._by_draw(chosen))
        p_old, p_new = self._density(old, chosen), self._density(new, chosen)
        # Between states of density 0 any move is accepted. A NaN density, with which a
        # chain may begin, is left like a density of 0 and is never moved to.
        p_old = torch.where(p_old.isnan(), -torch.inf, p_old)
        accepted = (level < p_new - p_old) | (p_old.isneginf() & p_new.isneginf())

        def choose(after: Tensor, before: Tensor) -> Tensor:
            each = accepted.view(-1, *[1] * (after.dim() - 1))
            return torch.where(each, after, before)

        self.state = State(
            {key: choose(new.values[key], old.values[key]) for key in new.values},
            {key: choose(new.log_prob[key], old.log_prob[key]) for key in new.log_prob},
            choose(new.likelihood, old.likelihood),
        )

    def _density(self, state: State, chosen: Tensor) -> Tensor:
        """The log-density without that of the chosen sites, [chains]."""
        each = [value.reshape(self.num, -1) for value in state.log_prob.values()]
        return state.likelihood + torch.cat(each, 1).masked_fill(chosen, 0.0).sum(1)

    def _by_draw(self, chosen: Tensor) -> dict[Key, Tensor]:
        """Booleans [chains, sites] -> [chains, *sites of a draw] of each draw."""
        parts = chosen.split([site.numel() for site in self.sites.values()], 1)
        return {
            key: part.reshape(self.num, *site.shape)
            for (key, site), part in zip(self.sites.items(), parts, strict=True)
        }


class _Proposer(Conditioned):
    """Draws the chosen sites anew, and takes the others from a state, if there is one.

    Args:
        state: The values of all draws before.
        chosen: Which sites of each draw to draw anew.
        vectorized: Whether this runs under vmap.
        arguments: Those of `Conditioned`.
    """

    def __init__(
        self,
        state: Mapping[Key, Tensor],
        chosen: Mapping[Key, Tensor],
        vectorized: bool,
        *arguments: Any,
    ) -> None:
        super().__init__(*arguments)
        self.state, self.chosen, self.vectorized = state, chosen, vectorized

    def propose(self, key: Key, prior: Distribution, shape: torch.Size) -> Tensor:
        draw = draw_vectorized if self.vectorized else type(prior).sample
        fresh = draw(prior, shape)
        if not self.state:
            return fresh
        chosen = self.chosen[key]
        chosen = chosen.view((*chosen.shape, *[1] * (fresh.dim() - chosen.dim())))
        return torch.where(chosen, fresh, self.state[key])


class _Runs:
    """Runs the program of all chains, at once if torch can vectorize it.

    Args:
        problem: The problem.
        values: What is given, [chains, *shape] per variable.
        known: Which entries are given, likewise.
        softness: What determined values and conditions are worth.
    """

    def __init__(
        self, problem: Problem, values: Arrays, known: Arrays, softness: Softness
    ) -> None:
        self.problem, self.softness = problem, softness
        self.values, self.known = dict(values), dict(known)
        self.classes = classes_of(problem)
        self.vectorized = can_vectorize(problem.program, str(problem))

    def __call__(
        self, state: Mapping[Key, Tensor], chosen: Mapping[Key, Tensor]
    ) -> State:
        """From a state of the chains, with the chosen sites drawn anew."""
        arrays: Any = (dict(state), dict(chosen), self.values, self.known)
        if self.vectorized:
            with vectorizing():
                return torch.func.vmap(self._one, randomness="different")(*arrays)

        def of_chain(i: int) -> Any:
            return ({key: part[i] for key, part in array.items()} for array in arrays)

        num = len(next(iter(self.known.values())))
        runs = [self._one(*of_chain(i)) for i in range(num)]
        return State(
            {key: torch.stack([run.values[key] for run in runs]) for key in runs[0][0]},
            {key: torch.stack([r.log_prob[key] for r in runs]) for key in runs[0][1]},
            torch.stack([run.likelihood for run in runs]),
        )

    def _one(self, state: Any, chosen: Any, values: Arrays, known: Arrays) -> State:
        """The run of one chain."""
        given = values, known, self.classes, self.softness
        handler = _Proposer(state, chosen, self.vectorized, *given)
        run_program(self.problem, handler)
        likelihood = torch.as_tensor(handler.likelihood)
        return State(handler.values, handler.log_prob, likelihood)
