"""Tracing random programs misses no dependence, and has few too many."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs.random_programs import POOL, Statement, compare, draw

STATEMENTS = st.builds(
    Statement,
    st.integers(0, len(POOL) - 1),
    st.integers(0, 11),
    st.integers(0, 11),
    st.integers(0, 2),
)


@settings(max_examples=150)
@given(st.lists(STATEMENTS, min_size=5, max_size=12))
def test_no_dependence_of_a_random_program_is_missed(program):
    assert compare(program)[0] == 0


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.lists(STATEMENTS, min_size=5, max_size=12))
def test_no_dependence_of_many_random_programs_is_missed(program):
    assert compare(program)[0] == 0


@pytest.mark.slow
def test_few_dependencies_are_too_many():
    counts = [compare(draw(seed), num_draws=80) for seed in range(60)]
    missed, extra, found = map(sum, zip(*counts, strict=True))
    assert missed == 0
    assert extra < 0.05 * found
