"""Distributions draw from torch's global generator: lend it a stream for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
