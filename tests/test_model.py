"""GSDM from Python: what `given` takes, what samples are, what training reaches."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch

from gsdm_pyg import GSDM, SamplerSettings
from gsdm_pyg.problem import graph_of
from gsdm_pyg.settings import EvaluationSettings
from problems import BCMF
from tests.helpers import CopyTask, assert_identical, seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)
nan = math.nan


@pytest.fixture(scope="module")
def model() -> GSDM:
    return tiny_model(PROBLEM)


def draw(model: GSDM, given=None, problem=PROBLEM, seed=0, **arguments):
    arguments = {"steps": 3, **arguments}
    return model.sample(problem, given, generator=seeded(seed), **arguments)


def test_what_cannot_be_given_is_refused_by_name(model):
    with pytest.raises(ValueError, match=r"variables A, R, C, E \(got 'B'\)"):
        draw(model, {"B": torch.zeros(2, 3)})
    with pytest.raises(ValueError, match=r"'E'\] must have the shape \(2, 3\), or"):
        draw(model, {"E": torch.zeros(2)})
    with pytest.raises(ValueError, match=r"given\['R'\] takes classes 0\.\.1.*got 2"):
        draw(model, {"R": torch.full((2, 3), 2)})


def test_sampling_keeps_variables_given_whole(model):
    truth = PROBLEM.sample(seeded(5))
    R = truth["R"]
    for kind in (R, R.int(), R.bool().numpy(), R.double().tolist()):
        given = {"E": truth["E"], "R": kind, "A": truth["A"]}
        samples = draw(model, given, num_samples=3)
        for name in given:
            expected = truth[name].expand_as(samples[name])
            assert torch.equal(samples[name], expected), name


def test_sampling_keeps_entries_given_and_fills_nan_entries(model):
    truth = PROBLEM.sample(seeded(5))
    A = torch.tensor([[0.0, nan], [1.0, nan]])
    R = torch.tensor([[nan, 1.0, nan], [0.0, nan, 1.0]])
    E = truth["E"].clone()
    E[1] = nan
    given = {"A": A, "R": R, "E": E}
    samples = draw(model, given, num_samples=4)
    for name, value in given.items():
        known = ~value.isnan()
        kept = samples[name][:, known].to(value.dtype)
        assert torch.equal(kept, value[known].expand_as(kept)), name
        assert samples[name].isfinite().all(), name
    assert samples["A"][:, :, 1].unique().numel() > 4  # drawn, not put in


def test_variable_that_is_nan_throughout_is_not_given(model):
    given = {"E": torch.full((2, 3), nan)}
    assert_identical(draw(model, given), draw(model, {}))


def test_nothing_given_draws_every_variable_in_its_shape_and_domain(model):
    samples = draw(model, None, num_samples=20)
    assert {name: tuple(value.shape) for name, value in samples.items()} == {
        "A": (20, 2, 2),
        "R": (20, 2, 3),
        "C": (20, 2, 3, 2),
        "E": (20, 2, 3),
    }
    assert all(value.isfinite().all() for value in samples.values())
    assert all(samples[name].dtype == torch.float32 for name in "ACE")
    assert all(samples[name].unique().numel() > 3 for name in "ACE")
    assert samples["R"].dtype == torch.int64
    assert set(samples["R"].unique().tolist()) <= {0, 1}
    assert samples["A"].min() >= 0 and samples["A"].max() <= 1
    assert samples["C"].flatten(1).unique(dim=0).size(0) == 20  # all differ


def test_samples_are_a_function_of_the_generator(model, untouched_random_state):
    first, again, other = draw(model), draw(model), draw(model, seed=1)
    assert_identical(first, again)
    assert not torch.equal(first["C"], other["C"])


def test_dropout_does_not_reach_samples():
    model = tiny_model(PROBLEM, dropout=0.5).train()
    assert_identical(draw(model), draw(model))
    assert model.training  # as it was


def test_model_of_small_sizes_samples_a_larger_one():
    model = tiny_model(BCMF.family(m=(1, 2), n=(1, 2), k=(1, 2)))
    samples = draw(model, problem=BCMF(m=5, n=7, k=3), num_samples=2)
    assert samples["C"].shape == (2, 5, 7, 3)
    assert all(value.isfinite().all() for value in samples.values())


def test_fewer_samples_than_one_are_refused(model):
    for num_samples in [0, -1]:
        with pytest.raises(ValueError, match=rf"at least 1 \(got {num_samples}\)"):
            draw(model, num_samples=num_samples)


@pytest.mark.parametrize("max_nodes", [1, 30, 65, 10_000])
def test_batches_of_bounded_size_hold_all_samples(model, max_nodes):
    size = graph_of(PROBLEM).num_nodes
    seen = []
    hook = model.diffusion.denoiser.register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0].size(0))
    )
    given = {"E": PROBLEM.sample(seeded(5))["E"]}
    samples = draw(model, given, num_samples=5, steps=1, max_nodes=max_nodes)
    hook.remove()
    assert max(seen) <= max(max_nodes, size)
    assert sum(seen) == 5 * size
    assert samples["A"].shape == (5, 2, 2)
    assert samples["C"].flatten(1).unique(dim=0).size(0) == 5
    assert torch.equal(samples["E"], given["E"].expand(5, -1, -1))


WARNING = "Training conditioned on E whole and on nothing else"


@pytest.fixture
def warnings(caplog):
    """What the library warned of so far."""
    caplog.set_level(logging.WARNING, logger="gsdm_pyg")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "gsdm_pyg"]


def test_a_pattern_that_training_never_showed_warns_exactly_once(warnings):
    patterns = [
        {},
        {"R": torch.zeros(2, 3)},
        {"E": torch.full((2, 3), nan)},
        {"E": torch.tensor([[nan, 1.0, 1.0], [1.0, 1.0, 1.0]])},
        {"E": torch.ones(2, 3), "A": torch.tensor([[nan, 1.0], [nan, nan]])},
    ]
    for num_models, given in enumerate(patterns, start=1):
        model = tiny_model(PROBLEM, layers=4)
        for pattern in (given, {}, {"A": torch.zeros(2, 2)}):
            draw(model, pattern, steps=1)
        assert len(warnings()) == num_models, given
    assert warnings()[0].startswith(WARNING)
    assert "model.observe=mixed" in warnings()[0]


def test_patterns_of_training_do_not_warn(warnings):
    model = tiny_model(PROBLEM, layers=4)
    draw(model, {"E": torch.ones(2, 3)}, steps=1)
    draw(model, {"E": torch.ones(2, 3), "A": torch.full((2, 2), nan)}, steps=1)
    mixed = tiny_model(PROBLEM, layers=4, observe="mixed")
    for given in ({}, {"A": torch.zeros(2, 2)}, {"E": torch.ones(2, 3)}):
        draw(mixed, given, steps=1)
    assert warnings() == []


def test_a_problem_with_other_variables_is_refused(model):
    for method in (model.sample, model.evaluate, model.fit):
        with pytest.raises(ValueError, match="CopyTask does not fit"):
            method(CopyTask(n=2))


# settings


def test_settings_out_of_range_are_refused_with_the_value():
    for setting in [
        {"schedule": "cosin"},
        {"discrete_loss": "xent"},
        {"continuous_loss": "eps"},
        {"backend": "scater"},
        {"observe": "mix"},
        {"discrete_scale": 0.0},
        {"discrete_scale": -1.0},
        {"discrete_scale": math.nan},
        {"discrete_scale": math.inf},
        {"dropout": 1.0},
        {"layers": 0},
    ]:
        ((name, value),) = setting.items()
        with pytest.raises(ValueError) as caught:
            GSDM.from_problem(PROBLEM, **{"width": 8, "layers": 1, **setting})
        message = str(caught.value)
        assert message.startswith(name) and message.endswith(f"(got {value!r}).")


def test_a_misspelt_setting_of_a_model_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match=r"'widht'; did you mean 'width'\?"):
        GSDM.from_problem(PROBLEM, widht=3)
    with pytest.raises(ValueError, match=r"'backnd'; did you mean 'backend'\?"):
        GSDM.from_problem(PROBLEM, backnd="fused")


def test_a_misspelt_argument_of_sample_or_evaluate_is_refused_with_a_suggestion(model):
    for method in (model.sample, model.evaluate):
        with pytest.raises(ValueError, match=r"'stepps'; did you mean 'steps'\?"):
            method(PROBLEM, stepps=3)
    with pytest.raises(ValueError, match=r"'num_sample'; did you mean 'num_samples'"):
        model.sample(PROBLEM, num_sample=3)


@pytest.mark.parametrize(
    "sampler, message",
    [
        ({"solver": "euler"}, r"solver: .*'ddpm'.*'dpm\+\+_sde' \(got 'euler'\)"),
        ({"solver": ""}, r"solver: .*\(got ''\)"),
        ({"steps": 0}, r"steps: .*greater than 0 \(got 0\)"),
        ({"steps": -1}, r"steps: .*\(got -1\)"),
        ({"steps": 1001}, r"between 1 and num_timesteps, 1000.*\(got 1001\)"),
        ({"restarts": -1}, r"restarts: .*\(got -1\)"),
        ({"steps": 1, "restarts": 1}, r"at least 2 steps \(got 1 with steps=1\)"),
    ],
)
def test_a_sampler_that_does_not_exist_is_refused(model, sampler, message):
    for method in (model.sample, model.evaluate):
        with pytest.raises(ValueError, match=message):
            method(PROBLEM, **sampler)


def test_samples_follow_the_sampler_of_the_model_where_nothing_else_is_asked_for():
    model, times = tiny_model(PROBLEM), []
    model.diffusion.denoiser.register_forward_pre_hook(
        lambda module, inputs: times.append(inputs[1][0].item())
    )
    model.sampler = SamplerSettings(steps=5, solver="ddim", restarts=2)
    for method in (model.sample, model.evaluate):
        times.clear()
        method(PROBLEM)
        assert len(times) == 5 + 2 * 2
        times.clear()
        method(PROBLEM, restarts=0)  # and the other settings are the model's own
        assert len(times) == 5
    ddim, ddpm = (draw(model, **chosen) for chosen in ({}, {"solver": "ddpm"}))
    assert_identical(ddim, draw(model, solver="ddim"))
    assert not torch.equal(ddim["C"], ddpm["C"])


# fit


def test_fit_without_an_end_is_refused(model):
    with pytest.raises(ValueError, match="Set max_steps or max_time"):
        model.fit()


def test_fit_of_a_loaded_model_asks_for_the_problem(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    loaded = GSDM.from_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match=r"Pass fit\(\) the problem to train on"):
        loaded.fit(max_steps=1)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[dict[str, float], GSDM]:
    """The metrics before training, and the model after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fit"))
        torch.manual_seed(0)
        model = GSDM.from_problem(CopyTask.family(n=(1, 6)), width=16, layers=1)
        before = model.evaluate(CopyTask(n=20), num_instances=16, steps=10).metrics
        model.fit(max_steps=400, lr=1e-2)
    return before, model


