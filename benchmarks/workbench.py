"""The workbench in a real Chromium: first page, a Sudoku on screen, many browsers.

    python -m benchmarks.workbench

It serves pretrained/sudoku with 30 clues and needs chromium and playwright. On a
machine that others use, the time of the processor says more than the time on the wall:
it is given for what the server does; the browser comes on top.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

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
PATIENCE = 600_000  # milliseconds


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """The address of `gsdm show`, and the id of its process."""
    show = ["-m", "gsdm_pyg", "show", "pretrained/sudoku", "clues=30", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, *show], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        lines = iter(process.stdout.readline, "")
        yield next(line.split()[0] for line in lines if "http" in line), process.pid
    finally:
        process.terminate()
        process.wait()


def processor_seconds(pid: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """The largest resident set that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def first_page(browser: Any, url: str) -> tuple[float, int]:
    """Seconds until an instance is on the screen, and bytes of all responses."""
    context = browser.new_context()
    page = context.new_page()
    responses: list[Any] = []
    page.on("response", lambda response: responses.append(response))
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_selector(READY)
    seconds = time.perf_counter() - start
    size = sum(len(response.body()) for response in responses)
    context.close()
    return seconds, size


def open_page(browser: Any, url: str) -> Any:
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector(READY)
    return page


def ask(page: Any, seed: int) -> None:
    """Press the button that answers once."""
    page.fill("#count", "1")
    page.locator("#settings").evaluate("element => { element.open = true; }")
    page.fill("#seed", str(seed))
    page.click("#solve" if page.is_visible("#solve") else "#sample")


def is_solved(page: Any) -> bool:
    """Whether the last grid on the screen has no digit twice in a unit."""
    cells = page.query_selector_all("#samples .cells")[-1].text_content()
    rows = [cells[9 * i : 9 * i + 9] for i in range(9)]
    columns = ["".join(row[j] for row in rows) for j in range(9)]
    blocks = [
        "".join(row[j : j + 3] for row in rows[i : i + 3])
        for i in (0, 3, 6)
        for j in (0, 3, 6)
    ]
    return all(len(set(unit)) == 9 for unit in rows + columns + blocks)


def solve(page: Any, pid: int, seed: int) -> tuple[float, float, bool]:
    """Seconds on the screen, of the server's processor, and whether it is solved."""
    page.click("#draw")
    page.wait_for_timeout(500)
    start, before = time.perf_counter(), processor_seconds(pid)
    ask(page, seed)
    page.wait_for_selector(DONE)
    seconds = time.perf_counter() - start
    return seconds, processor_seconds(pid) - before, is_solved(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puzzles", type=int, default=10)
    parser.add_argument("--browsers", type=int, default=20)
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with server() as (url, pid), sync_playwright() as driver:
        launch = driver.chromium.launch
        browser = launch(executable_path=chromium, args=FLAGS)
        first_page(browser, url)  # the browser itself starts up, kernels are compiled
        loads = [first_page(browser, url) for _ in range(5)]
        page = open_page(browser, url)
        solve(page, pid, 0)
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(
            f"first page: {max(size for _, size in loads) / 1000:.0f} kB, median "
            f"{statistics.median(seconds for seconds, _ in loads):.2f} s"
        )
        solved = [solve(page, pid, seed) for seed in range(1, options.puzzles + 1)]
        seconds, processor, valid = zip(*solved, strict=True)
        print(
            "Sudoku with 30 clues on screen: "
            f"median {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s; "
            f"the server's processor {statistics.median(processor):.2f} s; "
            f"{sum(valid)} of {len(valid)} solved"
        )
        pages = [open_page(browser, url) for _ in range(options.browsers)]
        start = time.perf_counter()
        for seed, page in enumerate(pages):
            ask(page, seed)
        for page in pages:
            page.wait_for_selector(DONE)
        seconds_all = time.perf_counter() - start
        count = sum(map(is_solved, pages))
        print(
            f"{options.browsers} browsers at once: all answered within "
            f"{seconds_all:.1f} s, {count} solved; the server's peak "
            f"{peak_bytes(pid) / 2**20:.0f} MiB"
        )
        browser.close()


if __name__ == "__main__":
    main()
