"""The module that trains: its steps, its data and its limits."""

from __future__ import annotations

import pytest
import torch

from gsdm_pyg.settings import TrainingSettings
from gsdm_pyg.training import Training
from problems import BCMF
from tests.helpers import assert_identical, tiny_model
from tests.training.runs import watched


def test_problem_that_does_not_fit_the_model_is_refused_before_training():
    source = BCMF(m=3, n=3, k=2)
    diffusion = tiny_model(source, embedding="independent").diffusion
    settings = TrainingSettings.from_keywords(
        {"evaluation": {"problems": [{"m": 4, "n": 1, "k": 1}]}}
    )
    with pytest.raises(ValueError, match=r"one size, A \[3, 2\].*\(got A \[4, 1\]"):
        Training(diffusion, source, settings)


def test_state_holds_the_diffusion_and_nothing_else():
    training = Training(tiny_model().diffusion, BCMF(m=2, n=3, k=2))
    expected = {f"diffusion.{name}" for name in training.diffusion.state_dict()}
    assert set(training.state_dict()) == expected


@pytest.mark.slow
def test_steps_are_a_function_of_the_seed():
    first, again = watched(4), watched(4)
    assert_identical(first.diffusion.state_dict(), again.diffusion.state_dict())
    assert not torch.equal(first.seen[0], first.seen[1])


@pytest.mark.slow
def test_worker_process_gives_the_same_weights():
    here, there = watched(5), watched(5, num_workers=1)
    assert_identical(here.diffusion.state_dict(), there.diffusion.state_dict())


@pytest.mark.slow
def test_finite_data_set_shows_only_its_examples():
    problem = BCMF(m=2, n=2, k=1)
    training = watched(8, source=problem, num_examples=3, batch_size=4)
    size = training.seen[0].size(0) // 4
    seen = torch.cat([x.view(4, size, -1) for x in training.seen])
    assert seen.unique(dim=0).size(0) == 3
    first, last = training.weights[0], training.weights[-1]
    assert not torch.equal(
        first["denoiser.output.weight"], last["denoiser.output.weight"]
    )


@pytest.mark.slow
def test_node_budget_bounds_every_batch():
    training = watched(5, batch_size=50, max_nodes=100)
    sizes = [x.size(0) for x in training.seen]
    assert max(sizes) <= 100
    assert min(sizes) > 100 - 2 * 33  # the largest problem has 33 nodes


@pytest.mark.slow
def test_gradient_is_clipped_to_the_norm_of_the_settings():
    training = watched(3, optimizer={"clip": 1e-3})
    assert training.norms == pytest.approx([1e-3] * 3, rel=1e-3)
