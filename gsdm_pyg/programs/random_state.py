"""Distributions draw from torch's global generator: lend it a stream for a while."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gsdm_pyg.programs.errors import ProgramError


@contextmanager
def seeded(generator: torch.Generator | None) -> Iterator[None]:
    """Draw from the generator, and leave the global one as it was.

    Without a generator the global one is used, as torch's own functions do.
    """
    if generator is None:
        yield
        return
    if generator.device.type != "cpu":
        raise ValueError(
            "Programs draw on the CPU: pass torch.Generator() "
            f"(got a generator on {generator.device})."
        )
    state = torch.random.get_rng_state()
    torch.random.set_rng_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(torch.random.get_rng_state())
        torch.random.set_rng_state(state)


@contextmanager
def only_torch_draws() -> Iterator[None]:
    """Reject random numbers of others, which are constants to torch.

    Only the global generators of Python and NumPy can be seen.
    """
    before = pickle.dumps((random.getstate(), np.random.get_state()))
    yield
    if before != pickle.dumps((random.getstate(), np.random.get_state())):
        raise ProgramError(
            "A program draws by torch alone: random numbers of Python and NumPy would "
            "be constants of its graph, and one for all instances of a batch (got a "
            "draw by random or numpy.random)."
        )


@contextmanager
def no_new_seed() -> Iterator[None]:
    """Reject a program that seeds torch."""
    seed = torch.initial_seed()
    yield
    if seed != torch.initial_seed():
        raise ProgramError(
            "A program does not seed torch, or all of its draws were the same: pass a "
            "generator to sample() instead (got a call of torch.manual_seed)."
        )
