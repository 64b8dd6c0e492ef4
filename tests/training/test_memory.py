"""Memory that the train command keeps."""

import sys

import pytest

from tests.helpers import ROOT, finish, start

FAULTS = """
import resource, runpy, sys
import torch
memory = runpy.run_path(sys.argv[1])
if sys.argv[2] == "keep":
    memory["keep_freed_memory"]()
for _ in range(10):
    torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**24)  # 64 MiB, more than the C library keeps by itself
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has the setting")
def test_freed_memory_is_used_again_without_page_faults(tmp_path):
    file = ROOT / "gsdm_pyg" / "training" / "memory.py"
    faults = {
        mode: int(finish(start("-c", FAULTS, file, mode, cwd=tmp_path)))
        for mode in ("keep", "return")
    }
    assert 2 * faults["keep"] < faults["return"]
