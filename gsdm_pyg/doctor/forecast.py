"""Forecast of a training step: its time on this machine's CPU, and its memory.

Models of few layers are trained for a few steps on small batches of the same problem.
Time and memory grow linearly with depth, and with the operations of a layer, which are
counted; what is measured is how long this machine takes for them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from gsdm_pyg.data import ProblemBatches
from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.methods import build
from gsdm_pyg.problem import Problem, ProblemFamily
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import DataSettings, ModelSettings, OptimizerSettings
from gsdm_pyg.training.optimizer import build_optimizer

Clock = Callable[[], float]

_DEPTHS = (1, 4)  # layers of the models that are measured
_OPERATIONS = 3e8  # of one layer, that a measured batch should have
_ROUNDS = 6  # steps of each measured model
_COPIES = 11  # of the weights: gradients, moments, and what Muon needs for a step
_STATES = 16  # [N, D], beside what is saved: gradients, and gaps of the allocator


@dataclass(frozen=True)
class Forecast:
    """What a training step is expected to take."""

    num_nodes: int  # of a batch, on average
    num_edges: int
    operations: float  # of a step: multiplications and additions
    step_seconds: float  # loss, gradient and optimizer
    data_seconds: float  # draw and collate the batch; beside the step with workers
    peak_bytes: int  # that a step adds to the process, weights and optimizer included

    def report(self) -> str:
        """The forecast in words, one line each."""
        rows = {
            "batch": f"{self.num_nodes:,} nodes, {self.num_edges:,} edges",
            "step": f"{_seconds(self.step_seconds)} on this machine's CPU, "
            f"{self.operations / 1e9:.3g} billion operations",
            "data": f"{_seconds(self.data_seconds)} to draw the batch",
            "memory": f"{self.peak_bytes / 2**20:,.0f} MiB at the peak of a step",
        }
        return "\n".join(f"{name + ':':<14}{text}" for name, text in rows.items())

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.report()


def forecast(
    source: Problem | ProblemFamily,
    model: ModelSettings = ModelSettings(),
    data: DataSettings = DataSettings(),
    optimizer: OptimizerSettings = OptimizerSettings(),
    clock: Clock = time.perf_counter,
) -> Forecast:
    """Forecast a training step from a few smaller ones; takes a few seconds.

    Args:
        source: What is trained on.
        model: What the model is made of.
        data: How instances are batched.
        optimizer: The optimizer.
        clock: Seconds; `time.process_time` ignores what else the machine does, if torch
            has one thread.
    """

    def draw(batch_size: int | None) -> Callable[[int], Batch]:
        return ProblemBatches(
            source,
            observe=model.observe,
            options=model.graph,
            **{**data.model_dump(), "batch_size": batch_size},
        ).batch

    drawn, data_seconds = _draw(draw(data.batch_size), clock)
    work = mean(operations(batch, model.width) for batch in drawn)
    graphs = mean(batch.num_graphs for batch in drawn)
    nodes = mean(batch.num_nodes for batch in drawn)
    large = max(1, round(graphs * min(1, _OPERATIONS / work)))
    parts = [draw(size)(0) for size in sorted({large, max(1, large // 4)})]
    spec = ProblemSpec.of(source, model.graph)
    once = model.updated({"self_conditioning": False})
    with torch.random.fork_rng(devices=[]):
        models = [build(spec, once.updated({"layers": n})) for n in _DEPTHS]
        seconds = _seconds_of_steps(models, parts, optimizer, clock)
        saved = [
            [saved_bytes(partial(few.loss, part), few.parameters()) for few in models]
            for part in parts
        ]
    weights = [_weight_bytes(diffusion) for diffusion in models]
    works = [operations(part, model.width) for part in parts]
    # Backward counts as two passes. Half of the steps have one more for the estimate.
    passes = 3.5 if model.self_conditioning else 3.0
    states = _STATES * 4 * model.width * nodes
    return Forecast(
        num_nodes=round(nodes),
        num_edges=round(mean(batch.num_edges for batch in drawn)),
        operations=work * model.layers * passes,
        step_seconds=passes / 3 * _whole(seconds, works, model.layers, work),
        data_seconds=data_seconds,
        peak_bytes=round(
            _whole(saved, works, model.layers, work)
            + _COPIES * _line(_DEPTHS, weights, model.layers)
            + states
        ),
    )


def _draw(draw: Callable[[int], Batch], clock: Clock) -> tuple[list[Batch], float]:
    """A few batches, and the seconds that drawing one takes."""
    drawn, seconds = [draw(0)], []  # the first one builds graphs
    for step in range(1, _ROUNDS + 1):
        start = clock()
        drawn.append(draw(step))
        seconds.append(clock() - start)
    return drawn, median(seconds)


def _whole(
    measured: Sequence[Sequence[float]], works: list[float], layers: int, work: float
) -> float:
    """Extrapolate [parts, depths] to all layers and to the work of a whole batch."""
    parts = [_line(_DEPTHS, row, layers) for row in measured]
    if works[-1] < 1.5 * works[0]:  # one size: in proportion
        return parts[-1] * work / works[-1]
    return _line((works[0], works[-1]), parts, work)


def _line(x: Sequence[float], y: Sequence[float], at: float) -> float:
    """The line through two points."""
    return y[0] + (at - x[0]) * (y[1] - y[0]) / (x[1] - x[0])


def operations(batch: Batch, width: int) -> float:
    """Multiplications and additions of one layer, forward.

    A node takes six products with matrices [D, D]: two of the residual block, q, k and
    v, and one after attention. An embedding row and a graph take one each. An edge
    takes 2 D multiplications and additions.
    """
    rows = 6 * batch.num_nodes + len(batch.embedding["row_graph"]) + batch.num_graphs
    return 2.0 * width**2 * rows + 4.0 * width * batch.num_edges


def _seconds_of_steps(
    models: list[GraphModel],
    parts: list[Batch],
    optimizer: OptimizerSettings,
    clock: Clock,
) -> list[list[float]]:
    """The seconds of a step, [parts, models]; all take turns and the fastest counts."""
    steps = [training_step(diffusion, optimizer) for diffusion in models]
    best = [[math.inf] * len(steps) for _ in parts]
    for turn in range(_ROUNDS + 1):
        for part, row in zip(parts, best, strict=True):
            for number, step in enumerate(steps):
                start = clock()
                step(part)
                if turn:  # the first one loads kernels
                    row[number] = min(row[number], clock() - start)
    return best


def training_step(
    diffusion: GraphModel, settings: OptimizerSettings = OptimizerSettings()
) -> Callable[[Batch], None]:
    """A function that does one step of training on a batch."""
    optimizer = build_optimizer(diffusion, settings)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        diffusion.loss(batch).backward()
        nn.utils.clip_grad_norm_(diffusion.parameters(), settings.clip)
        optimizer.step()

    return step


def saved_bytes(compute: Callable[[], Any], without: Iterable[Tensor] = ()) -> int:
    """What a forward pass keeps for the backward pass.

    Args:
        compute: Does the forward pass and returns what to differentiate.
        without: Tensors not to count, such as weights.
    """
    excluded = {tensor.untyped_storage().data_ptr() for tensor in without}
    sizes: dict[int, int] = {}

    def record(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() not in excluded:
            sizes[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(record, lambda saved: saved):
        result = compute()  # keeps the tensors, and so their addresses, alive
    del result
    return sum(sizes.values())


def _weight_bytes(diffusion: GraphModel) -> int:
    return sum(p.numel() * p.element_size() for p in diffusion.parameters())


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{1e3 * value:.3g} ms"
