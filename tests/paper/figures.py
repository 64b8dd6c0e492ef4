"""A tiny figure, fake jobs, and records with known answers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import FigureFile

TINY: dict[str, Any] = {
    "title": "Figure 0: a tiny one",
    "kind": "curves",
    "shows": "That a figure can be made.",
    "claims": [{"says": "Kept is best.", "row": "kept", "than": "dropped"}],
    "base": {
        "problem": {"name": "BCMF", "m": 2, "n": 3, "k": 1},
        "model": {"width": 8, "layers": 1},
        "data": {"batch_size": 2},
        "trainer": {"max_steps": 4, "accelerator": "cpu", "checkpoint_every": 2},
        "evaluation": {
            "every": 2,
            "steps": 2,
            "num_instances": 2,
            "final_instances": 3,
            "pictures": 0,
        },
    },
    "rows": {"kept": {}, "dropped": {"model": {"intermediates": "drop"}}},
    "panels": {
        "BCMF": {
            "metric": "rmse",
            "axis": "n",
            "points": {2: {"problem": {"n": 2}}, 3: {}},
            "paper": {"seeds": [0, 1], "base": {"model": {"width": 16}}},
        }
    },
}


def write_figure(folder: Path, **changes: Any) -> Path:
    """The tiny figure with other sections."""
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump({**TINY, **changes}, sort_keys=False))
    return path


def tiny_figure(**changes: Any) -> FigureFile:
    return FigureFile.parse({**TINY, **changes})


def data_of(
    scores: Mapping[tuple[str, str], Sequence[Sequence[float]]], **changes: Any
) -> Data:
    """Records of the tiny figure: the scores of each seed by (point, row)."""
    records = [
        {
            "panel": "BCMF",
            "point": point,
            "row": row,
            "seed": seed,
            "key": f"bcmf-{point}-{row}-{seed}",
            "problem": "BCMF",
            "minutes": 1.0,
            "steps": 4,
            "scores": {"rmse": list(values)},
            "chance": {"rmse": [1.0] * len(values)},
            "curve": {"steps": [2, 4], "minutes": [0.5, 1.0], "rmse": [0.9, 0.4]},
        }
        for (point, row), seeds in scores.items()
        for seed, values in enumerate(seeds)
    ]
    return Data(tiny_figure(**changes), "laptop", records, [])


@dataclass(frozen=True)
class FakeJob:
    """Writes down who did it and when, and takes a moment."""

    key: str
    needs: str = ""
    fails: bool = False

    @property
    def name(self) -> str:
        return f"fake {self.key}"

    @property
    def labels(self) -> dict[str, Any]:
        return {"panel": "BCMF", "point": "", "row": self.key, "seed": 0}

    def ready(self, runs: Path) -> bool:
        return not self.needs or (runs / self.needs / "result.json").is_file()

    def run(self, runs: Path) -> dict[str, Any]:
        with open(runs / "log.txt", "a") as log:
            log.write(f"{self.key}\n")
        if self.fails:
            raise ValueError("it cannot be done (got this).")
        start = time.time()
        time.sleep(0.1)
        return {"pid": os.getpid(), "start": start, "end": time.time()}