@pytest.mark.slow
def test_fit_learns_what_the_observed_values_tell(fitted):
    before, model = fitted
    after = model.evaluate(CopyTask(n=20), num_instances=16, steps=10).metrics
    assert before["rmse"] > 2  # an answer from the prior: 2.8
    assert after["rmse"] < 0.7
    assert before["wrong"] > 0.5  # from the prior: 0.65
    assert after["wrong"] < 0.15


@pytest.mark.slow
def test_fit_leaves_a_model_ready_to_sample(fitted):
    _, model = fitted
    assert not model.training


@pytest.mark.slow
def test_fit_goes_on_with_a_loaded_model(fitted, tmp_path):
    fitted[1].save_pretrained(tmp_path / "model")
    model = GSDM.from_pretrained(tmp_path / "model")
    model.fit(CopyTask(n=4), max_steps=5, lr=1e-4)
    metrics = model.evaluate(CopyTask(n=20), num_instances=16, steps=10).metrics
    assert metrics["rmse"] < 0.7


@pytest.mark.slow
def test_fit_trains_a_loaded_model_with_dropout(tmp_path):
    tiny_model(CopyTask(n=2), dropout=0.5).save_pretrained(tmp_path / "model")
    model = GSDM.from_pretrained(tmp_path / "model")
    modes = []
    model.diffusion.denoiser.register_forward_pre_hook(
        lambda module, inputs: modes.append(module.training)
    )
    model.fit(CopyTask(n=2), max_steps=2)
    assert modes == [True, True]


