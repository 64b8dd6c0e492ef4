"""Memory that training keeps."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from gsdm_pyg.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(10):
    torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**24)  # 64 MiB, more than the C library keeps by itself
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has the setting")
def test_freed_memory_is_used_again_without_page_faults():
    faults = {
        mode: int(subprocess.check_output([sys.executable, "-c", FAULTS, mode]))
        for mode in ("keep", "return")
    }
    assert 2 * faults["keep"] < faults["return"]
