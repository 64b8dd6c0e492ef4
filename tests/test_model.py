"""GSDM from Python: what `given` takes, what samples are, what training reaches."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch

from gsdm_pyg import GSDM, GraphicalModel, ProblemBatches
from gsdm_pyg.evaluation import evaluate
from gsdm_pyg.problem import graph_of
from problems import BCMF
from tests.runs import CopyTask, assert_identical, seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)
nan, inf = math.nan, math.inf


@pytest.fixture(scope="module")
def model() -> GSDM:
    return tiny_model(PROBLEM)


def draw(model: GSDM, given=None, problem=PROBLEM, seed=0, **arguments):
    arguments = {"steps": 3, **arguments}
    return model.sample(problem, given, generator=seeded(seed), **arguments)


def test_given_with_an_unknown_name_is_refused(model):
    with pytest.raises(ValueError, match=r"variables A, R, C, E \(got 'B'\)"):
        draw(model, {"B": torch.zeros(2, 3)})


@pytest.mark.parametrize("shape", [(3, 2), (2,), (), (1, 2, 3), (6,)])
def test_given_of_another_shape_is_refused(model, shape):
    with pytest.raises(ValueError) as caught:
        draw(model, {"E": torch.zeros(shape)})
    assert f"given['E'] must have the shape (2, 3) (got {shape})" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("R", 2),
        ("R", -1),
        ("R", 0.5),
        ("R", inf),
        ("A", 1.5),
        ("A", -0.1),
        ("A", inf),
        ("C", inf),
        ("E", -inf),
    ],
)
def test_given_value_outside_its_domain_is_refused_by_name(model, name, wrong):
    value = torch.zeros(graph_of(PROBLEM).variables[name].shape)
    value.view(-1)[-1] = wrong
    with pytest.raises(ValueError) as caught:
        draw(model, {name: value})
    message = str(caught.value)
    assert message.startswith(f"given[{name!r}] takes ")
    assert message.endswith(f"(got {value.view(-1)[-1].item()}).")


def test_refusal_says_which_values_a_domain_takes(model):
    with pytest.raises(ValueError, match=r"given\['R'\] takes classes 0\.\.1"):
        draw(model, {"R": torch.full((2, 3), 2)})
    with pytest.raises(ValueError, match=r"given\['A'\] takes real numbers in \[0, 1"):
        draw(model, {"A": torch.full((2, 2), 1.5)})


@pytest.mark.parametrize(
    "binary",
    [
        np.array([[True, False, True], [False, True, True]]),
        torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=torch.int32),
        [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]],
    ],
    ids=["bool", "int", "list"],
)
def test_given_takes_binary_values_of_any_type(model, binary):
    expected = torch.tensor([[1, 0, 1], [0, 1, 1]])
    assert torch.equal(draw(model, {"R": binary})["R"][0], expected)


def test_sampling_keeps_variables_given_whole(model):
    truth = PROBLEM.sample(seeded(5))
    given = {"E": truth["E"], "R": truth["R"], "A": truth["A"]}
    samples = draw(model, given, num_samples=3)
    for name, value in given.items():
        assert torch.equal(samples[name], value.expand_as(samples[name])), name


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


def test_nothing_given_draws_every_variable(model):
    samples = draw(model, None, num_samples=3)
    assert list(samples) == ["A", "R", "C", "E"]
    for name, value in samples.items():
        assert value.isfinite().all()
        if name != "R":
            assert value.unique().numel() > 3


def test_samples_come_by_name_in_the_shapes_of_the_variables(model):
    samples = draw(model, {"E": torch.ones(2, 3)}, num_samples=5)
    assert {name: tuple(value.shape) for name, value in samples.items()} == {
        "A": (5, 2, 2),
        "R": (5, 2, 3),
        "C": (5, 2, 3, 2),
        "E": (5, 2, 3),
    }
    assert samples["A"].dtype == torch.float32


def test_discrete_samples_are_classes_and_bounded_ones_stay_in_bounds(model):
    samples = draw(model, num_samples=20)
    assert samples["R"].dtype == torch.int64
    assert set(samples["R"].unique().tolist()) <= {0, 1}
    assert samples["A"].min() >= 0
    assert samples["A"].max() <= 1


def test_several_samples_differ(model):
    samples = draw(model, num_samples=4)["C"].flatten(1)
    assert samples.unique(dim=0).size(0) == 4


def test_same_generator_seed_gives_the_same_samples_and_another_others(model):
    first, again, other = draw(model), draw(model), draw(model, seed=1)
    assert_identical(first, again)
    assert not torch.equal(first["C"], other["C"])


def test_sampling_with_a_generator_leaves_global_randomness_alone(
    model, untouched_random_state
):
    draw(model)


def test_dropout_does_not_reach_samples():
    model = tiny_model(PROBLEM, dropout=0.5).train()
    assert_identical(draw(model), draw(model))
    assert model.training  # as it was


def test_model_of_small_sizes_samples_a_larger_one():
    model = tiny_model(BCMF.family(m=(1, 2), n=(1, 2), k=(1, 2)))
    samples = draw(model, problem=BCMF(m=5, n=7, k=3), num_samples=2)
    assert samples["C"].shape == (2, 5, 7, 3)
    assert all(value.isfinite().all() for value in samples.values())


@pytest.mark.parametrize("num_samples", [0, -1])
def test_fewer_samples_than_one_are_refused(model, num_samples):
    with pytest.raises(ValueError, match=rf"at least 1 \(got {num_samples}\)"):
        draw(model, num_samples=num_samples)


@pytest.mark.parametrize("max_nodes", [1, 30, 65, 10_000])
def test_batches_of_bounded_size_hold_all_samples(model, max_nodes):
    size = graph_of(PROBLEM).num_nodes
    seen = []
    hook = model.denoiser.register_forward_pre_hook(
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


def warnings_of(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "gsdm_pyg"]


def test_pattern_that_training_never_showed_warns_exactly_once(caplog):
    caplog.set_level(logging.WARNING, logger="gsdm_pyg")
    model = tiny_model(PROBLEM)
    for given in ({}, {"A": torch.zeros(2, 2)}, {"E": torch.full((2, 3), nan)}):
        draw(model, given, steps=1)
    (message,) = warnings_of(caplog)
    assert message.startswith(WARNING)
    assert "data.observe=mixed" in message


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"R": torch.zeros(2, 3)},
        {"E": torch.tensor([[nan, 1.0, 1.0], [1.0, 1.0, 1.0]])},
        {"E": torch.ones(2, 3), "A": torch.tensor([[nan, 1.0], [nan, nan]])},
    ],
    ids=["nothing", "other variable", "part of E", "E and more"],
)
def test_each_pattern_other_than_the_roles_warns(caplog, given):
    caplog.set_level(logging.WARNING, logger="gsdm_pyg")
    draw(tiny_model(PROBLEM), given, steps=1)
    assert len(warnings_of(caplog)) == 1


def test_pattern_of_training_does_not_warn(caplog):
    caplog.set_level(logging.WARNING, logger="gsdm_pyg")
    model = tiny_model(PROBLEM)
    draw(model, {"E": torch.ones(2, 3)}, steps=1)
    draw(model, {"E": torch.ones(2, 3), "A": torch.full((2, 2), nan)}, steps=1)
    assert warnings_of(caplog) == []


def test_model_trained_on_mixed_patterns_never_warns(caplog):
    caplog.set_level(logging.WARNING, logger="gsdm_pyg")
    model = tiny_model(PROBLEM, observe="mixed")
    for given in ({}, {"A": torch.zeros(2, 2)}, {"E": torch.ones(2, 3)}):
        draw(model, given, steps=1)
    assert warnings_of(caplog) == []


def test_problem_with_other_variables_is_refused(model):
    with pytest.raises(ValueError) as caught:
        draw(model, problem=CopyTask(n=2))
    message = str(caught.value)
    assert "trained on BCMF with the variables A, R (2 classes), C, E" in message
    assert "CopyTask does not fit (got x, y, z (3 classes))" in message
    with pytest.raises(ValueError, match="CopyTask does not fit"):
        evaluate(model, CopyTask(n=2))
    with pytest.raises(ValueError, match="CopyTask does not fit"):
        model.fit(CopyTask(n=2), max_steps=1)


class RelabelledBCMF(BCMF):
    """BCMF in which E is asked for."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        for variable in graph_of(BCMF(self.m, self.n, self.k)).variables.values():
            graph.add_variable(variable.name, variable.shape, variable.domain)
        return graph


