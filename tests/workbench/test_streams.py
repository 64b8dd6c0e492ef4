"""Several clients with real connections: streams, cancel, and a queue with an end."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from gsdm_pyg.workbench import server
from gsdm_pyg.workbench.answers import Limits
from gsdm_pyg.workbench.jobs import JobQueue
from tests.helpers import STUCK
from tests.workbench.asking import SAMPLE, events, read_events, refusal, served


@pytest.fixture
def held(bcmf, monkeypatch):
    """Sampling waits before each evaluation until it is let go; counts evaluations."""
    go, seen = threading.Event(), []
    sample = bcmf.model.sample

    def held_sample(*arguments, on_estimate, **named):
        def hold(rows, x):
            seen.append(rows)
            on_estimate(rows, x)
            go.wait(0.05)

        return sample(*arguments, on_estimate=hold, **named)

    monkeypatch.setattr(bcmf.model, "sample", held_sample)
    yield go, seen
    go.set()


@pytest.fixture
def client():
    """Requests that end with the test, however slow the machine is."""
    with httpx.Client(timeout=STUCK) as client:
        yield client


def test_two_clients_at_once_get_what_each_would_get_alone(client, bcmf):
    with served(bcmf) as url:

        def ask(seed: int) -> list:
            question = {**SAMPLE, "seed": seed, "steps": 30}
            response = client.post(f"{url}/api/sample", json=question)
            return events(response.text)[-1]["values"]

        alone = [ask(seed) for seed in range(4)]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(ask, range(4)))
    assert together == alone
    assert alone[0] != alone[1]


def test_who_stops_reading_cancels_and_the_next_one_is_served(client, bcmf, held):
    _, seen = held
    with served(bcmf) as url:
        question = {**SAMPLE, "steps": 400}
        with client.stream("POST", f"{url}/api/sample", json=question) as response:
            for event in read_events(response.iter_lines()):
                if event["event"] == "estimate":
                    break
        # The stream is closed here, after few of 400 evaluations.
        question = {**SAMPLE, "steps": 2}
        response = client.post(f"{url}/api/sample", json=question)
    assert events(response.text)[-1]["event"] == "done"
    assert len(seen) < 60


def test_solving_is_canceled_like_sampling(client, impossible, monkeypatch):
    evaluated, solve = [], impossible.model.solve

    def held_solve(*arguments, on_estimate, **named):
        def hold(rows, x):
            evaluated.append(rows)
            on_estimate(rows, x)
            time.sleep(0.02)

        return solve(*arguments, on_estimate=hold, **named)

    monkeypatch.setattr(impossible.model, "solve", held_solve)
    question = {"solve": True, "steps": 400, "num_samples": 4}
    with served(impossible) as url:
        with client.stream("POST", f"{url}/api/sample", json=question) as response:
            seen = read_events(response.iter_lines())
            assert next(e for e in seen if e["event"] == "estimate")["total"] is None
        client.post(f"{url}/api/sample", json={"steps": 2})
    assert len(evaluated) < 2000  # of 32 tries of 400 steps


def test_more_requests_than_may_wait_are_told_to_come_back(client, bcmf, held):
    go, _ = held
    with served(bcmf, Limits(waiting=2)) as url, ThreadPoolExecutor(6) as pool:

        def ask(seed: int) -> httpx.Response:
            question = {"seed": seed, "steps": 200}
            return client.post(f"{url}/api/sample", json=question)

        asked = [pool.submit(ask, seed) for seed in range(6)]
        for _ in range(50 * STUCK):
            refused = [answer for answer in asked if answer.done()]
            if len(refused) == 3:  # one runs, two wait
                break
            time.sleep(0.02)
        go.set()
        responses = [answer.result() for answer in asked]
    codes = sorted(response.status_code for response in responses)
    assert codes[:3] == [200] * 3 and codes[-1] == 503
    for response in responses:
        if response.status_code == 503:
            assert "The workbench is busy" in refusal(response, 503)
        else:
            assert events(response.text)[-1]["event"] == "done"


@pytest.mark.parametrize("waiting", [Limits().waiting, 8])
def test_twenty_clients_at_once_are_all_answered(client, bcmf, monkeypatch, waiting):
    lengths: list[int] = []

    class Watched(JobQueue):
        def _tell_places(self):  # called whenever the queue has changed
            super()._tell_places()
            lengths.append(len(self._waiting))

    monkeypatch.setattr(server, "JobQueue", Watched)
    together = threading.Barrier(20, timeout=STUCK)
    with served(bcmf, Limits(waiting=waiting)) as url, ThreadPoolExecutor(20) as pool:

        def ask(seed: int) -> tuple[list, int]:
            question = {**SAMPLE, "seed": seed, "steps": 5}
            together.wait()
            for refused in range(100 * STUCK):
                response = client.post(f"{url}/api/sample", json=question)
                if response.status_code == 200:
                    return events(response.text), refused
                assert "try again in a few seconds" in refusal(response, 503)
                time.sleep(0.01)
            raise AssertionError("never answered")

        answers = list(pool.map(ask, range(20)))
    assert [found[-1]["event"] for found, _ in answers] == ["done"] * 20
    assert len({str(found[-1]["values"]) for found, _ in answers}) == 20  # each its own
    assert max(lengths) <= waiting
    if waiting > 20:
        assert not any(refused for _, refused in answers)


def test_two_requests_are_parsed_at_once_and_no_more(client, bcmf, monkeypatch):
    both, lock, inside, most = (
        threading.Barrier(2, timeout=STUCK),
        threading.Lock(),
        0,
        0,
    )
    read_json = server.read_json

    def counted(body: bytes) -> dict:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        both.wait()
        content = read_json(body)
        with lock:
            inside -= 1
        return content

    monkeypatch.setattr(server, "read_json", counted)
    with served(bcmf) as url, ThreadPoolExecutor(6) as pool:

        def ask(seed: int) -> httpx.Response:
            return client.post(f"{url}/api/sample", json={"seed": seed, "steps": 2})

        responses = list(pool.map(ask, range(6)))
    assert [response.status_code for response in responses] == [200] * 6
    assert most == 2


def test_who_waits_is_told_how_many_are_before(client, bcmf, held):
    long, short = {"steps": 400}, {"steps": 2}
    with (
        served(bcmf) as url,
        client.stream("POST", f"{url}/api/sample", json=long) as first,
    ):
        seen = read_events(first.iter_lines())
        assert next(e for e in seen if e["event"] != "waiting")
        with client.stream("POST", f"{url}/api/sample", json=short) as second:
            waiting = next(read_events(second.iter_lines()))
    assert waiting == {"event": "waiting", "ahead": 1}


def test_the_server_ends_while_somebody_reads(client, bcmf, held):
    with served(bcmf) as url:
        stream = client.stream("POST", f"{url}/api/sample", json={"steps": 400})
        response = stream.__enter__()
        next(read_events(response.iter_lines()))
    assert len(held[1]) < 400  # it did not wait for the answer
    stream.__exit__(None, None, None)


def test_a_body_that_never_arrives_does_not_hold_a_place(client, bcmf, monkeypatch):
    monkeypatch.setattr("gsdm_pyg.workbench.server._BODY_SECONDS", 0.2)

    def slow():
        yield b"{"
        time.sleep(1)
        yield b"}"

    headers = {"Content-Type": "application/json"}
    with served(bcmf) as url:
        response = client.post(f"{url}/api/sample", content=slow(), headers=headers)
    assert "did not arrive in time" in refusal(response, 408)
