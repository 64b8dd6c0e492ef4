"""Jobs: their order, their places, how they are canceled, and that few may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gsdm_pyg.workbench.jobs import Job, JobCanceled, JobQueue, QueueFull


@asynccontextmanager
async def queue_of(most_waiting: int) -> AsyncIterator[JobQueue]:
    queue = JobQueue(most_waiting)
    try:
        yield queue
    finally:
        await asyncio.to_thread(queue.close)


async def read(job: Job) -> list[dict]:
    return [event async for event in job.events()]


def test_jobs_run_in_their_order_and_wait_until_it_is_their_turn():
    async def scenario() -> None:
        order, go = [], threading.Event()

        def work(name):
            def run(job: Job) -> None:
                go.wait(5)
                order.append(name)
                job.publish({"event": "done", "name": name})

            return run

        async with queue_of(5) as queue:
            jobs = [Job(work(name)) for name in "abc"]
            for job in jobs:
                queue.submit(job)
            waiting = await anext(aiter(jobs[2].events()))
            assert waiting["event"] == "waiting" and waiting["ahead"] in (1, 2)
            go.set()
            ends = [(await read(job))[-1]["name"] for job in jobs]
        assert ends == order == ["a", "b", "c"]

    asyncio.run(scenario())


def test_few_jobs_may_wait_and_a_canceled_one_makes_place():
    async def scenario() -> None:
        go, begun = threading.Event(), threading.Event()

        def hold(job: Job) -> None:
            begun.set()
            go.wait(5)

        async with queue_of(2) as queue:
            queue.submit(Job(hold))
            await asyncio.to_thread(begun.wait, 5)
            first, second = Job(hold), Job(hold)
            queue.submit(first)
            queue.submit(second)
            with pytest.raises(QueueFull, match=r"busy.*got 2 requests"):
                queue.submit(Job(hold))
            queue.cancel(first)
            queue.submit(Job(hold))
            go.set()

    asyncio.run(scenario())


def test_a_canceled_job_stops_at_its_next_event_and_the_next_one_begins():
    async def scenario() -> None:
        begun, stopped = threading.Event(), threading.Event()

        def endless(job: Job) -> None:
            try:
                while True:
                    job.publish({"event": "estimate"})
                    begun.set()
            except JobCanceled:
                stopped.set()
                raise

        async with queue_of(2) as queue:
            long = Job(endless)
            queue.submit(long)
            await asyncio.to_thread(begun.wait, 5)
            other = Job(lambda job: job.publish({"event": "done"}))
            queue.submit(other)
            queue.cancel(long)
            assert (await read(other))[-1] == {"event": "done"}
            assert stopped.is_set()

    asyncio.run(scenario())


def test_a_slow_reader_gets_the_newest_event_and_the_last():
    async def scenario() -> None:
        ended = threading.Event()

        def work(job: Job) -> None:
            for i in range(1000):
                job.publish({"event": "estimate", "i": i})
            job.publish({"event": "done"})
            ended.set()

        async with queue_of(1) as queue:
            job = Job(work)
            queue.submit(job)
            await asyncio.to_thread(ended.wait, 30)
            found = await read(job)
        assert found == [{"event": "done"}]

    asyncio.run(scenario())


def test_closing_the_queue_ends_a_job_that_runs():
    async def scenario() -> threading.Event:
        stopped, begun = threading.Event(), threading.Event()

        def endless(job: Job) -> None:
            begun.set()
            try:
                while True:
                    job.check_wanted()
            finally:
                stopped.set()

        async with queue_of(1) as queue:
            queue.submit(Job(endless))
            await asyncio.to_thread(begun.wait, 5)
        return stopped

    assert asyncio.run(scenario()).is_set()
