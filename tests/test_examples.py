"""The examples run as their first lines say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_both_layers_classify_nodes_equally_well():
    command = [sys.executable, str(EXAMPLES / "node_classification.py"), "--epochs=40"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    common = float(re.search(r"commonest class is right for ([\d.]+)%", out)[1])
    theirs, ours = (
        float(re.search(rf"^{layer} +([\d.]+)%", out, re.MULTILINE)[1])
        for layer in ("TransformerConv", "StructuredAttentionConv")
    )
    assert ours > common + 25
    assert ours == pytest.approx(theirs, abs=1)
