"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsdm_pyg.files import (
    atomic_writer,
    check_new_file,
    check_new_folder,
    write_file,
    write_folder,
)
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


def test_error_names_the_file_that_was_to_be_written(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(OSError) as caught, atomic_writer(path):
        os.write(os.open("/dev/full", os.O_WRONLY), b"1")
    assert caught.value.filename == str(path)


# What is in the way of a file is found before it is written.


def test_new_file_may_be_anywhere_and_an_old_one_needs_permission(tmp_path):
    check_new_file(tmp_path / "a" / "b.npz", "--out", "choose another")
    path = tmp_path / "old.npz"
    path.touch()
    with pytest.raises(ValueError, match=r"^--out exists already: choose .*old.npz'"):
        check_new_file(path, "--out", "choose another")
    check_new_file(path, "--out", "choose another", overwrite=True)
    for place in (tmp_path, path / "below"):
        with pytest.raises(ValueError, match=r"--out is (a folder|below a file)"):
            check_new_file(place, "--out", "choose another", overwrite=True)


def test_new_folder_may_be_anywhere_and_one_in_use_needs_permission(tmp_path):
    check_new_folder(tmp_path, "--pictures", "choose another")
    check_new_folder(tmp_path / "a" / "b", "--pictures", "choose another")
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(ValueError, match="--pictures is not empty: choose another"):
        check_new_folder(tmp_path, "--pictures", "choose another")
    check_new_folder(tmp_path, "--pictures", "choose another", overwrite=True)
    for place in (path, path / "below"):
        with pytest.raises(ValueError, match=r"--pictures is (a file|below a file)"):
            check_new_folder(place, "--pictures", "choose another", overwrite=True)


def test_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    for check in (check_new_file, check_new_folder):
        with pytest.raises(ValueError, match="cannot be written to"):
            check(tmp_path / "new" / "path", "--out", "choose another")
