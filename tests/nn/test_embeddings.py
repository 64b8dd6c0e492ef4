"""Embeddings of time, positions and single nodes against their formulas."""

import math

import pytest
import torch
from torch.testing import assert_close

from gsdm_pyg.nn.embeddings import (
    EmbeddingRows,
    IndependentEmbedding,
    PositionEmbedding,
    Sinusoids,
    TimeEmbedding,
)


def frequency(i, half):
    return 10_000 ** (-i / (half - 1))


@pytest.mark.parametrize("num_coordinates", [1, 2, 3])
def test_coordinates_use_the_sinusoids_in_turn(num_coordinates):
    position = torch.randint(-3, 50, (7, num_coordinates))
    found = Sinusoids(12)(position)
    assert found.shape == (7, 12)
    for r, i in torch.cartesian_prod(torch.arange(7), torch.arange(6)).tolist():
        angle = position[r, i % num_coordinates].item() * frequency(i, 6)
        assert found[r, i].item() == pytest.approx(math.sin(angle), abs=1e-5)
        assert found[r, 6 + i].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_sinusoids_refuse_more_coordinates_than_frequencies():
    with pytest.raises(ValueError, match=r"3 coordinates need .* 6 \(got 4\)"):
        Sinusoids(4)(torch.zeros(2, 3, dtype=torch.long))


def test_time_embedding_is_a_perceptron_of_sinusoids():
    embedding, t = TimeEmbedding(8), torch.tensor([0, 500, 999])
    first, _, second = embedding.layers
    hidden = Sinusoids(8)(t[:, None]) @ first.weight.T + first.bias
    expected = (hidden * hidden.sigmoid()) @ second.weight.T + second.bias
    assert_close(embedding(t), expected)


def rows(variable, position, graph=None):
    """Embedding rows, each with a node of its own."""
    return EmbeddingRows(
        row_id=torch.arange(len(variable)),
        row_variable=variable,
        row_position=position,
        row_graph=torch.zeros_like(variable) if graph is None else graph,
    )


def test_nodes_without_positions_have_the_vector_of_their_variable():
    embedding = PositionEmbedding(3, 8)
    variable = torch.tensor([2, 0, 2, 1])
    found = embedding(rows(variable, torch.empty(4, 0, dtype=torch.long)))
    assert torch.equal(found, embedding.weight[variable])


def test_positions_add_the_same_sinusoids_to_every_variable():
    embedding = PositionEmbedding(2, 8)
    variable, position = torch.tensor([0, 1]), torch.tensor([[4, 1], [4, 1]])
    shift = embedding(rows(variable, position)) - embedding.weight
    assert_close(shift, Sinusoids(8)(position))


def test_positions_differ_in_every_coordinate():
    embedding = PositionEmbedding(1, 16)
    position = torch.cartesian_prod(torch.arange(9), torch.arange(9), torch.arange(9))
    found = embedding(rows(torch.zeros(len(position), dtype=torch.long), position))
    distance = torch.cdist(found, found) + 9 * torch.eye(len(found))
    assert distance.min() > 0.01


def numbered(*sizes):
    """Embedding rows of graphs in which each node has its number as position."""
    number = torch.cat([torch.arange(size) for size in sizes])
    graph = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return rows(torch.zeros_like(number), number[:, None], graph)


def test_independent_embeddings_give_each_node_its_own_vector():
    embedding = IndependentEmbedding(5, 8)
    found = embedding(numbered(5, 5))
    assert torch.equal(found, embedding.weight.repeat(2, 1))


def test_independent_embeddings_refuse_graphs_of_another_size():
    for sizes in [(4,), (6,), (5, 4), (4, 6), (4, 5, 6), (10,)]:
        wrong = next(size for size in sizes if size != 5)
        with pytest.raises(ValueError, match=rf"the 5 nodes.*\(got {wrong} nodes\)"):
            IndependentEmbedding(5, 8)(numbered(*sizes))
