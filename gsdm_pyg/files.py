"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_writer(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of `path` once the block ends well.

    A failure or a kill leaves what was there before. Missing folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Write one file whole or not at all."""
    with atomic_writer(path) as file:
        file.write(content)


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write several files of a folder by name; on failure all are as they were."""
    before = {
        name: (folder / name).read_bytes() if (folder / name).exists() else None
        for name in contents
    }
    done: list[str] = []
    try:
        for name, content in contents.items():
            write_file(folder / name, content)
            done.append(name)
    except BaseException:
        for name in done:
            old = before[name]
            if old is None:
                (folder / name).unlink(missing_ok=True)
            else:
                write_file(folder / name, old)
        raise