def test_problem_whose_variables_have_other_roles_is_refused(model):
    with pytest.raises(ValueError, match="RelabelledBCMF does not fit"):
        draw(model, problem=RelabelledBCMF(m=2, n=3, k=2))


@pytest.mark.parametrize("solver", ["euler", ""])
def test_unknown_solver_is_refused(model, solver):
    with pytest.raises(ValueError, match=rf"solver is one of .*\(got '{solver}'\)"):
        draw(model, solver=solver)


def test_from_problem_standardises_by_the_moments_of_the_variables():
    k = 2
    model = GSDM.from_problem(BCMF(m=3, n=3, k=k), width=8, layers=1)
    # A is uniform; C = A R has E[C] = 0.3 / 2, E[C^2] = 0.3 / 3; E sums k of those.
    variance = 0.3 / 3 - 0.15**2
    moments = {
        0: (0.5, 1 / math.sqrt(12)),
        2: (0.15, math.sqrt(variance)),
        3: (0.15 * k, math.sqrt(k * variance)),
    }
    for variable, (mean, deviation) in moments.items():
        assert model.scaling.loc[variable, 0].item() == pytest.approx(mean, abs=0.02)
        assert model.scaling.scale[variable, 0].item() == pytest.approx(
            deviation, abs=0.02
        )
    # R is a one-hot code of two classes in the other two columns.
    torch.testing.assert_close(model.scaling.loc[1], torch.tensor([0.0, 0.5, 0.5]))
    torch.testing.assert_close(model.scaling.scale[1], torch.tensor([1.0, 0.5, 0.5]))


