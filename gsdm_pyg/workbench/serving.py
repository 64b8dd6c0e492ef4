"""Serving the workbench on an address until Ctrl-C."""

from __future__ import annotations

import socket

import uvicorn

from gsdm_pyg.workbench.answers import Limits
from gsdm_pyg.workbench.server import make_app
from gsdm_pyg.workbench.subject import Subject

MOST_CONNECTIONS = 200  # more are told to come back later


def serve(subject: Subject, host: str, port: int) -> None:
    """Answer the page at http://host:port; port 0 takes a free one."""
    listening = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    port = listening.getsockname()[1]
    print(f"http://{name}:{port}  (Ctrl-C ends it)", flush=True)
    make_server(subject, host).run([listening])


def make_server(
    subject: Subject, host: str, limits: Limits = Limits()
) -> uvicorn.Server:
    """A server of the workbench; `run` takes the sockets to listen at."""
    config = uvicorn.Config(
        make_app(subject, host, limits),
        log_level="warning",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address; the error of one that is taken names the fix."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ValueError(
            "The workbench cannot listen there: choose another --port, or 0 for a free "
            f"one, and a --host of this machine (got {host}:{port}: {error.strerror})."
        ) from error
