"""Which nodes exchangeable embeddings distinguish, problem by problem."""

from itertools import product

import pytest

from gsdm_pyg.data import structure
from gsdm_pyg.problem import graph_of
from gsdm_pyg.settings import GraphOptions
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


# For each variable, what of an index the embedding depends on.
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
    row_id = structure(problem).embedding["row_id"].tolist()
    for i, j in product(expected, repeat=2):
        assert (row_id[i] == row_id[j]) == (expected[i] == expected[j])


def test_all_cells_of_a_sudoku_share_one_embedding():
    shared = structure(Sudoku(2, 3), GraphOptions(embedding="shared"))
    assert shared.embedding["row_id"].unique().tolist() == [0]
