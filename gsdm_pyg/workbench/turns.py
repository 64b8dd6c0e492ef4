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
        self._waiting = threading.Event()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, which lasts until the end of the block."""
        self._waiting.set()
        with self._lock:
            self._waiting.clear()
            yield

    def let_others_in(self) -> None:
        """Within a turn: let somebody who waits have one first."""
        if self._waiting.is_set():
            self._lock.release()
            time.sleep(_PAUSE)
            self._lock.acquire()
