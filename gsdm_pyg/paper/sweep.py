"""Sweeps: do the jobs of a figure that are not done, in one process or in lanes."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from gsdm_pyg.files import write_file
from gsdm_pyg.paper.jobs import RESULT, Job, Result, Stopped
from gsdm_pyg.paper.locks import owner_of, try_lock
from gsdm_pyg.training.memory import keep_freed_memory

_POLL = 0.5  # seconds between two looks at what others do


def sweep(jobs: Sequence[Job], runs: Path, lanes: int = 1) -> None:
    """Do all jobs that are not done; several sweeps may share a folder.

    A job that fails is reported, and tried again by the next sweep. Signals stop the
    running jobs after a checkpoint and end the sweep.

    Args:
        jobs: The jobs; those that need others come after them.
        runs: The folder of their folders.
        lanes: Processes that take turns at the jobs and share the cores.
    """
    left = [job for job in jobs if not is_done(job, runs)]
    if lanes <= 1 or len(left) < 2:
        work(left, runs)
        return
    threads = str(max(1, (os.cpu_count() or 1) // lanes))
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = threads  # torch of the new processes reads it
    context = multiprocessing.get_context("spawn")
    try:
        processes = [
            context.Process(target=_lane, args=(left, runs)) for _ in range(lanes)
        ]
        for process in processes:
            process.start()
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
    try:
        for process in processes:
            process.join()
    except BaseException:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        raise


def _lane(jobs: Sequence[Job], runs: Path) -> None:
    """One process of a sweep; a terminal's Ctrl-C reaches its parent alone."""
    os.setpgid(0, 0)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    keep_freed_memory()
    try:
        work(jobs, runs)
    except Stopped as stopped:
        sys.exit(128 + stopped.signal)


def work(jobs: Sequence[Job], runs: Path) -> None:
    """Do the jobs that nobody else does, until none is left to do or to wait for."""
    failed, waited = set[str](), set[str]()
    while True:
        left = [j for j in jobs if j.key not in failed and not is_done(j, runs)]
        progress, busy = False, False
        for job in left:
            if _is_orphan():
                return
            lock = runs / f"{job.key}.lock"
            if not job.ready(runs) or is_done(job, runs) or job.key in failed:
                continue
            with try_lock(lock) as held:
                if held and not is_done(job, runs):
                    progress = True
                    if not _attempt(job, runs):
                        failed.add(job.key)
            if not held:
                busy = True
                if job.key not in waited:
                    waited.add(job.key)
                    print(f"{job.name}: {owner_of(lock)} does it", flush=True)
        if not left or not (progress or busy):
            return
        if not progress:
            time.sleep(_POLL)


def _is_orphan() -> bool:
    """Whether this is a lane of a sweep that was killed."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def is_done(job: Job, runs: Path) -> bool:
    """Whether a job has its result."""
    return (runs / job.key / RESULT).is_file()


def read_result(job: Job, runs: Path) -> Result:
    """The result of a job that is done."""
    result: Result = json.loads((runs / job.key / RESULT).read_text())
    return result


def _attempt(job: Job, runs: Path) -> bool:
    """Do one job and write its result; whether that worked."""
    print(f"== {job.name}", flush=True)
    try:
        result = job.run(runs)
    except Exception:
        traceback.print_exc()
        print(f"{job.name}: failed; the sweep goes on without it", flush=True)
        return False
    write_file(runs / job.key / RESULT, json.dumps(result).encode())
    return True
