"""Which nodes exchangeable embeddings distinguish, problem by problem."""

from itertools import product

import pytest

from gsdm_pyg.data import structure
from gsdm_pyg.problem import graph_of
from gsdm_pyg.view import GraphView
from problems import (
    BCMF,
    BooleanCircuit,
    HierarchicalBCMF,
    MatrixInversion,
    Sorting,
    StateSpace,
    Sudoku,
)


def nothing(*index):
    return ()


def all_of(*index):
    return index


# For each variable, the part of an index that the embedding depends on.
CASES = {
    BCMF(2, 3, 4): {"A": nothing, "R": nothing, "C": nothing, "E": nothing},
    HierarchicalBCMF(2, 3, 4): {
        "A": lambda i, term: term,
        "R": lambda term, j: term,
        "C": lambda i, j, term: term,
        "E": nothing,
        "K": nothing,
        "D": all_of,
    },
    MatrixInversion(3): {"A": nothing, "R": nothing, "C": nothing, "E": nothing},
    Sorting(4): {
        "u": nothing,
        "P": lambda i, j: i,
        "C": lambda i, j: i,
        "s": all_of,
    },
    Sudoku(2, 3): {"cells": lambda i, j: (i, j // 3)},
    BooleanCircuit(3): {"x": all_of, "h": all_of, "y": nothing},
    StateSpace(4): {"x": nothing, "y": nothing},
}


@pytest.mark.parametrize("problem", CASES, ids=str)
def test_nodes_share_an_embedding_where_their_order_does_not_matter(problem):
    expected = {}
    for name, variable in graph_of(problem).variables.items():
        for index in product(*(range(size) for size in variable.shape)):
            expected[len(expected)] = name, CASES[problem][name](*index)
    label_id = structure(problem).label_id.tolist()
    for i, j in product(expected, repeat=2):
        assert (label_id[i] == label_id[j]) == (expected[i] == expected[j])


def test_the_shared_embedding_is_the_same_for_all_cells_of_a_sudoku():
    shared = structure(Sudoku(2, 3), GraphView("shared"))
    assert shared.label_id.unique().tolist() == [0]
