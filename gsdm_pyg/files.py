"""Files that are written whole or not at all, where nothing is in their way."""

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
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial)):
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def check_new_file(path: Path, name: str, remedy: str, overwrite: bool = False) -> None:
    """Refuse a file that could not be written later, or would replace another one.

    Args:
        path: The file to write.
        name: What to call it in an error.
        remedy: What to do if there is one already.
        overwrite: Whether that is wanted.
    """
    if path.is_dir():
        raise ValueError(f"{name} is a folder: name a file (got {str(path)!r}).")
    if path.exists() and not overwrite:
        raise ValueError(f"{name} exists already: {remedy} (got {str(path)!r}).")
    _check_writable(path.parent, name, path)


def check_new_folder(
    folder: Path, name: str, remedy: str, overwrite: bool = False
) -> None:
    """Refuse a folder that could not be written to later, or is not empty.

    Args:
        folder: The folder to write to.
        name: What to call it in an error.
        remedy: What to do if it is not empty.
        overwrite: Whether that is wanted.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} is a file: name a folder (got {str(folder)!r}).")
    _check_writable(folder, name, folder)
    if folder.exists() and not overwrite and any(folder.iterdir()):
        raise ValueError(f"{name} is not empty: {remedy} (got {str(folder)!r}).")


def _check_writable(folder: Path, name: str, path: Path) -> None:
    """Refuse a folder, existing or to be created, that files cannot be added to."""
    folder = folder.absolute()
    nearest = next(f for f in (folder, *folder.parents) if f.exists())
    if not nearest.is_dir():
        raise ValueError(
            f"{name} is below a file, {str(nearest)!r}: choose another place "
            f"(got {str(path)!r})."
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(
            f"{name} is below a folder that cannot be written to: choose another "
            f"place, or change the permissions of {str(nearest)!r} "
            f"(got {str(path)!r})."
        )


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
