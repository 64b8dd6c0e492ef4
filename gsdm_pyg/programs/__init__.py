"""Programs: write a generative model once; run it for data, trace it for the graph.

`sites` has the statements, `program_problem` the problem that a program is, `trace` its
graph, `draw` its data, `positions` and `symmetry` its exchangeable indices. `foppl`,
`pyro` and `graphs` take programs and graphs of other forms.
"""

from gsdm_pyg.programs.errors import ProgramError
from gsdm_pyg.programs.foppl import FopplError, from_foppl
from gsdm_pyg.programs.graphs import from_edges, from_networkx
from gsdm_pyg.programs.program_problem import ProgramProblem, program
from gsdm_pyg.programs.pyro import from_pyro
from gsdm_pyg.programs.sites import factor, let, observe, sample
from gsdm_pyg.programs.symmetry import check_exchangeable, exchangeable_indices

__all__ = [
    "FopplError",
    "ProgramError",
    "ProgramProblem",
    "check_exchangeable",
    "exchangeable_indices",
    "factor",
    "from_edges",
    "from_foppl",
    "from_networkx",
    "from_pyro",
    "let",
    "observe",
    "program",
    "sample",
]