@pytest.mark.slow
def test_fit_without_a_run_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    GSDM.from_problem(CopyTask(n=2), width=8, layers=1).fit(max_steps=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_fit_with_a_run_folder_writes_logs_into_it(tmp_path):
    model = GSDM.from_problem(CopyTask(n=2), width=8, layers=1)
    model.fit(max_steps=2, run_dir=tmp_path / "run")
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"csv", "tensorboard"} <= written


@pytest.mark.parametrize(
    ("method", "keyword", "suggestion"),
    [
        ("sample", "stepps", "did you mean 'steps'?"),
        ("sample", "givn", "did you mean 'given'?"),
        ("sample", "num_sample", "did you mean 'num_samples'?"),
        ("sample", "seed", "known: steps, solver, spacing, restarts, given"),
        ("evaluate", "num_instance", "did you mean 'num_instances'?"),
        (
            "evaluate",
            "generator",
            "known: steps, solver, spacing, restarts, num_instances",
        ),
    ],
)
def test_an_unknown_keyword_suggests_what_the_method_takes(method, keyword, suggestion):
    with pytest.raises(ValueError) as caught:
        getattr(tiny_model(PROBLEM), method)(PROBLEM, **{keyword: 1})
    assert f"Unknown setting {keyword!r}; {suggestion}" in str(caught.value)


