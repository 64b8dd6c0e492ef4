"""Turns: never two at once, and a long one lets others in."""

from __future__ import annotations

import threading
import time

from gsdm_pyg.workbench.turns import Turns


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

    threads = [threading.Thread(target=take_turns) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 60


def test_all_who_wait_are_let_in():
    turns, entered = Turns(), []

    def wait_for_a_turn() -> None:
        with turns.turn():
            entered.append(1)
            while len(entered) < 2:  # the first one lets the second one in
                turns.let_others_in()

    threads = [threading.Thread(target=wait_for_a_turn) for _ in range(2)]
    with turns.turn():
        for thread in threads:
            thread.start()
        while turns._num_waiting < 2:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert entered == [1, 1]


def test_a_long_turn_lets_others_in():
    turns, begun, done = Turns(), threading.Event(), threading.Event()

    def long() -> None:
        with turns.turn():
            begun.set()
            end = time.perf_counter() + 30
            while not done.is_set() and time.perf_counter() < end:
                turns.let_others_in()

    thread = threading.Thread(target=long)
    thread.start()
    begun.wait(5)
    with turns.turn():
        done.set()
    thread.join(60)
    assert done.is_set()
