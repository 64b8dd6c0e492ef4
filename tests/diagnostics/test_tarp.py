"""Distances to reference points: by hand, and the coverage of an exact sampler."""

import pytest
import torch

from gsdm_pyg.diagnostics.ranks import ranks, ranks_pvalue
from gsdm_pyg.diagnostics.tarp import reference_distances
from tests.helpers import seeded


def test_distance_by_hand():
    draws = {
        "a": torch.tensor([[[1.0, 5.0], [3.0, 2.0]]]),  # [1, 2, 2]
        "z": torch.tensor([[2, 1]]),
    }
    reference = {"a": torch.tensor([[0.0, 0.0]]), "z": torch.tensor([1])}
    unknown = {"a": torch.tensor([[True, True]]), "z": torch.tensor([True])}
    found = reference_distances(draws, reference, unknown, {"a": 2.0, "z": None})
    squared = [(1 + 25) / 2 / 4 + 1, (9 + 4) / 2 / 4]
    assert found.square().flatten().tolist() == pytest.approx(squared)


def test_known_entries_do_not_count():
    draws = {"a": torch.tensor([[[1.0, 5.0], [3.0, 2.0]]] * 2)}
    reference = {"a": torch.zeros(2, 2)}
    unknown = {"a": torch.tensor([[False, True], [False, False]])}
    found = reference_distances(draws, reference, unknown, {"a": 1.0})
    assert found[0].tolist() == [5, 2]
    assert found[1].isnan().all()


def joint_ranks(correlation, num=2000):
    """Truths of a correlated Gaussian pair; samples have another correlation."""
    generator = seeded(0)
    base = torch.randn(num, 31, 2, generator=generator)
    pair = base.clone()
    for part, r in ((slice(0, 1), 0.9), (slice(1, None), correlation)):
        along = r * base[:, part, 0] + (1 - r**2) ** 0.5 * base[:, part, 1]
        pair[:, part, 1] = along
    reference = 2 * torch.randn(num, 2, generator=generator)
    unknown = torch.ones(num, 2, dtype=torch.bool)
    distance = reference_distances(
        {"a": pair}, {"a": reference}, {"a": unknown}, {"a": 1.0}
    )
    return ranks(distance, generator), [ranks(pair[..., i], generator) for i in (0, 1)]


def test_an_exact_sampler_has_uniform_ranks_of_distances():
    assert ranks_pvalue(joint_ranks(0.9)[0], 30) > 0.01


def test_a_wrong_correlation_is_found_where_both_marginals_are_right():
    joint, marginals = joint_ranks(0.0)
    assert ranks_pvalue(joint, 30) < 1e-3
    assert all(ranks_pvalue(marginal, 30) > 0.01 for marginal in marginals)
