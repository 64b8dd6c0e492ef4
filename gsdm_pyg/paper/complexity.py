"""The complexity table: time and memory of a layer against size, as exponents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric import EdgeIndex

from gsdm_pyg.doctor.forecast import saved_bytes
from gsdm_pyg.nn.blocks import AttentionBlock, ResidualBlock
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import FigureFile
from gsdm_pyg.paper.jobs import Result
from gsdm_pyg.paper.runs import Run, content_key
from gsdm_pyg.paper.statistics import mean_interval
from gsdm_pyg.paper.table import Cells
from gsdm_pyg.problem import graph_of

_ROUNDS = 7  # over all sizes; each gives one exponent
_LEAST = 0.02  # seconds of one measurement, at least


def complexity_jobs(figure: FigureFile, runs: Sequence[Run]) -> list[Any]:
    """One job per panel and row, at all points of its panel."""
    jobs: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        jobs.setdefault((run.panel, run.row), []).append(run)
    formulas = {title: panel.formulas for title, panel in figure.panels.items()}
    return [
        LayerJob(tuple(places), formulas[panel].get(row))
        for (panel, row), places in jobs.items()
    ]


@dataclass(frozen=True)
class LayerJob:
    """Time and memory of one layer, forward and backward, at several sizes."""

    places: tuple[Run, ...]
    formula: float | None

    @property
    def name(self) -> str:
        return f"{self.place.row}; {self.place.panel}"

    @property
    def key(self) -> str:
        return content_key("layer", [place.key for place in self.places])

    @property
    def labels(self) -> dict[str, Any]:
        return {**self.place.labels, "point": "", "formula": self.formula}

    @property
    def place(self) -> Run:
        return self.places[0]

    @property
    def scored(self) -> None:
        return None

    def ready(self, runs: object) -> bool:
        return True

    def run(self, runs: object) -> Result:
        """Exponents are slopes of a line through the logarithms, one per round."""
        layers = [_Layer(place) for place in self.places]
        sizes = [float(place.point) for place in self.places]
        seconds = [[layer.seconds() for layer in layers] for _ in range(_ROUNDS + 1)][
            1:
        ]
        memory = [float(layer.memory()) for layer in layers]
        edges = [float(layer.edge_index.size(1)) for layer in layers]
        return {
            "sizes": sizes,
            "nodes": [layer.num_nodes for layer in layers],
            "edges": edges,
            "seconds": seconds,
            "bytes": memory,
            "scores": {
                "time_exponent": [exponent(sizes, row) for row in seconds],
                "memory_exponent": [exponent(sizes, memory)],
                "edge_exponent": [exponent(sizes, edges)],
            },
        }


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The a of values that grow as sizes ** a: least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def complexity_figure(data: Data) -> Figure:
    """Seconds and bytes against size, on logarithmic axes, a panel per problem."""
    figure = Figure(figsize=(3 * len(data.panels), 5.4), layout="constrained")
    axes = figure.subplots(2, len(data.panels), squeeze=False)
    for column, panel in zip(axes.T, data.panels, strict=True):
        for record in (r for r in data.records if r["panel"] == panel):
            sizes = record["sizes"]
            medians = np.median(np.array(record["seconds"]), axis=0)
            found = record["scores"]
            label = f"{record['row']}: n^{np.median(found['time_exponent']):.1f}"
            column[0].loglog(sizes, 1e3 * medians, "o-", markersize=3, label=label)
            label = f"{record['row']}: n^{found['memory_exponent'][0]:.1f}"
            mib = [value / 2**20 for value in record["bytes"]]
            column[1].loglog(sizes, mib, "o-", markersize=3, label=label)
        column[0].set(title=panel, ylabel="milliseconds of a layer")
        column[1].set(xlabel=data.panel_of(panel).axis, ylabel="MiB of a layer")
        for ax in column:
            ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
            ax.minorticks_off()
            ax.legend(fontsize=7)
    return figure


def complexity_table(data: Data) -> list[Cells]:
    """One entry per panel and row: the paper's exponent beside those measured."""
    lines: list[Cells] = []
    for record in data.records:
        scores = {n: torch.tensor([v]) for n, v in record["scores"].items()}
        time_exponent = mean_interval([scores["time_exponent"]])
        formula = record["formula"]
        lines.append(
            {
                "problem": f"{record['panel']}, {data.panel_of(record['panel']).axis}",
                "layer": record["row"],
                "paper's exponent": "" if formula is None else f"{formula:g}",
                "edges": f"{scores['edge_exponent'].item():.2f}",
                "time, with 95% interval": f"{time_exponent}",
                "memory": f"{scores['memory_exponent'].item():.2f}",
                "largest": f"{record['sizes'][-1]:g}: {record['edges'][-1]:,.0f} edges",
            }
        )
    return lines


class _Layer:
    """One layer on the graph of a problem, with random states."""

    def __init__(self, place: Run) -> None:
        model = place.config.model
        graph = graph_of(place.config.problem.source().largest(), model.graph)
        self.num_nodes = graph.num_nodes
        self.edge_index: EdgeIndex = graph.edge_index(model.edges)
        generator = torch.Generator().manual_seed(place.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(place.seed)
            self._residual = ResidualBlock(model.width)
            self._attention = AttentionBlock(model.width, model.heads)
        shape = (self.num_nodes, model.width)
        self._h = torch.randn(shape, generator=generator).requires_grad_()
        self._time, self._node = torch.randn(2, 1, model.width, generator=generator)
        self._row_graph = torch.zeros(1, dtype=torch.long)
        self._row_id = torch.zeros(self.num_nodes, dtype=torch.long)

    def forward(self) -> Tensor:
        """Hidden states after the layer, [N, D]."""
        rows = (self._row_graph, self._row_id)
        h = self._residual(self._h, self._time, self._node, *rows)
        return self._attention(h, self.edge_index)

    def seconds(self) -> float:
        """The mean of as many passes as take a while.

        With one thread, what else the machine does makes no difference.
        """
        alone = torch.get_num_threads() == 1
        clock = time.process_time if alone else time.perf_counter
        count, start = 0, clock()
        while True:
            self.forward().sum().backward()
            count += 1
            passed = clock() - start
            if passed >= _LEAST:
                return passed / count

    def memory(self) -> int:
        """Bytes that the layer keeps for its backward pass, and those of its edges."""
        weights = [*self._residual.parameters(), *self._attention.parameters()]
        edges = self.edge_index.as_tensor()
        return saved_bytes(self.forward, [*weights, edges]) + edges.nbytes
