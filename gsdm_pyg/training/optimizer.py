"""The optimizer of a config: Muon for hidden matrices, or torch's AdamW for all."""

from __future__ import annotations

import torch

from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.settings import OptimizerSettings
from gsdm_pyg.training.muon import Muon


def build_optimizer(
    diffusion: GraphModel, settings: OptimizerSettings
) -> torch.optim.Optimizer:
    """An optimizer of all parameters at their peak learning rates.

    Its last group is the one with the learning rate `settings.lr`.
    """
    if settings.name == "adamw":
        return torch.optim.AdamW(
            diffusion.parameters(),
            lr=settings.lr,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
        )
    matrices = diffusion.hidden_matrices()
    chosen = {id(p) for p in matrices}
    return Muon(
        matrices,
        [p for p in diffusion.parameters() if id(p) not in chosen],
        lr=settings.lr,
        matrix_lr=settings.matrix_lr,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
    )
