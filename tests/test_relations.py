"""Relations of nodes: drawn evenly, and composed as sets of pairs are."""

from itertools import combinations

import torch
from hypothesis import given
from hypothesis import strategies as st

from gsdm_pyg.relations import compose, random_relation


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_a_random_relation_depends_on_the_generator_alone(untouched_random_state):
    first, again, other = (random_relation(30, 5, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_all_sets_of_others_are_equally_likely():
    generator, counts = seeded(0), {}
    for _ in range(600):
        source, target = random_relation(5, 2, generator)
        for node in range(5):
            others = node, frozenset(source[target == node].tolist())
            counts[others] = counts.get(others, 0) + 1
    assert set(counts) == {
        (node, frozenset(others))
        for node in range(5)
        for others in combinations(set(range(5)) - {node}, 2)
    }
    deviation = (600 * 1 / 6 * 5 / 6) ** 0.5
    assert all(abs(count - 100) < 4 * deviation for count in counts.values())


def test_a_random_relation_favors_no_node():
    source, target = random_relation(400, 20, seeded(0))
    counts = ((source - target) % 400).bincount(minlength=400)
    assert counts[0] == 0
    share = 20 / 399  # the chance of attending to the node d places further
    deviation = (400 * share * (1 - share)) ** 0.5
    assert (counts[1:] - 400 * share).abs().max() < 5 * deviation
    assert abs(source.bincount().double().std() - (20 * (1 - share)) ** 0.5) < 0.7


relations = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@given(relations, relations)
def test_compose_finds_each_pair_once_per_shared_middle(left, right):
    found = compose(*(torch.tensor(p).view(-1, 2).long().t() for p in (left, right)))
    expected = [(a, d) for a, b in left for c, d in right if b == c]
    assert sorted(map(tuple, found.t().tolist())) == sorted(expected)
