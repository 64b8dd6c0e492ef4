"""What tests ask of the server, and the events that it answers with."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.testclient import TestClient

from gsdm_pyg.workbench.answers import Limits
from gsdm_pyg.workbench.server import make_app
from gsdm_pyg.workbench.serving import listen, make_server
from gsdm_pyg.workbench.subject import Subject

SAMPLE = {"given": {"E": [0.1, None, 0.3, None, None, 1.2]}, "num_samples": 2}


@contextmanager
def client_of(
    subject: Subject, host: str = "127.0.0.1", limits: Limits = Limits()
) -> Iterator[TestClient]:
    app = make_app(subject, host, limits)
    with TestClient(app, base_url=f"http://{host}:8765") as client:
        yield client


@contextmanager
def served(subject: Subject, limits: Limits = Limits()) -> Iterator[str]:
    """The address of a server on a thread of its own, with real connections."""
    listening = listen("127.0.0.1", 0)
    server = make_server(subject, "127.0.0.1", limits)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def read_events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The events of a stream as they come."""
    for line in lines:
        if line:
            yield json.loads(line.removeprefix("data: "))


def events(text: str) -> list[dict[str, Any]]:
    """The events of a stream that has ended."""
    return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n")[:-1]]


def refusal(response: httpx.Response, status: int) -> str:
    """The one sentence that says why the server refused."""
    assert response.status_code == status, response.text
    content = response.json()
    assert list(content) == ["error"]
    assert len(content["error"].splitlines()) == 1
    return content["error"]
