"""Random streams by purpose and key."""

import torch

from gsdm_pyg.seeding import keyed_generator


def test_streams_of_other_purposes_and_keys_differ():
    keys = [("a", 1), ("b", 1), ("a", 2), ("a", 1, 0), ("a", 0, 1), ("a",), ("a", 0)]
    draws = [torch.rand((), generator=keyed_generator(*key)).item() for key in keys]
    assert len(set(draws)) == len(keys)
    again = [torch.rand((), generator=keyed_generator(*key)).item() for key in keys]
    assert draws == again
