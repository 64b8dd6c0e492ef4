"""Training with Lightning: steps, averaged weights, evaluation, checkpoints, logs."""

from gsdm_pyg.training.module import Training, TrainingDiverged
from gsdm_pyg.training.run import fit, train

__all__ = ["Training", "TrainingDiverged", "fit", "train"]
