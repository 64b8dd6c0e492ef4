"""Turns: never two at once, and a long one lets others in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gsdm_pyg.workbench.turns import Turns
from tests.helpers import STUCK

MOST = 1000  # times that a turn is lent before the test gives up


def until(condition: Callable[[], object]) -> bool:
    """Wait for something that other threads do; false if they never do."""
    for _ in range(100 * STUCK):
        if condition():
            return True
        time.sleep(0.01)
    return False


def started(work: Callable[[], None], count: int) -> list[threading.Thread]:
    """Threads that do not hold up the end of the tests."""
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def finish(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(STUCK)
        assert not thread.is_alive()


def test_no_two_threads_are_at_work_at_once():
    turns, at_work, most = Turns(), [], []

    def work() -> None:
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.001)
        at_work.pop()

    def take_turns() -> None:
        for _ in range(10):
            with turns.turn():
                work()
                turns.let_others_in()
                work()

    finish(started(take_turns, 3))
    assert most == [1] * 60


def lend_until(turns: Turns, condition: Callable[[], bool]) -> bool:
    """Within a turn, lend it until others have done something."""
    for _ in range(MOST):
        if condition():
            return True
        turns.let_others_in()
    return False


def test_all_who_wait_are_let_in():
    turns, entered, met = Turns(), [], []

    def wait_for_a_turn() -> None:
        with turns.turn():
            entered.append(1)
            # The first one lets the second one in.
            met.append(lend_until(turns, lambda: len(entered) == 2))

    with turns.turn():
        threads = started(wait_for_a_turn, 2)
        assert until(lambda: turns._num_waiting == 2)
    finish(threads)
    assert met == [True, True]


def test_a_long_turn_lets_others_in():
    turns, begun, done, lent = Turns(), threading.Event(), threading.Event(), []

    def long() -> None:
        with turns.turn():
            begun.set()
            until(lambda: turns._num_waiting)
            lent.append(lend_until(turns, done.is_set))

    threads = started(long, 1)
    assert begun.wait(STUCK)
    with turns.turn():
        done.set()
    finish(threads)
    assert lent == [True]
