"""The server of the workbench: a page, what it shows, and a stream per sample."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gsdm_pyg.workbench.answers import Limits, answer
from gsdm_pyg.workbench.description import describe
from gsdm_pyg.workbench.draws import draw_instance
from gsdm_pyg.workbench.graph_view import view_graph
from gsdm_pyg.workbench.guards import OwnPagesOnly
from gsdm_pyg.workbench.jobs import Job, JobQueue, QueueFull, message_of
from gsdm_pyg.workbench.subject import Subject
from gsdm_pyg.workbench.training_log import find_picture, read_training
from gsdm_pyg.workbench.values import BadRequest, read_json

STATIC = Path(__file__).parent / "static"
MOST_BYTES = 4 * 2**20  # of a request
_SMALL = 4096  # bytes of all that a request says besides values
_BYTES_PER_NODE = 32  # of a value; a number in JSON has at most 25 characters
_MOST_PARSED = 2  # requests at the same time
_BODY_SECONDS = 10  # for a request to arrive whole

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(
    subject: Subject, host: str = "127.0.0.1", limits: Limits = Limits()
) -> Starlette:
    """The application that answers the page.

    Args:
        subject: What it shows.
        host: The address that it is served at, see `OwnPagesOnly`.
        limits: How much work one request, and all together, may ask for.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.jobs = JobQueue(limits.waiting)
        app.state.parsing = asyncio.Semaphore(_MOST_PARSED)
        app.state.drawing = asyncio.Lock()
        app.state.reading = asyncio.Lock()
        try:
            yield
        finally:
            app.state.jobs.close()

    graph_of_subject = cache(partial(view_graph, subject))
    most_bytes = min(MOST_BYTES, _SMALL + _BYTES_PER_NODE * subject.graph.num_nodes)

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def problem(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(describe, subject, limits.samples))

    async def graph(request: Request) -> Response:
        async with request.app.state.drawing:
            return JSONResponse(await run_in_threadpool(graph_of_subject))

    async def draw(request: Request) -> Response:
        body = await _read(request, _SMALL)

        def drawn() -> dict[str, Any]:
            return draw_instance(subject, read_json(body))

        async with request.app.state.drawing:  # one at a time
            return JSONResponse(await run_in_threadpool(drawn))

    async def sample(request: Request) -> Response:
        jobs: JobQueue = request.app.state.jobs
        jobs.check_place()  # before the work of reading it
        body = await _read(request, most_bytes)

        def work() -> Callable[[Job], None]:
            return answer(subject, read_json(body), limits)

        async with request.app.state.parsing:
            job = Job(await run_in_threadpool(work))
        jobs.submit(job)
        return StreamingResponse(_stream(jobs, job), media_type="text/event-stream")

    def read_run() -> dict[str, Any]:
        return {"stamp": subject.stamp, **read_training(subject.run)}

    async def training(request: Request) -> Response:
        async with request.app.state.reading:  # once for all who ask at the same time
            return JSONResponse(await run_in_threadpool(read_run))

    async def picture(request: Request) -> Response:
        name = request.path_params["name"]
        path = await run_in_threadpool(find_picture, subject.run, name)
        if path is None:
            raise HTTPException(
                404, f"The run has no such picture (got {name!r:.100})."
            )
        return FileResponse(path)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/problem", problem),
            Route("/api/graph", graph),
            Route("/api/draw", draw, methods=["POST"]),
            Route("/api/sample", sample, methods=["POST"]),
            Route("/api/training", training),
            Route("/api/training/pictures/{name}", picture),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(OwnPagesOnly, host=host)],
        exception_handlers={
            HTTPException: _refuse_with(lambda error: error.status_code),
            QueueFull: _refuse_with(lambda error: 503),
            ValueError: _refuse_with(lambda error: 400),
            TypeError: _refuse_with(lambda error: 400),
        },
        lifespan=lifespan,
    )


async def _read(request: Request, most_bytes: int) -> bytes:
    """The JSON that a request sends, if it is neither too long nor slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":  # which no form of another site can send
        raise HTTPException(415, f"Send application/json (got {kind!r:.100}).")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise HTTPException(
                        413,
                        f"This request has at most {most_bytes:,} bytes (got more): "
                        "give fewer values.",
                    )
    except TimeoutError:
        raise HTTPException(408, "The request did not arrive in time.") from None
    except ClientDisconnect:
        raise BadRequest("The request broke off.") from None
    return bytes(body)


async def _stream(jobs: JobQueue, job: Job) -> AsyncIterator[str]:
    """Server-sent events of a job; whoever stops reading cancels it."""
    try:
        async for event in job.events():
            yield f"data: {json.dumps(event, allow_nan=False)}\n\n"
    finally:
        jobs.cancel(job)


def _refuse_with(
    status: Callable[[Any], int],
) -> Callable[[Request, Exception], Response]:
    """Errors as one line of JSON."""

    def refuse(request: Request, error: Exception) -> Response:
        reason = error.detail if isinstance(error, HTTPException) else message_of(error)
        return JSONResponse({"error": reason}, status_code=status(error))

    return refuse
