"""The doctor: examine a graph before a model is trained on it.

`forecast` says what training will cost; it comes after training in the data flow.
"""

from gsdm_pyg.doctor.diagnosing import check_depth, diagnose
from gsdm_pyg.doctor.diagnosis import Diagnosis

__all__ = ["Diagnosis", "check_depth", "diagnose"]
