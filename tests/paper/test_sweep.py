"""Sweeps: each job is done once, whoever is killed, fails or helps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from gsdm_pyg.files import write_file
from gsdm_pyg.paper.locks import owner_of, try_lock
from gsdm_pyg.paper.sweep import is_done, read_result, sweep, work
from tests.helpers import ROOT, STUCK, start
from tests.paper.figures import FakeJob

HOLD = """
import sys, time
from pathlib import Path
from gsdm_pyg.files import write_file
from gsdm_pyg.paper.locks import try_lock
with try_lock(Path(sys.argv[1])) as held:
    print(held, flush=True)
    time.sleep(600)
"""

SWEEP = """
import sys
from pathlib import Path
from gsdm_pyg.paper.sweep import sweep
from tests.paper.figures import FakeJob
jobs = [FakeJob(f"job-{i}", needs=f"job-{i - 1}" if i % 3 else "") for i in range(9)]
sweep(jobs, Path(sys.argv[1]), lanes=int(sys.argv[2]))
"""


def done(runs: Path) -> Counter[str]:
    """How often each fake job was begun."""
    return Counter((runs / "log.txt").read_text().split())


@pytest.fixture
def runs(tmp_path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def test_lock_has_one_owner_and_names_it(tmp_path):
    path = tmp_path / "some" / "job.lock"
    with try_lock(path) as first, try_lock(path) as second:
        assert (first, second) == (True, False)
        assert owner_of(path).startswith(f"process {os.getpid()} on ")
    with try_lock(path) as again:
        assert again
    assert owner_of(tmp_path / "none.lock") == "another process"


@pytest.mark.slow
def test_lock_of_a_process_that_is_killed_is_free(tmp_path):
    path = tmp_path / "job.lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    holder = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    assert holder.stdout.readline().strip() == b"True"
    with try_lock(path) as held:
        assert not held
    assert owner_of(path).startswith(f"process {holder.pid} ")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with try_lock(path) as held:
        assert held


def test_what_is_done_is_skipped(runs):
    jobs = [FakeJob("a"), FakeJob("b")]
    sweep(jobs, runs)
    result = read_result(jobs[0], runs)
    sweep([*jobs, FakeJob("c")], runs)
    assert done(runs) == {"a": 1, "b": 1, "c": 1}
    assert read_result(jobs[0], runs) == result


def test_jobs_with_one_key_are_done_once(runs):
    sweep([FakeJob("a"), FakeJob("a")], runs)
    assert done(runs) == {"a": 1}


def test_jobs_wait_for_what_they_need(runs):
    sweep([FakeJob("b", needs="a"), FakeJob("a")], runs)
    assert (runs / "log.txt").read_text().split() == ["a", "b"]


def test_failed_job_holds_up_only_those_that_need_it(runs, capsys):
    bad = FakeJob("bad", fails=True)
    jobs = [bad, FakeJob("needy", needs="bad"), FakeJob("good")]
    sweep(jobs, runs)
    assert [is_done(job, runs) for job in jobs] == [False, False, True]
    printed = capsys.readouterr()
    assert "fake bad: failed; the sweep goes on without it" in printed.out
    assert "it cannot be done (got this)" in printed.err
    sweep([FakeJob("bad"), *jobs[1:]], runs)  # tried again
    assert all(is_done(job, runs) for job in jobs)


def test_job_that_somebody_else_does_is_waited_for(runs, capsys):
    begun = threading.Event()

    def somebody_else() -> None:
        with try_lock(runs / "a.lock"):
            begun.set()
            time.sleep(0.5)
            write_file(runs / "a" / "result.json", b"{}")

    thread = threading.Thread(target=somebody_else)
    thread.start()
    begun.wait()
    work([FakeJob("a"), FakeJob("b")], runs)
    thread.join()
    assert done(runs) == {"b": 1}
    assert f"fake a: process {os.getpid()}" in capsys.readouterr().out


@pytest.mark.slow
def test_two_sweeps_of_two_lanes_at_once_do_each_job_once(runs, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"if __name__ == '__main__':\n    {_indented(SWEEP)}")
    processes = [start(script, runs, 2, cwd=tmp_path) for _ in range(2)]
    printed = [process.communicate(timeout=STUCK)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert done(runs) == {f"job-{i}": 1 for i in range(9)}
    results = [json.loads(p.read_text()) for p in runs.glob("*/result.json")]
    assert len(results) == 9
    assert len({result["pid"] for result in results}) > 1


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n    ")


@pytest.mark.slow
def test_sweep_whose_parent_is_killed_ends_after_the_job_it_is_in(runs, tmp_path):
    script = tmp_path / "script.py"
    many = SWEEP.replace("range(9)", "range(200)").replace("% 3", "% 1")
    script.write_text(f"if __name__ == '__main__':\n    {_indented(many)}")
    process = start(script, runs, 2, cwd=tmp_path)
    deadline = time.monotonic() + STUCK
    while not (runs / "log.txt").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    before, count = -1, 0
    while before < count:  # jobs of a tenth of a second each
        before, count = count, sum(done(runs).values())
        time.sleep(2)
    assert count < 100
    process.stdout.close()
