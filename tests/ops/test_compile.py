"""Compiled kernels: what is announced, and the cache that they are kept in."""

from __future__ import annotations

import shutil

import pytest

from tests.helpers import ROOT, finish, start

COMPILE = """
from gsdm_pyg.ops.cpu.compile import compiled
compiled("norm", 16, False, False)
compiled("norm", 16, True, False)
"""
ANNOUNCED = "Compiling the CPU kernels"
pytestmark = pytest.mark.slow


def test_compilation_is_announced_once_and_only_where_kernels_are_compiled(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (
        finish(start("-c", COMPILE, cwd=tmp_path, **cache)) for _ in range(2)
    )
    assert first.count(ANNOUNCED) == 1
    assert "takes 1 to 5 seconds and is cached on disk" in first
    assert second == ""


def test_compilation_that_cannot_be_cached_is_announced_with_the_fix(tmp_path):
    nowhere = {
        "NUMBA_CACHE_DIR": "",
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
    }
    printed = finish(start("-c", COMPILE, cwd=tmp_path, **nowhere))
    assert printed.count(ANNOUNCED) == 1
    assert "set NUMBA_CACHE_DIR to a folder that can be written to" in printed


def test_processes_that_compile_at_the_same_time_share_a_cache(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    both = [start("-c", COMPILE, cwd=tmp_path, **cache) for _ in range(2)]
    for process in both:
        finish(process)
    assert finish(start("-c", COMPILE, cwd=tmp_path, **cache)) == ""


def test_an_upgrade_compiles_again(tmp_path):
    shutil.copytree(ROOT / "gsdm_pyg", tmp_path / "gsdm_pyg")
    places = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    for _ in range(2):
        assert ANNOUNCED in finish(start("-c", COMPILE, cwd=tmp_path, **places))
        assert finish(start("-c", COMPILE, cwd=tmp_path, **places)) == ""
        with (tmp_path / "gsdm_pyg/ops/cpu/vector.py").open("a") as source:
            source.write("# another version\n")


def test_an_installation_that_cannot_be_written_to_caches_for_the_user(tmp_path):
    shutil.copytree(ROOT / "gsdm_pyg", tmp_path / "gsdm_pyg")
    blocked = tmp_path / "gsdm_pyg/ops/cpu/__pycache__"
    shutil.rmtree(blocked, ignore_errors=True)
    blocked.write_text("")  # a file: also root cannot make the folder
    places = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    places["PYTHONDONTWRITEBYTECODE"] = "1"
    first, second = (
        finish(start("-c", COMPILE, cwd=tmp_path, **places)) for _ in range(2)
    )
    assert "is cached on disk" in first
    assert second == ""
    assert any((tmp_path / "cache").rglob("*.nbc"))
