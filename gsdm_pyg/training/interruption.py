"""Interrupted runs: SIGTERM and Ctrl-C end training after its current step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning as L

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTICE = b"\nStopping after this step; once more stops at once.\n"


class StopOnSignal(L.Callback):
    """Stops training at the end of the batch in which a signal came.

    All processes that train together stop at the same step, whichever of them the
    signal reached. A second signal has its usual effect, at once.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None  # what stopped training
        self._received: signal.Signals | None = None  # in this process
        self._handlers: dict[signal.Signals, Any] = {}  # of the caller

    @contextmanager
    def restored_handlers(self) -> Iterator[None]:
        """After the block, signals are handled as before; Lightning may forget it."""
        main = threading.current_thread() is threading.main_thread()
        self.signal = self._received = None
        self._handlers = {s: signal.getsignal(s) for s in _SIGNALS} if main else {}
        try:
            yield
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Replace Lightning's handlers: its own ends the process without a word."""
        if trainer.received_sigterm:  # while it was setting up
            self._received = signal.SIGTERM
            self._repeat(signal.SIGTERM)
        for number in self._handlers:
            signal.signal(number, self._note)

    def on_train_batch_end(self, trainer: L.Trainer, *details: Any) -> None:
        trainer.should_stop |= self.requested(trainer)

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        trainer.should_stop |= self.requested(trainer)

    def requested(self, trainer: L.Trainer) -> bool:
        """Whether to stop; all processes ask together and get the same answer."""
        if self.signal is None:
            agree = trainer.strategy.reduce_boolean_decision
            if agree(self._received is not None, all=False):
                terminated = agree(self._received is signal.SIGTERM, all=False)
                self.signal = signal.SIGTERM if terminated else signal.SIGINT
        return self.signal is not None

    def _note(self, number: int, frame: Any) -> None:
        if self._received is not None:
            self._repeat(signal.Signals(number))
            return
        self._received = signal.Signals(number)
        os.write(2, _NOTICE)  # printing is not safe inside a handler

    def _repeat(self, number: signal.Signals) -> None:
        signal.signal(number, self._handlers.get(number, signal.SIG_DFL))
        signal.raise_signal(number)


def ignore_interrupts(worker: int) -> None:
    """For processes that load data: Ctrl-C reaches them too, and is not for them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
