"""Diagnostics: is what a model samples the posterior?"""

from gsdm_pyg.diagnostics.calibrating import calibrate
from gsdm_pyg.diagnostics.calibration import Calibration, Check, judge
from gsdm_pyg.diagnostics.corner import plot_posterior
from gsdm_pyg.diagnostics.export import to_arviz, to_dataframe
from gsdm_pyg.diagnostics.predictive import PredictiveCheck, predictive_check
from gsdm_pyg.diagnostics.quantity import Quantity
from gsdm_pyg.diagnostics.two_sample import c2st

__all__ = [
    "Calibration",
    "Check",
    "PredictiveCheck",
    "Quantity",
    "c2st",
    "calibrate",
    "judge",
    "plot_posterior",
    "predictive_check",
    "to_arviz",
    "to_dataframe",
]
