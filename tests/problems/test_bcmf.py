"""Binary-continuous matrix factorization: its prior, metrics and picture."""

import pytest
import torch
from matplotlib.figure import Figure
from torch.testing import assert_close

from gsdm_pyg import Role
from problems import BCMF
from tests.problems.draws import draw_batch, draw_list


def test_the_prior_is_bernoulli_0_3_and_uniform():
    values = draw_batch(BCMF(m=40, n=50, k=20), 10)
    A, R = values["A"], values["R"].float()  # 8,000 and 10,000 entries
    assert abs(R.mean() - 0.3) < 3 * (0.3 * 0.7 / R.numel()) ** 0.5
    assert A.min() >= 0 and A.max() <= 1
    assert abs(A.mean() - 0.5) < 3 * (1 / 12 / A.numel()) ** 0.5
    assert abs(A.var() - 1 / 12) < 0.005
    quantiles = A.flatten().quantile(torch.tensor([0.1, 0.5, 0.9]))
    assert_close(quantiles, torch.tensor([0.1, 0.5, 0.9]), rtol=0, atol=0.03)


def test_the_truth_reconstructs_itself():
    problem = BCMF(m=8, n=8, k=4)
    for truth in draw_list(problem, 10):
        assert problem.metrics(truth, truth)["rmse"] < 1e-6


def test_relabelling_the_rank_reconstructs_as_well():
    problem = BCMF(m=4, n=5, k=3)
    (truth,) = draw_list(problem, 1)
    order = [2, 0, 1]
    relabelled = {"A": truth["A"][:, order], "R": truth["R"][order]}
    assert problem.metrics({**truth, **relabelled}, truth)["rmse"] < 1e-6


def test_rmse_scores_a_times_r_and_not_the_sampled_e():
    problem = BCMF(m=1, n=2, k=1)
    truth = {"E": torch.tensor([[1.0, 0.0]])}
    guess = {"A": torch.tensor([[0.5]]), "R": torch.tensor([[1, 1]]), "E": truth["E"]}
    assert problem.metrics(guess, truth)["rmse"] == pytest.approx(0.5)


def test_answers_from_the_prior_are_far_off():
    problem = BCMF(m=8, n=8, k=4)
    truths, guesses = draw_list(problem, 64, seed=0), draw_list(problem, 64, seed=1)
    errors = [
        problem.metrics(guess, truth)["rmse"]
        for guess, truth in zip(guesses, truths, strict=True)
    ]
    assert sum(errors) / 64 == pytest.approx(0.79, abs=0.05)


def test_the_picture_shows_a_r_their_product_and_e():
    problem = BCMF(m=3, n=5, k=2)
    sample, truth = draw_list(problem, 2)
    figure = problem.plot(sample, truth)
    assert isinstance(figure, Figure)
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in panels] == ["A", "R", "A R", "E"]
    R = sample["R"].float()
    for ax, matrix in zip(
        panels, [sample["A"], R, sample["A"] @ R, truth["E"]], strict=True
    ):
        assert_close(torch.tensor(ax.images[0].get_array()), matrix)


# nothing given


def test_given_nothing_the_graph_is_the_same_and_nothing_is_observed():
    given, free = (BCMF(m=2, n=3, k=2, given=given) for given in ("E", "nothing"))
    graph = free.graphical_model()
    assert graph.variables["E"].role is Role.LATENT
    assert not any(mask.any() for mask in free.observe().values())
    edges = given.graphical_model().edge_index().as_tensor()
    assert torch.equal(graph.edge_index().as_tensor(), edges)


def test_given_nothing_rmse_is_between_the_sampled_e_and_the_sampled_a_r():
    problem = BCMF(m=1, n=2, k=1, given="nothing")
    sample = {
        "A": torch.tensor([[0.5]]),
        "R": torch.tensor([[1, 0]]),
        "E": torch.tensor([[0.5, 1.0]]),
    }
    truth = {"E": torch.tensor([[7.0, 7.0]])}
    assert problem.metrics(sample, truth)["rmse"] == pytest.approx(0.5**0.5)


def test_given_nothing_the_picture_shows_the_sampled_e():
    problem = BCMF(m=3, n=5, k=2, given="nothing")
    sample, truth = draw_list(problem, 2)
    shown = problem.plot(sample, truth).axes[3].images[0].get_array()
    assert_close(torch.tensor(shown), sample["E"])