def test_a_settings_object_changes_only_what_it_sets(monkeypatch):
    monkeypatch.setattr("gsdm_pyg.training.fit", lambda *arguments, **named: None)
    model = tiny_model(PROBLEM)
    model.sampler = SamplerSettings(steps=7, restarts=2)
    model.fit(evaluation=EvaluationSettings(pictures=0), max_steps=1)
    assert model.sampler == SamplerSettings(steps=7, restarts=2)


# several instances, seeds, wrong arguments


def test_several_instances_are_sampled_at_once():
    model = tiny_model(PROBLEM)
    E = torch.rand(3, 2, 3)
    samples = draw(model, {"E": E}, num_samples=4)
    assert samples["A"].shape == (3, 4, 2, 2) and samples["C"].shape == (3, 4, 2, 3, 2)
    assert torch.equal(samples["E"], E[:, None].expand(3, 4, 2, 3))
    assert samples["A"].flatten(0, 1).unique(dim=0).size(0) == 12


def test_several_instances_have_the_samples_of_one_batch_of_each():
    model, E = tiny_model(PROBLEM), torch.rand(2, 2, 3)
    together = draw(model, {"E": E})
    alone = draw(model, {"E": E[:1]})
    assert alone["A"].shape == (1, 1, 2, 2)
    torch.testing.assert_close(together["E"][:1], alone["E"])


def test_an_integer_is_a_seed():
    model, given = tiny_model(PROBLEM), {"E": torch.ones(2, 3)}
    first, again, other = (
        model.sample(PROBLEM, given, steps=2, generator=seed)
        for seed in (3, np.int64(3), 4)
    )
    assert_identical(first, again)
    assert not torch.equal(first["A"], other["A"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"generator": np.random.default_rng(0)},
            "generator must be a torch.Generator",
        ),
        ({"generator": -1}, r"at least 0 as a seed \(got -1\)"),
        ({"generator": True}, r"\(got True\)"),
        ({"num_samples": 2.5}, r"num_samples must be an integer .*\(got 2\.5\)"),
        ({"num_samples": True}, r"num_samples must be an integer .*\(got True\)"),
        ({"steps": 2.5}, r"steps: .*\(got 2\.5\)"),
        ({"given": torch.ones(2, 3)}, "given must hold arrays by name"),
    ],
)
def test_wrong_arguments_of_sample_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tiny_model(PROBLEM).sample(PROBLEM, **arguments)


def test_a_device_that_is_not_there_is_refused_as_such(tmp_path):
    tiny_model(PROBLEM).save_pretrained(tmp_path)
    for name in ("cuda:99", "gpu"):
        with pytest.raises(ValueError, match="map_location must be a device") as caught:
            GSDM.from_pretrained(tmp_path, map_location=name)
        assert "damaged" not in str(caught.value)
