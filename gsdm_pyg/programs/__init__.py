"""Programs: write a generative model once; run it for data, trace it for the graph."""

from gsdm_pyg.programs.errors import ProgramError
from gsdm_pyg.programs.program_problem import ProgramProblem, program
from gsdm_pyg.programs.sites import factor, let, observe, sample

__all__ = [
    "ProgramError",
    "ProgramProblem",
    "factor",
    "let",
    "observe",
    "program",
    "sample",
]
