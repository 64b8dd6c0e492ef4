"""Evaluation: fresh instances by seed, scored by the problem's own metrics."""

from __future__ import annotations

import math

import pytest
import torch

from gsdm_pyg import GraphDiffusion, SamplerSettings
from gsdm_pyg.evaluation import as_json, evaluate, label, prior_metrics
from problems import BCMF
from tests.helpers import CopyTask, assert_identical, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)


@pytest.fixture(scope="module")
def model():
    return tiny_model(PROBLEM)


def score(model, num_instances=4, **arguments):
    return model.evaluate(PROBLEM, num_instances, steps=3, **arguments)


def test_metrics_are_means_over_the_instances(model):
    result = score(model)
    assert len(result.samples) == len(result.truths) == 4
    errors = [
        (truth["E"] - sample["A"] @ sample["R"].float()).square().mean().sqrt().item()
        for sample, truth in zip(result.samples, result.truths, strict=True)
    ]
    assert result.metrics["rmse"] == pytest.approx(sum(errors) / 4)


def test_a_summary_averages_each_metric_over_the_instances_that_have_it():
    class Partial(CopyTask):
        partial = ("b",)

    problem = Partial(n=2)
    scores = [{"a": 1.0, "b": 0.0}, {"a": 2.0, "b": math.nan}]
    assert problem.summary(scores) == {"a": 1.5, "b": 0.0}


def test_a_sample_that_is_not_finite_spoils_the_summary():
    assert math.isnan(PROBLEM.summary([{"rmse": 0.1}, {"rmse": math.nan}])["rmse"])


def test_answers_keep_what_was_observed(model):
    result = score(model)
    for sample, truth in zip(result.samples, result.truths, strict=True):
        assert torch.equal(sample["E"], truth["E"])
        assert not torch.equal(sample["A"], truth["A"])


def test_true_answers_make_no_error(model, monkeypatch):
    monkeypatch.setattr(GraphDiffusion, "sample", lambda self, batch, *_: batch.x)
    assert score(model).metrics["rmse"] == pytest.approx(0, abs=1e-6)


def test_evaluation_is_a_function_of_its_seed(model, untouched_random_state):
    first, again, other = score(model), score(model), score(model, seed=1)
    assert first.metrics == again.metrics
    for one, two in zip(first.samples, again.samples, strict=True):
        assert_identical(one, two)
    assert first.metrics != other.metrics


def test_a_diffusion_without_its_model_is_evaluated_alike(model):
    sampler = SamplerSettings(steps=3)
    alone = evaluate(model.diffusion, PROBLEM, 4, sampler, max_nodes=30)
    assert alone.metrics == score(model, max_nodes=30).metrics


def test_all_models_answer_the_same_instances(model):
    other = tiny_model(PROBLEM, seed=1)
    for one, two in zip(score(model).truths, score(other).truths, strict=True):
        assert_identical(one, two)


def test_small_batches_hold_every_instance(model):
    result = score(model, max_nodes=30)
    assert len(result.samples) == 4
    assert torch.stack([t["A"] for t in result.truths]).unique(dim=0).size(0) == 4
    for one, two in zip(result.truths, score(model).truths, strict=True):
        assert_identical(one, two)


def test_a_problem_larger_than_those_of_training_is_evaluated(model):
    result = model.evaluate(BCMF(m=5, n=4, k=3), num_instances=2, steps=2)
    assert result.samples[1]["C"].shape == (5, 4, 3)


def test_fewer_instances_than_one_are_refused(model):
    for num_instances in [0, -1]:
        message = rf"num_instances must be .*at least 1 \(got {num_instances}\)"
        with pytest.raises(ValueError, match=message):
            score(model, num_instances)
        with pytest.raises(ValueError, match=message):
            prior_metrics(PROBLEM, num_instances)


def test_prior_answers_of_bcmf_have_the_error_of_independent_draws():
    # E - A' R' is the difference of two independent sums of k terms A R, each of
    # variance 0.3 / 3 - 0.15^2.
    expected = (2 * 4 * (0.1 - 0.15**2)) ** 0.5
    found = prior_metrics(BCMF(m=8, n=8, k=4), num_instances=64)["rmse"]
    assert found == pytest.approx(expected, rel=0.05)


def test_prior_metrics_are_a_function_of_the_seed(untouched_random_state):
    assert prior_metrics(PROBLEM, 4, seed=1) == prior_metrics(PROBLEM, 4, seed=1)
    assert prior_metrics(PROBLEM, 4, seed=1) != prior_metrics(PROBLEM, 4, seed=2)


def test_label_names_the_problem_and_its_sizes():
    assert label(BCMF(m=8, n=8, k=4)) == "BCMF(m=8,n=8,k=4)"
    assert label(CopyTask(n=3)) == "CopyTask(n=3)"


def test_prior_answers_are_scored_on_the_instances_of_evaluate(monkeypatch):
    scored = []

    def metrics(self, sample, truth, observed):
        scored.append(torch.cat([truth["R"], observed["R"]]))
        return {"rmse": 0.0}

    monkeypatch.setattr(BCMF, "metrics", metrics)
    model = tiny_model(PROBLEM, observe="mixed")
    model.evaluate(PROBLEM, num_instances=3, steps=1, seed=4)
    prior_metrics(PROBLEM, num_instances=3, seed=4, observe="mixed")
    for ours, priors in zip(scored[:3], scored[3:], strict=True):
        assert torch.equal(ours, priors)


def test_metrics_that_are_not_a_number_are_null_in_json():
    assert as_json({"a": 0.5, "b": math.nan}) == {"a": 0.5, "b": None}
