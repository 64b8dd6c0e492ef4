"""Solutions: samples that satisfy the constraints of their problem, and are verified.

`sampling` and `committing` are two ways to try; `search` repeats tries until every
instance is solved or has used up what it may cost.
"""

from gsdm_pyg.solving.solution import Solution
from gsdm_pyg.solving.solver import SolvingInterrupted, solve
from gsdm_pyg.solving.task import OnEstimate

__all__ = ["OnEstimate", "Solution", "SolvingInterrupted", "solve"]
