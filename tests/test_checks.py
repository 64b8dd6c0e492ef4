"""Checks at the boundary that several modules share."""

from typing import Literal

import pytest

from gsdm_pyg import StructuredAttentionConv
from gsdm_pyg.checks import check_choice


def test_choice_outside_the_literal_is_refused_by_name():
    check_choice("mode", "a", Literal["a", "b"])
    with pytest.raises(ValueError, match=r"mode is one of a, b \(got 'c'\)"):
        check_choice("mode", "c", Literal["a", "b"])


def test_layer_refuses_an_unknown_backend():
    with pytest.raises(ValueError, match="got 'dense'"):
        StructuredAttentionConv(4, 4, backend="dense")
