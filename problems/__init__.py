"""The problems of the paper, each in one file that a user could have written."""

from problems.bcmf import BCMF
from problems.boolean_circuit import BooleanCircuit
from problems.hierarchical_bcmf import HierarchicalBCMF
from problems.matrix_inversion import MatrixInversion
from problems.sorting import Sorting
from problems.state_space import StateSpace
from problems.sudoku import Sudoku

__all__ = [
    "BCMF",
    "BooleanCircuit",
    "HierarchicalBCMF",
    "MatrixInversion",
    "Sorting",
    "StateSpace",
    "Sudoku",
]
