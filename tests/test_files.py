"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsdm_pyg.files import atomic_writer, write_file, write_folder
from tests.helpers import files_of


def fail_at(monkeypatch, number: int, error: BaseException) -> None:
    """Let the replacing of the file with this number fail once."""
    calls = iter(range(100))
    replace = os.replace

    def failing(source, target):
        if next(calls) == number:
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)


def test_file_appears_with_its_folders_and_replaces_an_older_one(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    for content in (b"old", b"new"):
        write_file(path, content)
        assert files_of(tmp_path) == {"a/b/file": content}


def test_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"old")
    with atomic_writer(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    write_file(path, b"old")
    with pytest.raises(type(error)), atomic_writer(path) as file:
        file.write(b"half")
        raise error
    assert files_of(tmp_path) == {"file": b"old"}


def test_failure_while_writing_a_new_file_leaves_nothing(tmp_path):
    with pytest.raises(OSError), atomic_writer(tmp_path / "file"):
        raise OSError("disk full")
    assert files_of(tmp_path) == {}


def test_folder_gets_all_files_and_keeps_the_others(tmp_path):
    write_file(tmp_path / "other", b"mine")
    write_folder(tmp_path, {"a": b"1", "b": b"2"})
    assert files_of(tmp_path) == {"a": b"1", "b": b"2", "other": b"mine"}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failure_in_the_middle_of_a_folder_leaves_all_files_as_they_were(
    tmp_path, monkeypatch, number, error
):
    folder = tmp_path / "folder"
    write_folder(folder, {"a": b"old a", "b": b"old b"})
    before = files_of(tmp_path)
    fail_at(monkeypatch, number, error)
    with pytest.raises(type(error)):
        write_folder(folder, {"a": b"new a", "c": b"new c", "b": b"new b"})
    assert files_of(tmp_path) == before


def test_folder_that_is_a_file_is_left_alone(tmp_path):
    path: Path = tmp_path / "folder"
    path.write_bytes(b"mine")
    with pytest.raises(OSError):
        write_folder(path, {"a": b"1"})
    assert files_of(tmp_path) == {"folder": b"mine"}
