"""Random streams by purpose: randomness is an argument, never global state."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def as_seed(generator: torch.Generator | int | None) -> int:
    """An integer as it is; a number from a generator, by default torch's global one."""
    if generator is None or isinstance(generator, torch.Generator):
        device = generator.device if generator is not None else None
        return int(torch.randint(2**62, (), generator=generator, device=device))
    is_integer = isinstance(generator, int | np.integer)
    if is_integer and not isinstance(generator, bool) and generator >= 0:
        return int(generator)
    raise TypeError(
        "generator must be a torch.Generator, or an integer of at least 0 as a seed "
        f"(got {generator!r})."
    )


def keyed_generator(purpose: str, *key: int) -> torch.Generator:
    """A generator whose stream depends on the purpose and the key alone."""
    entropy = [zlib.crc32(purpose.encode()), len(key), *key]
    state = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state >> 1)
