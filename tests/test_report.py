"""Which setting a report chooses, and what it measures on."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
import torch

from gsdm_pyg import GraphicalModel, Problem
from gsdm_pyg.energy import EnergyScore
from gsdm_pyg.evaluation import evaluate
from gsdm_pyg.report import Report, candidates, choose_metric, measure
from gsdm_pyg.seeding import as_seed, keyed_generator
from gsdm_pyg.settings import SamplerSettings
from problems import BCMF
from tests.diagnostics.samplers import Regression
from tests.helpers import CopyTask, seeded, tiny_model

NAN = math.nan


class Scored(Problem, register=False):
    """Metrics of every kind: less is better, more is better, and best at 1."""

    best_values: ClassVar = {"share": 1.0, "spread": 1.0, "likelihood": math.inf}
    partial = ("share",)

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        graph.add_variable("x", ())
        return graph

    def sample(self, generator=None):
        return {"x": torch.randn((), generator=generator)}

    def metrics(self, sample, truth):
        return dict.fromkeys(("error", "share", "spread", "likelihood"), 0.0)


def report(metric: str, *scores: list[float]) -> Report:
    """One setting per list of scores, with 1, 2, ... evaluations."""
    by_setting = {
        SamplerSettings(steps=i + 1): [{metric: value} for value in values]
        for i, values in enumerate(scores)
    }
    return Report(Scored(), metric, by_setting)


def chosen(metric: str, *scores: list[float]) -> int:
    return report(metric, *scores).chosen.sampler.evaluations


def test_cheapest_within_one_standard_error_is_chosen():
    noise = torch.randn(100, generator=seeded(0)).tolist()
    best = [1.0] * 100
    near = [1.05 + n for n in noise]  # 0.05 behind, with a standard error of 0.1
    far = [1.5 + n for n in noise]
    assert chosen("error", far, near, best) == 2


def test_a_setting_that_more_evaluations_leave_again_is_not_chosen():
    noise = torch.randn(100, generator=seeded(0)).tolist()
    near, far = [1.05 + n for n in noise], [1.5 + n for n in noise]
    assert chosen("error", near, [1.0] * 100) == 1
    assert chosen("error", near, far, [1.0] * 100) == 3  # 1 is near by chance


def test_differences_are_paired_over_instances():
    """Instances differ by far more than settings, which a paired difference ignores."""
    hard = (100 * torch.rand(50, generator=seeded(0))).tolist()
    assert chosen("error", [h + 1 for h in hard], hard) == 2


def test_standard_error_is_that_of_a_mean():
    values = torch.randn(400, generator=seeded(0)).double()
    (row,) = report("error", values.tolist()).rows
    assert row.value == pytest.approx(values.mean().item())
    assert row.error == pytest.approx(values.std().item() / 20, rel=0.2)


@pytest.mark.parametrize(
    ("metric", "worse", "better"),
    [
        ("error", 0.3, 0.2),  # 0 is best where a problem says nothing
        ("share", 0.8, 0.9),
        ("spread", 1.3, 1.1),
        ("spread", 0.7, 1.1),
        ("likelihood", -2.0, 3.0),
    ],
)
def test_best_is_closest_to_the_best_value(metric, worse, better):
    assert chosen(metric, [worse] * 4, [better] * 4) == 2


def test_of_equally_good_settings_the_cheapest_is_chosen():
    assert chosen("share", [0.5] * 4, [1.0] * 4, [1.0] * 4) == 2


def test_of_equally_cheap_settings_the_better_is_chosen():
    noise = torch.randn(100, generator=seeded(0)).tolist()
    by_solver = {
        SamplerSettings(steps=2, solver="ddpm"): [{"error": 1.05 + n} for n in noise],
        SamplerSettings(steps=2, solver="ddim"): [{"error": 1.0}] * 100,
    }
    assert Report(Scored(), "error", by_solver).chosen.sampler.solver == "ddim"


def test_settings_without_a_value_are_never_chosen():
    assert chosen("error", [NAN, 0.0, 0.0], [1.0] * 3) == 2
    assert chosen("share", [NAN] * 3, [0.5] * 3) == 2


def test_partial_metric_counts_the_instances_that_have_it():
    assert chosen("share", [0.0, NAN, 0.0], [NAN, 1.0, 1.0]) == 2


def test_metric_that_no_instance_has_is_rejected():
    with pytest.raises(ValueError, match=r"share is not defined.*got NaN"):
        _ = report("share", [NAN] * 3).rows


def test_candidates_are_all_solvers_and_spacings_and_the_models_own():
    own = SamplerSettings(steps=7, solver="ddpm", spacing="time")
    found = candidates(own, 1000, [5, 10])
    assert len(found) == len(set(found)) == 4 * 2 * 2 + 1
    assert found[-1] == own


def test_restarts_are_tried_within_the_evaluations():
    own = SamplerSettings(steps=50, solver="ddpm", spacing="time", restarts=8)
    found = candidates(own, 1000, [20, 210])
    repeated = [sampler for sampler in found if sampler.restarts]
    assert {sampler.solver for sampler in repeated} == {"ddpm", "dpm++_sde"}
    assert all(sampler.evaluations <= 210 for sampler in repeated)
    assert own in repeated  # 50 + 8 * 20


def test_evaluations_beyond_the_diffusion_are_rejected():
    with pytest.raises(ValueError, match=r"num_timesteps, 10 \(got 11\)"):
        candidates(SamplerSettings(steps=5), 10, [5, 11])
    assert {s.steps for s in candidates(SamplerSettings(steps=3), 3)} == {3}


def test_metric_is_the_first_with_a_best_value_or_the_one_named():
    assert choose_metric(Scored()) == "share"
    assert choose_metric(Scored(), "error") == "error"
    assert choose_metric(BCMF(m=2, n=2, k=1)) == "rmse"
    with pytest.raises(ValueError, match=r"are rmse \(got 'valid'\)"):
        choose_metric(BCMF(m=2, n=2, k=1), "valid")


class Inherited(CopyTask, register=False):
    """The default errors, and whether all is right."""

    def metrics(self, sample, truth):
        right = float(torch.equal(sample["z"], truth["z"]))
        return {**Problem.metrics(self, sample, truth), "right": right}


def test_without_a_metric_of_its_own_a_problem_gets_the_energy_score():
    assert choose_metric(Regression(n=2)) == "energy score"
    assert choose_metric(Regression(n=2), "energy score") == "energy score"
    assert choose_metric(Regression(n=2), "rmse_x") == "rmse_x"
    with pytest.raises(ValueError, match=r"are rmse_x, energy score \(got 'rmse'\)"):
        choose_metric(Regression(n=2), "rmse")
    assert choose_metric(CopyTask(n=2)) == "rmse"
    assert choose_metric(Inherited(n=2)) == "right"
    with pytest.raises(ValueError, match=r"are rmse \(got 'energy score'\)"):
        choose_metric(BCMF(m=2, n=2, k=1), "energy score")


def test_energy_score_is_that_of_two_different_answers():
    problem = Regression(n=2)
    model, sampler = tiny_model(problem), SamplerSettings(steps=2)
    scores = measure(model, problem, [sampler], 3)[sampler]
    assert all(score.keys() == {"rmse_x", "energy score"} for score in scores)
    own_seed = as_seed(keyed_generator("report", 0))
    first, second = (
        evaluate(model.diffusion, problem, 3, sampler, own_seed, draw=draw)
        for draw in (0, 1)
    )
    for answers in (first, second):
        torch.testing.assert_close(answers.truths, first.truths, rtol=0, atol=0)
    energy_score = EnergyScore(problem)
    for i, score in enumerate(scores):
        pair = (first.samples[i], second.samples[i])
        assert not torch.equal(pair[0]["x"], pair[1]["x"])
        expected = energy_score(pair, first.truths[i], first.observed[i])
        assert score["energy score"] == expected
        assert score["rmse_x"] == first.scores[i]["rmse_x"]
    total = sum(score["energy score"] for score in scores)
    found = Report(problem, "energy score", {sampler: scores}).best.value
    assert found == pytest.approx(total / 3)


def test_report_goes_on_from_what_is_finished_and_shares_no_instance():
    model, problem = tiny_model(), BCMF(m=2, n=3, k=2)
    samplers = [SamplerSettings(steps=n) for n in (1, 2)]
    kept = []
    whole = measure(model, problem, samplers, 3, keep=lambda s: kept.append(dict(s)))
    assert kept == [{samplers[0]: whole[samplers[0]]}, whole]
    scripted = [{"rmse": 7.0}] * 3  # is not measured again
    rest = measure(model, problem, samplers, 3, finished={samplers[0]: scripted})
    assert rest == {samplers[0]: scripted, samplers[1]: whole[samplers[1]]}
    published = model.evaluate(problem, 3, seed=0, **samplers[1].model_dump())
    assert published.scores != whole[samplers[1]]
