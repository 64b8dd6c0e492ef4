"""What the tests of models, training and command line share: tiny models and runs."""

from __future__ import annotations

import copy
import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning.pytorch.utilities.seed import isolate_rng
from safetensors.torch import load_file
from torch import Tensor

from gsdm_pyg import GSDM, Categorical, GraphicalModel, Problem, Role, Size, Sizes
from gsdm_pyg.cli import main
from problems import BCMF

STUCK = 300  # seconds after which a process or a request counts as stuck
ROOT = Path(__file__).resolve().parents[1]

TINY: dict[str, Any] = {
    "problem": {"name": "BCMF", "m": [1, 3], "n": [1, 3], "k": [1, 2]},
    "model": {"width": 8, "layers": 1},
    "data": {"batch_size": 2},
    "optimizer": {"lr": 1e-2, "warmup_steps": 4},
    "trainer": {
        "max_steps": 8,
        "accelerator": "cpu",
        "devices": 1,
        "log_every": 1,
        "checkpoint_every": 4,
    },
    "evaluation": {
        "every": 4,
        "problems": [{"m": 4, "n": 2, "k": 1}],
        "num_instances": 2,
        "final_instances": 3,
        "steps": 3,
        "restarts": 1,
        "pictures": 1,
    },
}

# A problem as a user would write it, in a file of its own.
USER_PROBLEM = '''
import torch

from gsdm_pyg import GraphicalModel, Problem, Role, Size


class UserSum(Problem):
    """s = x_1 + ... + x_n."""

    n: Size

    def graphical_model(self):
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.n,))
        s = graph.add_variable("s", (), role=Role.OBSERVED)
        graph.connect(x, s)
        return graph

    def sample(self, generator=None):
        x = torch.randn(self.n, generator=generator)
        return {"x": x, "s": x.sum()}

    def metrics(self, sample, truth):
        return {"error": (sample["x"].sum() - truth["s"]).abs().item()}
'''


class CopyTask(Problem):
    """y repeats what is seen, and z tells which third of its range it lies in."""

    n: Size

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.n,), role=Role.OBSERVED)
        y = graph.add_variable("y", (self.n,))
        z = graph.add_variable("z", (self.n,), Categorical(3))
        graph.connect(x, y)
        graph.connect(x, z)
        return graph

    def sample(self, generator=None):
        x = 3 + 2 * torch.randn(self.n, generator=generator)
        return {"x": x, "y": x.clone(), "z": (x > 2).long() + (x > 4).long()}

    def metrics(self, sample, truth):
        return {
            "rmse": (sample["y"] - truth["y"]).square().mean().sqrt().item(),
            "wrong": (sample["z"] != truth["z"]).float().mean().item(),
        }

    def plot(self, sample, truth):
        raise NotImplementedError


class CountTask(Problem):
    """s[i] counts the positive x[i, j], found by bits c; only columns exchange."""

    n: Size

    def graphical_model(self) -> GraphicalModel:
        n, graph, row = self.n, GraphicalModel(), torch.arange(self.n)
        x = graph.add_variable("x", (n, n), positions=(row[:, None],))
        c = graph.add_variable(
            "c", (n, n), Categorical(2), Role.INTERMEDIATE, positions=(row[:, None],)
        )
        s = graph.add_variable("s", (n,), role=Role.OBSERVED, positions=(row,))
        graph.connect(x, c)
        graph.connect(c, s[:, None])
        return graph

    def sample(self, generator=None):
        x = torch.randn(self.n, self.n, generator=generator)
        return {"x": x, "c": (x > 0).long(), "s": (x > 0).float().sum(1)}

    def metrics(self, sample, truth):
        wrong = (sample["x"] > 0).float().sum(1) != truth["s"]
        return {"wrong": wrong.float().mean().item()}

    def plot(self, sample, truth):
        raise NotImplementedError


class GroupMeans(Problem):
    """Groups of different sizes: y scatters around the mean x of its group."""

    groups: Sizes

    def _group(self) -> Tensor:
        """The group [sum(groups)] of each member."""
        return torch.arange(len(self.groups)).repeat_interleave(
            torch.tensor(self.groups)
        )

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        m = graph.add_variable("m", ())
        x = graph.add_variable("x", (len(self.groups),))
        y = graph.add_variable("y", (sum(self.groups),), role=Role.OBSERVED)
        graph.connect(m, x)
        graph.connect(x[self._group()], y)
        return graph

    def sample_batch(self, num, generator=None):
        m = torch.randn(num, generator=generator)
        x = m[:, None] + torch.randn(num, len(self.groups), generator=generator)
        noise = torch.randn(num, sum(self.groups), generator=generator)
        return {"m": m, "x": x, "y": x[:, self._group()] + noise}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny_model(source: Any = None, seed: int = 0, **arguments: Any) -> GSDM:
    """A small model in which every weight is random, so that every part matters."""
    arguments = {"width": 8, "layers": 1, **arguments}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GSDM.from_problem(source or BCMF(m=2, n=3, k=2), **arguments)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.3)
    return model


def write_config(path: Path, **sections: Any) -> Path:
    """Write the tiny config with these changes, one dictionary per section."""
    config = copy.deepcopy(TINY)
    for section, changes in sections.items():
        if isinstance(changes, dict):
            config.setdefault(section, {}).update(changes)
        else:
            config[section] = changes
    path.write_text(yaml.safe_dump(config))
    return path


def train_here(*arguments: object) -> None:
    """`train.py` in this process, which leaves the global random state as it was."""
    with isolate_rng():
        main(["train", *map(str, arguments)])


def start(*arguments: object, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """A Python process with one thread, in another folder."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive",
            "PYTHONPATH": str(ROOT),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a process to end well; what it printed."""
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 0, printed
    return printed


def exported_weights(run_dir: Path) -> dict[str, Tensor]:
    return load_file(run_dir / "model" / "model.safetensors")


def logged(run_dir: Path, name: str) -> dict[int, float]:
    """A metric of the CSV log by step."""
    (file,) = (run_dir / "csv").glob("*/metrics.csv")
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    return {int(row["step"]): float(row[name]) for row in rows if row.get(name)}


def assert_identical(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    """The same names and the same numbers, bit for bit."""
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
