"""One training step beside the time of its matrix products alone.

    python -m benchmarks.training_step [--steps 20] [--backend scatter] [--compile]

Fixed BCMF m, n, k = 10, 16, 8, batch 8, width 64, 12 layers, 2 heads. The products are
those of every linear layer, forward and backward, on matrices of the same shapes. Both
are timed in turns, and the medians printed. Peak memory is the growth of the process's
peak resident set over the one before the first step.

The last lines are about tiny graphs, where drawing the batch costs most: x [2] given
y = x + noise, batch 256, the same model. The problem draws whole batches at once with
`sample_batch`, or one instance at a time with `sample`.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from statistics import median

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn.dense.linear import Linear as PygLinear

from benchmarks.measure import products
from gsdm_pyg import GSDM, GraphicalModel, Problem, ProblemBatches, Role
from gsdm_pyg.settings import OptimizerSettings
from gsdm_pyg.training.memory import keep_freed_memory
from gsdm_pyg.training.optimizer import build_optimizer
from problems import BCMF


class TwoNodes(Problem):
    """x [2] given y = x + noise, drawn as a batch."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        x = graph.add_variable("x", (2,))
        y = graph.add_variable("y", (2,), role=Role.OBSERVED)
        graph.connect(x, y)
        return graph

    def sample_batch(self, num, generator=None):
        x, noise = torch.randn(2, num, 2, generator=generator)
        return {"x": x, "y": x + 0.1 * noise}


class TwoNodesOneByOne(TwoNodes):
    """The same, drawn one instance at a time."""

    def sample(self, generator=None):
        x, noise = torch.randn(2, 2, generator=generator)
        return {"x": x, "y": x + 0.1 * noise}


def linear_shapes(model: nn.Module, run: Callable[[], object]) -> list[tuple]:
    """(rows, inputs, outputs) of every linear layer that `run` evaluates."""
    shapes: list[tuple] = []

    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        shapes.append((inputs[0].size(0), inputs[0].size(1), output.size(1)))

    linear = [m for m in model.modules() if isinstance(m, nn.Linear | PygLinear)]
    hooks = [layer.register_forward_hook(record) for layer in linear]
    run()
    for hook in hooks:
        hook.remove()
    return shapes


def milliseconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def training_step(model: GSDM) -> Callable[[Batch], None]:
    """A function that does one step of training on a batch."""
    optimizer = build_optimizer(model.diffusion, OptimizerSettings())

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        model.diffusion.loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def time_tiny_graphs(backend: str, steps: int) -> dict[str, float]:
    """Milliseconds of a step on 256 graphs of four nodes, and of drawing its batch."""
    batches = ProblemBatches(TwoNodes(), batch_size=256)
    looped = ProblemBatches(TwoNodesOneByOne(), batch_size=256)
    step = training_step(GSDM.from_problem(TwoNodes(), backend=backend))
    step(batches.batch(0))
    looped.batch(0)
    times: dict[str, list[float]] = {"step": [], "batch": [], "looped": []}
    for i in range(steps):
        batch = batches.batch(i)
        times["step"].append(milliseconds(lambda batch=batch: step(batch)))
        times["batch"].append(milliseconds(lambda i=i: batches.batch(i)))
        times["looped"].append(milliseconds(lambda i=i: looped.batch(i)))
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="auto", help="auto, fused or scatter")
    parser.add_argument("--compile", action="store_true", help="torch.compile it")
    parser.add_argument("--plot", help="also draw the times into this file")
    options = parser.parse_args()

    keep_freed_memory()  # as the train command does
    problem = BCMF(m=10, n=16, k=8)
    batches = ProblemBatches(problem, batch_size=8)
    model = GSDM.from_problem(problem, backend=options.backend)
    step = training_step(model)
    batch = batches.batch(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shapes = linear_shapes(model, lambda: step(batch))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if options.compile:
        model.diffusion.denoiser.compile(dynamic=True)
    floor = products(shapes)
    families = BCMF.family(m=(1, 10), n=(1, 10), k=(1, 10))
    mixed = ProblemBatches(families, batch_size=16)
    for i in range(options.steps):
        mixed.batch(i)

    times: dict[str, list[float]] = {
        "step": [],
        "products": [],
        "data": [],
        "mixed": [],
    }
    mixed_steps: list[float] = []
    for i in range(options.steps):
        batch = batches.batch(0)
        times["step"].append(milliseconds(lambda batch=batch: step(batch)))
        times["products"].append(milliseconds(floor))
        times["data"].append(milliseconds(lambda: batches.batch(0)))
        times["mixed"].append(milliseconds(lambda i=i: mixed.batch(i)))
        batch = mixed.batch(i)
        if not options.compile:  # it would compile anew for many of the sizes
            mixed_steps.append(milliseconds(lambda batch=batch: step(batch)))
    step_ms, floor_ms = median(times["step"]), median(times["products"])
    data, mixed_ms = median(times["data"]), median(times["mixed"])
    how = f"backend: {options.backend}" + (", compiled" if options.compile else "")
    print(f"threads: {torch.get_num_threads()}, {how}")
    print("| BCMF 10,16,8 x 8, 12 layers, width 64, 2 heads | ms | ratio |")
    print("| --- | --- | --- |")
    print(f"| training step | {step_ms:.0f} | |")
    print(f"| its matrix products alone | {floor_ms:.0f} | {step_ms / floor_ms:.2f} |")
    print(f"| generate and collate its batch | {data:.1f} | {data / step_ms:.1%} |")
    if mixed_steps:
        share = mixed_ms / median(mixed_steps)
        print(f"| the same, batch of 16 mixed sizes | {mixed_ms:.1f} | {share:.1%} |")
    tiny = time_tiny_graphs(options.backend, options.steps)
    print(f"| two nodes and two nodes x 256, training step | {tiny['step']:.1f} | |")
    for name, what in (("batch", "its batch"), ("looped", "it without `sample_batch`")):
        share = tiny[name] / tiny["step"]
        print(f"| generate and collate {what} | {tiny[name]:.1f} | {share:.1%} |")
    print(f"\npeak memory of a step: {peak / 2**20:.2f} GiB")
    if options.plot:
        bars = {"matrix products alone": floor_ms, "training step": step_ms}
        figure = Figure(figsize=(6, 1.6), layout="constrained")
        ax = figure.subplots()
        ax.barh(list(bars), list(bars.values()), color=["tab:gray", "tab:blue"])
        ax.set(xlabel="ms", title=f"ratio {step_ms / floor_ms:.2f} ({how})")
        figure.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
