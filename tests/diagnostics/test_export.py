"""Samples as a data frame, for ArviZ, and as a picture of marginals and pairs."""

import logging
import math

import pytest
import torch

from gsdm_pyg.diagnostics import plot_posterior, to_arviz, to_dataframe
from problems import BCMF
from tests.problems.draws import seeded

PROBLEM = BCMF(m=2, n=2, k=1)


@pytest.fixture
def samples():
    drawn = PROBLEM.sample_batch(30, seeded())
    return {name: drawn[name] for name in ("A", "R", "E")}


def test_a_data_frame_has_a_row_per_sample_and_a_column_per_entry(samples):
    pytest.importorskip("pandas")
    frame = to_dataframe(samples)
    assert list(frame) == [
        "A[0,0]",
        "A[1,0]",
        "R[0,0]",
        "R[0,1]",
        *(f"E[{i},{j}]" for i in range(2) for j in range(2)),
    ]
    assert len(frame) == 30
    assert frame["A[1,0]"].tolist() == samples["A"][:, 1, 0].tolist()
    assert frame["R[0,1]"].dtype == "int64"


def test_arviz_gets_one_chain_and_what_was_given(samples):
    pytest.importorskip("arviz")
    given = {"E": samples["E"][0]}
    data = to_arviz(samples, given, PROBLEM)
    assert data["posterior"]["A"].shape == (1, 30, 2, 1)
    assert set(data["posterior"].data_vars) == {"A", "R"}
    assert torch.equal(torch.tensor(data["observed_data"]["E"].values), given["E"])
    partly = {"E": given["E"].clone().fill_(math.nan)}
    predictive = to_arviz(samples, partly, PROBLEM)["posterior_predictive"]
    assert set(predictive.data_vars) == {"E"}


def test_arviz_refuses_what_does_not_fit(samples):
    pytest.importorskip("arviz")
    with pytest.raises(ValueError, match=r"got 'E' with \(3,\)"):
        to_arviz(samples, {"E": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"got 'A' with \(30, 2, 1\)"):
        to_arviz(samples, problem=BCMF(m=3, n=2, k=1))


def test_a_corner_plot_shows_marginals_pairs_and_the_truth(samples):
    truth = {name: value[0] for name, value in samples.items()}
    figure = plot_posterior(samples, truth, names=["A", "R[0, 1]"])
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["A[0,0]", "A[1,0]", "R[0,1]"]
    first = figure.axes[0]
    assert first.lines[0].get_xdata()[0] == pytest.approx(truth["A"][0, 0].item())


def test_a_corner_plot_says_what_it_leaves_out(caplog):
    samples = {"x": torch.randn(20, 11, generator=seeded())}
    with caplog.at_level(logging.WARNING):
        figure = plot_posterior(samples)
    assert "8 of 11 entries are shown" in caplog.text
    assert len([a for a in figure.axes if a.get_title()]) == 8


def test_counts_are_drawn_without_a_tick_for_each():
    figure = plot_posterior({"n": torch.arange(100)})
    assert len(figure.axes[0].get_xticks()) < 30


def test_a_corner_plot_refuses_unknown_names_and_constant_samples(samples):
    with pytest.raises(ValueError, match=r"variables A, R, E.*\(got 'Q'\)"):
        plot_posterior(samples, names=["Q"])
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_posterior({"x": torch.ones(5, 2)})