def test_discrete_scale_reaches_one_hot_codes_and_nothing_else():
    plain, quarter = (
        GSDM.from_problem(PROBLEM, width=8, layers=1, discrete_scale=scale)
        for scale in (1.0, 0.25)
    )
    expected = plain.scaling.scale.clone()
    expected[1, 1:] *= 4  # R in its two columns is divided by four times as much
    torch.testing.assert_close(quarter.scaling.scale, expected)
    assert torch.equal(quarter.scaling.loc, plain.scaling.loc)


def test_from_problem_draws_moments_without_global_randomness():
    torch.manual_seed(1)
    first = GSDM.from_problem(PROBLEM, width=8, layers=1)
    torch.manual_seed(2)
    second = GSDM.from_problem(PROBLEM, width=8, layers=1)
    assert torch.equal(first.scaling.loc, second.scaling.loc)
    assert torch.equal(first.scaling.scale, second.scaling.scale)


def test_loss_counts_latent_nodes_only(model):
    batch = ProblemBatches(PROBLEM, batch_size=3).batch(0)
    assert model.loss(batch, seeded(0)) > 0
    batch.observed = torch.ones_like(batch.observed)
    assert model.loss(batch, seeded(0)) == 0


def test_loss_depends_on_its_generator_alone(model, untouched_random_state):
    batch = ProblemBatches(PROBLEM, batch_size=3).batch(0)
    first, again = (model.loss(batch, seeded(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, model.loss(batch, seeded(4)))


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
        before = evaluate(model, CopyTask(n=20), num_instances=16, steps=10).metrics
        model.fit(max_steps=400, lr=1e-2)
    return before, model


@pytest.mark.slow
def test_fit_learns_what_the_observed_values_tell(fitted):
    before, model = fitted
    after = evaluate(model, CopyTask(n=20), num_instances=16, steps=10).metrics
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
    metrics = evaluate(model, CopyTask(n=20), num_instances=16, steps=10).metrics
    assert metrics["rmse"] < 0.7


@pytest.mark.slow
def test_fit_trains_a_loaded_model_with_dropout(tmp_path):
    tiny_model(CopyTask(n=2), dropout=0.5).save_pretrained(tmp_path / "model")
    model = GSDM.from_pretrained(tmp_path / "model")
    modes = []
    model.denoiser.register_forward_pre_hook(
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
