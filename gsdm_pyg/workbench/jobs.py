"""Jobs: one after the other on one thread, a bounded number waiting, any canceled."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

logger = logging.getLogger("gsdm_pyg")

MOST_CHARACTERS = 300  # of a message

Event = dict[str, Any]


class JobCanceled(Exception):
    """Nobody waits for the result any more."""


class QueueFull(Exception):
    """As many jobs are waiting as may wait."""


def message_of(error: Exception) -> str:
    """What the page says of an error: its first line, if that is not too long."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:MOST_CHARACTERS]


class Job:
    """Work for somebody who follows its events; made on the event loop.

    Only the newest event is kept: a slow reader skips some, and memory stays bounded.

    Args:
        work: Called with the job on the thread of the queue. It calls `publish`, of
            which the last event is the result.
    """

    def __init__(self, work: Callable[[Job], None]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._newest: Event | None = None
        self._canceled = threading.Event()
        self._ended = False

    def publish(self, event: Event) -> None:
        """Show an event to the reader; raises `JobCanceled` if there is none."""
        self.check_wanted()
        self._set(event)

    def check_wanted(self) -> None:
        """Raise `JobCanceled` if nobody reads the events any more."""
        if self._canceled.is_set():
            raise JobCanceled

    def cancel(self) -> None:
        self._canceled.set()

    def run(self) -> None:
        """Do the work; what fails becomes the last event."""
        try:
            self.check_wanted()
            self._work(self)
        except JobCanceled:
            pass
        except (ValueError, TypeError) as error:  # what was asked for is wrong
            self._set({"event": "error", "message": message_of(error)})
        except Exception as error:
            logger.exception("A job of the workbench failed")
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            message = f"The computation failed; the terminal has more (got {reason})."
            self._set({"event": "error", "message": message})
        self._ended = True
        self._wake()

    async def events(self) -> AsyncIterator[Event]:
        """The events as they come, until the job ends."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            ended, event, self._newest = self._ended, self._newest, None
            if event is not None:
                yield event
            if ended:
                return

    def _set(self, event: Event) -> None:
        self._newest = event
        self._wake()

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)


class JobQueue:
    """A thread that runs jobs in their order.

    Args:
        most_waiting: How many jobs may wait besides the one that runs.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting: deque[Job] = deque()
        self._condition = threading.Condition()
        self._running: Job | None = None
        self._closed = False
        self._thread = threading.Thread(
            target=self._run, name="workbench jobs", daemon=True
        )
        self._thread.start()

    def check_place(self) -> None:
        """Raise `QueueFull` if one more job could not wait."""
        if len(self._waiting) >= self._most_waiting:
            raise QueueFull(
                "The workbench is busy: try again in a few seconds "
                f"(got {len(self._waiting)} requests that wait already)."
            )

    def submit(self, job: Job) -> None:
        """Add a job at the end, or raise `QueueFull`."""
        with self._condition:
            self.check_place()
            self._waiting.append(job)
            self._tell_places()
            self._condition.notify()

    def cancel(self, job: Job) -> None:
        """End a job that runs, and remove one that waits."""
        job.cancel()
        with self._condition:
            if job in self._waiting:
                self._waiting.remove(job)
                self._tell_places()

    def close(self) -> None:
        """Cancel all jobs and end the thread."""
        with self._condition:
            self._closed = True
            for job in (*self._waiting, *([self._running] if self._running else ())):
                job.cancel()
            self._waiting.clear()
            self._condition.notify()
        self._thread.join(timeout=5)

    def _tell_places(self) -> None:
        """Tell each waiting job how many are before it."""
        running = self._running is not None
        for place, job in enumerate(self._waiting):
            try:
                job.publish({"event": "waiting", "ahead": place + running})
            except JobCanceled:
                continue

    def _run(self) -> None:
        while True:
            with self._condition:
                self._running = None
                while not self._waiting and not self._closed:
                    self._condition.wait()
                if self._closed:
                    return
                self._running = self._waiting.popleft()
                self._tell_places()
            self._running.run()
