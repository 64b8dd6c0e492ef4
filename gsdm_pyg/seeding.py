"""Random streams by purpose: randomness is an argument, never global state."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def keyed_generator(purpose: str, *key: int) -> torch.Generator:
    """A generator whose stream depends on the purpose and the key alone."""
    entropy = [zlib.crc32(purpose.encode()), len(key), *key]
    state = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state >> 1)
