"""Attention masks (appendix C): those of graphs, and what dense attention learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.data import Batch

from gsdm_pyg.data import ProblemBatches
from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.nn import StructuredAttentionConv
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import CHANCE, FigureFile
from gsdm_pyg.paper.jobs import (
    Job,
    JobOfRun,
    Result,
    TrainingJob,
    is_trained,
    load_model,
)
from gsdm_pyg.paper.runs import Run, content_key
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import GraphOptions

_HEADS = 3  # to draw, those with the most attention on the mask
_DRAWABLE = 150  # nodes, the most in a picture
_INSTANCES = 16  # that learned attention is averaged over


def masks_jobs(figure: FigureFile, runs: Sequence[Run]) -> list[Job]:
    """The mask of each run; of dense attention, what a trained model attends to."""
    jobs: list[Job] = []
    for run in runs:
        if run.config.model.edges == "complete":
            if run.pretrained is None:
                jobs.append(TrainingJob(run))
            jobs.append(AttentionJob(run))
        else:
            jobs.append(MaskJob(run))
    return jobs


class MaskJob(JobOfRun):
    """Which node attends to which, in the graph of a problem."""

    @property
    def key(self) -> str:
        return content_key("mask", self.place.key)

    @property
    def scored(self) -> Problem | None:
        return None

    def run(self, runs: Path) -> Result:
        config = self.place.config
        mask = mask_of(config.problem.source().largest(), config.model.graph)
        density = mask.float().mean().item()
        shown = mask.long().tolist() if len(mask) <= _DRAWABLE else None
        return {"mask": shown, "nodes": len(mask), "scores": {"density": [density]}}


class AttentionJob(JobOfRun):
    """The attention of a trained dense model, beside the mask of the same problem."""

    @property
    def name(self) -> str:
        return f"{self.place.name}; learned attention"

    @property
    def key(self) -> str:
        return content_key("attention", self.place.key)

    @property
    def scored(self) -> Problem | None:
        return None

    def ready(self, runs: Path) -> bool:
        return is_trained(self.place, runs)

    def run(self, runs: Path) -> Result:
        """`off_mask`: the share of attention that is not on the mask, of each instance.

        It is a mean over all layers, heads and nodes. Chance is even attention.
        """
        config = self.place.config
        model = load_model(self.place, runs)
        problem = config.problem.source().largest()
        own = config.model.graph
        mask = mask_of(problem, own.updated({"edges": "structured"}))
        seed = config.seed
        batches = ProblemBatches(problem, options=own, batch_size=_INSTANCES, seed=seed)
        batch = batches.batch(0).to(next(model.parameters()).device)
        generator = keyed_generator("attention", seed)
        weights = learned_attention(model.diffusion, batch, generator).cpu()
        shares = (weights * mask).sum(-1).mean(-1)  # [L H, B]
        order = shares.mean(1).argsort(descending=True)[:_HEADS]
        heads = weights.mean(1)[order]  # [heads, n, n]
        off = 1 - mask.double().mean().item()
        return {
            "mask": mask.long().tolist(),
            "heads": [[[round(v, 4) for v in r] for r in h] for h in heads.tolist()],
            "scores": {"off_mask": (1 - shares.mean(0)).tolist()},
            CHANCE: {"off_mask": [off] * _INSTANCES},
        }


def mask_of(problem: Problem, options: GraphOptions) -> Tensor:
    """The attention mask [n, n]: whether node i attends to node j."""
    graph = graph_of(problem, options)
    source, target = graph.edge_index(options.edges).as_tensor()
    mask = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    mask[target, source] = True
    return mask


def learned_attention(
    diffusion: GraphModel, batch: Batch, generator: torch.Generator
) -> Tensor:
    """The attention weights [L H, B, n, n] in a training step on graphs of one size.

    Args:
        diffusion: A model that attends along all pairs.
        batch: B graphs of n nodes.
        generator: Noise and noise levels.
    """
    modules = diffusion.modules()
    layers = [m for m in modules if isinstance(m, StructuredAttentionConv)]
    inputs: dict[StructuredAttentionConv, tuple[Any, dict[str, Any]]] = {}

    def note(layer: Any, args: Any, named: dict[str, Any]) -> None:
        inputs[layer] = args, named

    handles = [m.register_forward_pre_hook(note, with_kwargs=True) for m in layers]
    with torch.no_grad():
        diffusion.loss(batch, generator)
        for handle in handles:
            handle.remove()
        found = []
        for layer in layers:
            args, named = inputs[layer]
            _, (edge_index, alpha) = layer(
                *args, **{**named, "return_attention_weights": True}
            )
            found.append(_dense(edge_index, alpha, batch.num_graphs))
    return torch.cat(found)


def _dense(edge_index: Any, alpha: Tensor, num_graphs: int) -> Tensor:
    """Weights of edges [E, H] as matrices [H, B, n, n]."""
    source, target = torch.as_tensor(edge_index)
    n = math.isqrt(len(source) // num_graphs)
    dense = alpha.new_zeros(alpha.size(1), num_graphs, n, n)
    dense[:, target // n, target % n, source % n] = alpha.T
    return dense


def masks_figure(data: Data) -> Figure:
    """A line of masks per row, a column per panel; learned attention below."""
    masks = [r for r in data.records if "heads" not in r and r["mask"]]
    learned = [r for r in data.records if "heads" in r]
    panels = list(dict.fromkeys(record["panel"] for record in masks))
    rows = list(dict.fromkeys(record["row"] for record in masks))
    columns = max([len(panels), *(1 + len(record["heads"]) for record in learned)])
    lines = len(rows) + len(learned)
    figure = Figure(figsize=(2.1 * columns, 2.3 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
        ax.set_axis_off()
    for record in masks:
        ax = axes[rows.index(record["row"]), panels.index(record["panel"])]
        density = record["scores"]["density"][0]
        title = f"{record['panel']} ({record['point']})\n{record['row']}, {density:.1%}"
        _show(ax, record["mask"], title, vmax=1)
    for line, record in zip(axes[len(rows) :], learned, strict=True):
        _show(line[0], record["mask"], f"{record['panel']}\nmask", vmax=1)
        for ax, head in zip(line[1:], record["heads"], strict=False):
            _show(ax, head, f"{record['row']}\nlearned attention", vmax=None)
    return figure


def _show(ax: Axes, matrix: Any, title: str, vmax: float | None) -> None:
    ax.set_axis_on()
    ax.imshow(np.asarray(matrix), cmap="gray", vmin=0, vmax=vmax, interpolation="none")
    ax.set_title(title, fontsize=7)
