"""A real Chromium, and a server as users start it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, STUCK

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = "body[data-ready]"
DONE = "#status[data-done]"
MILLISECONDS = 1000 * STUCK


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser with nothing of its user; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver, launched(driver.chromium) as browser:
        yield browser


@contextmanager
def launched(kind: Any) -> Iterator[Any]:
    """A browser of its own process and profile."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs chromium: apt-get install chromium")
    browser = kind.launch(executable_path=path, args=FLAGS)
    try:
        yield browser
    finally:
        browser.close()


@contextmanager
def shown(*arguments: str, folder: Path = ROOT) -> Iterator[str]:
    """The address of `gsdm show` with these arguments."""
    command = [sys.executable, "-m", "gsdm_pyg", "show", *arguments, "--port", "0"]
    server = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if found := re.match(r"http://\S+", line):
                yield found.group()
                break
        else:
            raise AssertionError("the server ended before it printed its address")
    finally:
        server.terminate()
        server.wait(timeout=STUCK)


@contextmanager
def opened(browser: Any, url: str, **context: Any) -> Iterator[Any]:
    """A page of a new profile; errors of its scripts fail the test."""
    errors: list[str] = []
    own = browser.new_context(**context)
    page = own.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda r: r.url.startswith(url) or errors.append(r.url))
    page.goto(url)
    page.wait_for_selector(READY)
    yield page
    own.close()
    assert errors == []
