"""Clocks: what measures the work that a device does for this process."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def clock_of(device: torch.device) -> Callable[[], float]:
    """Seconds that this process computes, over its threads; on a GPU the wall's."""
    return time.process_time if device.type == "cpu" else time.monotonic


def clock_name(device: torch.device) -> str:
    """The name of that clock, as `trainer.clock` has it."""
    return "processor" if device.type == "cpu" else "wall"
