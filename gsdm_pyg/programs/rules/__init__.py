"""How the elements of an operator's results depend on the elements of its inputs.

Rules are for torch's internal (ATen) operators, which all functions of torch become.
They follow values, not derivatives: a comparison or a rounding depends on its inputs.
An operator without a rule is taken to depend on everything. Views need no rule: they
share memory, and dependence is stored per entry of memory.
"""

from gsdm_pyg.programs.rules.call import (
    Call,
    base_name,
    everything,
    tensors_in,
)
from gsdm_pyg.programs.rules.draws import draw, is_draw
from gsdm_pyg.programs.rules.table import rule_of

__all__ = [
    "Call",
    "base_name",
    "draw",
    "everything",
    "is_draw",
    "rule_of",
    "tensors_in",
]
