"""Lightweight Metropolis-Hastings on programs (Wingate et al., 2011).

A step proposes one random choice x_i anew from its distribution given its parents, runs
the program with all others as they were, and accepts with probability

    min(1, p(x') p_i(x_i) / (p(x) p_i(x'_i)))

where p is the density of all choices and of what is given, and p_i that of choice i.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from gsdm_pyg.baselines.chains import Chains
from gsdm_pyg.baselines.density import check_program, check_whole
from gsdm_pyg.baselines.program_baseline import ProgramBaseline
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem
from gsdm_pyg.programs.random_state import seeded


class LMH(ProgramBaseline):
    """Single-site Metropolis-Hastings; all chains of all instances run together.

    The chains of an instance begin at draws from the prior. After the warm-up, samples
    are their states every `thin` steps, from each chain in turn.
    """

    name = "lmh"

    warmup: NonNegativeInt = 5000
    """Steps before the first sample, of one random choice each."""
    thin: PositiveInt = 100
    """Steps between two samples of a chain."""

    def draw(
        self,
        problem: Problem,
        values: Arrays,
        known: Arrays,
        num_samples: int,
        generator: torch.Generator,
    ) -> Mapping[str, Tensor]:
        program = check_program(problem)
        check_whole(problem, program, known)
        num = len(next(iter(known.values())))
        chains = min(self.chains, num_samples)
        values, known = (
            {name: array.repeat_interleave(chains, 0) for name, array in given.items()}
            for given in (values, known)
        )
        rounds = -(-num_samples // chains)
        with torch.no_grad(), seeded(generator):
            walkers = Chains(problem, program.log_prob, values, known, self.softness)
            walkers.walk(self.warmup)
            states = [walkers.values()]
            for _ in range(rounds - 1):
                walkers.walk(self.thin)
                states.append(walkers.values())
        return {
            name: torch.stack([state[name] for state in states], 1)  # [B * c, rounds]
            .unflatten(0, (num, chains))
            .transpose(1, 2)
            .flatten(1, 2)[:, :num_samples]
            for name in states[0]
        }
