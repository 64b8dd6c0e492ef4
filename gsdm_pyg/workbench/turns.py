"""Turns: code of a problem runs on one thread at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSE = 0.01  # seconds, in which a thread that waits takes over


class Turns:
    """A lock that whoever holds it for long lends to others in between.

    Problems need not bear two threads at once: programs, for one, draw from torch's
    global generator.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._num_waiting = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, which lasts until the end of the block."""
        self._count(+1)
        with self._lock:
            self._count(-1)
            yield

    def let_others_in(self) -> None:
        """Within a turn: let somebody who waits have one first."""
        if self._num_waiting:
            self._lock.release()
            time.sleep(_PAUSE)
            self._lock.acquire()

    def _count(self, change: int) -> None:
        with self._counting:
            self._num_waiting += change
