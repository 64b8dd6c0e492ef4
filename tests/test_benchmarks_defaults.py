"""The options of `python -m benchmarks.defaults`, without training."""

import pytest

from benchmarks import defaults as benchmark
from benchmarks import sbibm_methods


def test_settings_are_read_as_the_benchmark_sbibm_reads_them():
    texts = ["optimizer.ema=0.99", "optimizer.name=adamw", "schedule=cosine"]
    options = benchmark.parse([f"--set={text}" for text in texts])
    optimizer = {"ema": 0.99, "name": "adamw"}
    assert options.changes == {"optimizer": optimizer, "schedule": "cosine"}
    assert options.changes == sbibm_methods.read_settings(texts)
    assert benchmark.parse([]).changes == {}


@pytest.mark.parametrize(
    "text, message",
    [
        ("optimizer.emma=0.99", "emma"),
        ("shedule=cosine", "shedule"),
        ("schedule=circular", "circular"),
        ("schedule", "name=value (got 'schedule')"),
    ],
)
def test_wrong_settings_are_rejected_before_any_work(text, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse([f"--set={text}"])
    assert message in capsys.readouterr().err
