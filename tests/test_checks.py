from typing import Literal

import pytest

from gsdm_pyg import GSDM, StructuredAttentionConv
from gsdm_pyg.checks import check_choice
from problems import BCMF


def test_choice_outside_the_literal_is_refused_by_name():
    check_choice("mode", "a", Literal["a", "b"])
    with pytest.raises(ValueError, match=r"mode is one of a, b \(got 'c'\)"):
        check_choice("mode", "c", Literal["a", "b"])


@pytest.mark.parametrize(
    "setting",
    [
        {"schedule": "cosin"},
        {"discrete_loss": "xent"},
        {"continuous_loss": "eps"},
        {"backend": "scater"},
        {"observe": "mix"},
    ],
)
def test_misspelt_modes_of_a_model_are_refused(setting):
    (value,) = setting.values()
    with pytest.raises(ValueError, match=f"got '{value}'"):
        GSDM.from_problem(BCMF(2, 2, 1), width=8, layers=1, **setting)


def test_layer_refuses_an_unknown_backend():
    with pytest.raises(ValueError, match="got 'dense'"):
        StructuredAttentionConv(4, 4, backend="dense")
