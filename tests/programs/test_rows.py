"""Rows of dependence agree with boolean matrices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gsdm_pyg.programs.rows import Rows, concatenate, empty, identity, union

NUM_NODES = 5


def _rows(table):
    element, node = np.nonzero(table)
    return Rows(len(table), element, node)


def _table(rows):
    table = np.zeros((rows.count, NUM_NODES), dtype=bool)
    table[rows.element, rows.node] = True
    return table


def _assert_sorted(rows):
    key = rows.element * NUM_NODES + rows.node
    assert (np.diff(key) > 0).all()


@st.composite
def tables(draw, count=None):
    count = draw(st.integers(0, 6)) if count is None else count
    bits = draw(st.lists(st.booleans(), min_size=count * 5, max_size=count * 5))
    return np.array(bits, dtype=bool).reshape(count, NUM_NODES)


@given(tables(4), st.lists(st.integers(-1, 3), max_size=9))
def test_take_reads_rows_and_minus_one_is_empty(table, positions):
    taken = _rows(table).take(np.array(positions, dtype=np.int64))
    padded = np.concatenate([table, np.zeros((1, NUM_NODES), dtype=bool)])
    np.testing.assert_array_equal(_table(taken), padded[positions])
    _assert_sorted(taken)


@given(tables(5), st.lists(st.integers(-1, 2), min_size=5, max_size=5))
def test_group_unites_rows(table, targets):
    grouped = _rows(table).group(np.array(targets), 3)
    expected = np.zeros((3, NUM_NODES), dtype=bool)
    for row, target in zip(table, targets, strict=True):
        if target >= 0:
            expected[target] |= row
    np.testing.assert_array_equal(_table(grouped), expected)
    _assert_sorted(grouped)


@given(tables(4), tables(4), tables(4))
def test_union_is_elementwise_or(first, second, third):
    joined = union([_rows(first), _rows(second), _rows(third)])
    np.testing.assert_array_equal(_table(joined), first | second | third)
    _assert_sorted(joined)


@given(tables(), tables())
def test_concatenate_appends(first, second):
    joined = concatenate([_rows(first), _rows(second)])
    np.testing.assert_array_equal(_table(joined), np.concatenate([first, second]))
    _assert_sorted(joined)


@given(tables(5), tables(2), st.permutations(range(5)))
def test_replace_changes_the_rows_at_positions_only(table, new, order):
    positions = np.array(order[:2])
    replaced = _rows(table).replace(positions, _rows(new))
    expected = table.copy()
    expected[positions] = new
    np.testing.assert_array_equal(_table(replaced), expected)
    _assert_sorted(replaced)


@given(tables(4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_keep_empties_the_other_rows(table, mask):
    kept = _rows(table).keep(np.array(mask))
    np.testing.assert_array_equal(_table(kept), table & np.array(mask)[:, None])


def test_identity_and_empty():
    np.testing.assert_array_equal(_table(identity(2, 3)), np.eye(5, dtype=bool)[2:])
    assert not empty(3)
    assert identity(0, 3).depends().all() and not empty(3).depends().any()
