"""Compiled kernels: what is announced, and when."""

from __future__ import annotations

import pytest

from tests.helpers import finish, start

COMPILE = """
from gsdm_pyg.ops.cpu.compile import compiled
compiled("norm", 16, False, False)
compiled("norm", 16, True, False)
"""


@pytest.mark.slow
def test_compilation_is_announced_once_and_only_where_kernels_are_compiled(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (
        finish(start("-c", COMPILE, cwd=tmp_path, **cache)) for _ in range(2)
    )
    assert first.count("Compiling the CPU kernels") == 1
    assert "is cached on disk" in first
    assert second == ""


@pytest.mark.slow
def test_compilation_that_cannot_be_cached_is_announced_with_the_fix(tmp_path):
    nowhere = {
        "NUMBA_CACHE_DIR": "",
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
    }
    printed = finish(start("-c", COMPILE, cwd=tmp_path, **nowhere))
    assert printed.count("Compiling the CPU kernels") == 1
    assert "set NUMBA_CACHE_DIR to a folder that can be written to" in printed
