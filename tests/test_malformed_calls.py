"""Malformed calls end in an error that names the value, and never end the process."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.malformed_calls import Call, all_calls

pytestmark = pytest.mark.slow

CALLS = all_calls()
OURS = ("IndexError", "ValueError", "TypeError")
TORCHS = ("RuntimeError", "NotImplementedError", "AssertionError")
KINDS = (*OURS, *TORCHS, "returned", "crash")  # a crash fails its own test


def run_child(first: int, threads: int) -> tuple[list[str], int]:
    """The lines of a child that makes the calls from `first` on; its exit code."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    child = subprocess.run(
        [sys.executable, "-m", "tests.malformed_calls", str(first), str(threads)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root, "OMP_WAIT_POLICY": "passive"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return child.stdout.splitlines(), child.returncode


@pytest.fixture(scope="module", params=[1, 2], ids=["1 thread", "2 threads"])
def outcomes(request) -> dict[str, str]:
    """The outcome of every call by name; a child that dies is followed by another."""
    found: dict[str, str] = {}
    while len(found) < len(CALLS):
        lines, code = run_child(len(found), request.param)
        for line, call in zip(lines, CALLS[len(found) :], strict=False):
            name, _, outcome = line.partition(": ")
            assert name == call.name, line
            found[name] = outcome
        if code != 0:
            last = CALLS[min(len(found), len(CALLS) - 1)].name
            death = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            found[last] = f"crash: {death}"
    return found


def test_there_are_many_calls_of_different_names():
    assert len({call.name for call in CALLS}) == len(CALLS) >= 200


def wrong(outcomes: dict[str, str], right) -> str:
    """A line for each call whose outcome is not right."""
    lines = [
        f"{call.name}: {outcomes[call.name]}"
        for call in CALLS
        if not right(call, outcomes[call.name])
    ]
    return "\n".join([f"{len(lines)} of {len(CALLS)} calls:", *lines] if lines else [])


def kind(outcome: str) -> str:
    """The type of the error, "returned", "wrong numbers" or "crash"."""
    return re.split(":", outcome, maxsplit=1)[0]


def test_no_call_crashes(outcomes):
    assert not wrong(outcomes, lambda call, outcome: kind(outcome) != "crash")


def test_calls_are_rejected_or_compute_the_right_numbers(outcomes):
    assert not wrong(outcomes, lambda call, outcome: kind(outcome) in KINDS)


def test_wrong_indices_and_memory_get_our_own_errors(outcomes):
    def right(call: Call, outcome: str) -> bool:
        ours = kind(outcome) in OURS and outcome.endswith("[ours]")
        return ours or not call.ours or kind(outcome) == "crash"

    assert not wrong(outcomes, right)


def test_our_messages_name_the_value(outcomes):
    def named(call: Call, outcome: str) -> bool:
        return not outcome.endswith("[ours]") or "(got " in outcome

    assert not wrong(outcomes, named)
