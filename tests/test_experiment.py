"""Experiments: a config -> a run folder, described, trained, evaluated, exported."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
import yaml
from lightning.pytorch.utilities.seed import isolate_rng

from gsdm_pyg import GSDM, SamplerSettings
from gsdm_pyg.cli import main
from gsdm_pyg.config import load_config, parse_config
from gsdm_pyg.evaluation import label
from gsdm_pyg.experiment import Experiment
from gsdm_pyg.run_folder import new_run, resumed_run
from gsdm_pyg.settings import SettingsError
from problems import BCMF
from tests.helpers import (
    USER_PROBLEM,
    assert_identical,
    exported_weights,
    files_of,
    logged,
    train_here,
    write_config,
)
from tests.training.runs import checkpoint_of, diffusion_part

PROBLEM = BCMF(m=4, n=2, k=1)  # the one that the tiny config evaluates


@pytest.fixture
def config(tmp_path) -> Path:
    return write_config(tmp_path / "tiny.yaml")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


# What an experiment is.


def described(config: Path, *overrides: str) -> str:
    with isolate_rng():
        return Experiment(load_config(config, overrides)).describe()


def test_description_has_the_resolved_config_the_graph_and_the_parameters(config):
    text = described(config, "model.layers=2")
    text, _, rest = text.partition("largest problem: ")
    resolved = load_config(config, ["model.layers=2"])
    assert parse_config(yaml.safe_load(text)) == resolved
    largest, graph, parameters = rest.splitlines()
    assert largest == "BCMF(m=3,n=3,k=2)"
    nodes = 3 * 2 + 2 * 3 + 3 * 3 * 2 + 3 * 3
    edges = nodes + 2 * 3 * (3 * 3 * 2)  # loops; C joined to A, R and E, both ways
    assert f"{nodes} nodes, {edges} edges" in graph
    model = GSDM.from_problem(BCMF(m=3, n=3, k=2), width=8, layers=2)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert parameters == f"{count:,} parameters"


def test_description_shows_the_graph_that_the_model_would_see(config):
    text = described(config, "model.edges=complete", "model.intermediates=drop")
    nodes = 3 * 2 + 2 * 3 + 3 * 3
    shown = f"A[3, 2] latent, R[2, 3] latent, E[3, 3] observed; {nodes} nodes, "
    assert f"{shown}{nodes**2} edges, density 100.00%" in text


def test_size_that_independent_embeddings_lack_is_refused_before_training(tmp_path):
    config = write_config(tmp_path / "tiny.yaml", problem={"m": 3, "n": 3, "k": 2})
    with pytest.raises(ValueError, match=r"one size, A \[3, 2\].*\(got A \[4, 1\]"):
        described(config, "model.embedding=independent")
    fitting = "evaluation.problems=[{m: 3, n: 3, k: 2}]"
    described(config, "model.embedding=independent", fitting)


def test_weights_of_a_new_experiment_are_a_function_of_the_seed(config):
    with isolate_rng():
        first, again, other = (
            Experiment(load_config(config, [f"seed={seed}"])).model.state_dict()
            for seed in (1, 1, 2)
        )
    assert_identical(first, again)
    name = "diffusion.denoiser.embed_value.weight"
    assert not torch.equal(first[name], other[name])


# Run folders.


def fake_run(run_dir: Path, config: Path) -> Path:
    """A run folder as far as the checks before training look."""
    (run_dir / "checkpoints").mkdir(parents=True)
    (run_dir / "checkpoints" / "last.ckpt").write_bytes(b"")
    (run_dir / "config.yaml").write_text(load_config(config).dump())
    return run_dir


def test_runs_of_one_config_get_folders_of_their_own(config):
    resolved = load_config(config)
    folders = [new_run(resolved, "tiny") for _ in range(3)]
    assert folders == [Path(f"runs/{name}") for name in ("tiny", "tiny-2", "tiny-3")]
    for folder in folders:
        assert load_config(folder / "config.yaml") == resolved


@pytest.mark.parametrize("name", ["config.yaml", "notes.txt", "checkpoints/last.ckpt"])
def test_run_folder_that_is_not_empty_is_refused_and_left_alone(config, name):
    file = Path("run") / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(ValueError, match=r"folder is not empty: .*\(got 'run'\)\."):
        new_run(load_config(config), "tiny", Path("run"))
    assert files_of(Path("run")) == {name: b"mine"}


def test_resuming_without_a_checkpoint_is_refused(config):
    message = r"no checkpoint to resume from: .*\(got '{}'\)\."
    with pytest.raises(FileNotFoundError, match=message.format("run")):
        resumed_run(load_config(config), "tiny", Path("run"))
    with pytest.raises(FileNotFoundError, match=message.format("runs/tiny")):
        resumed_run(load_config(config), "tiny")
    assert [path.name for path in Path().iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize(
    "override",
    [
        "model.layers=2",
        "model.observe=mixed",
        "problem.m=2",
        "data.batch_size=3",
        "optimizer.lr=1e-4",
        "optimizer.name=adamw",
        "seed=1",
    ],
)
def test_resuming_with_other_settings_is_refused(config, override):
    run_dir = fake_run(Path("run"), config)
    before = files_of(run_dir)
    section = override.partition("=")[0].partition(".")[0]
    with pytest.raises(SettingsError, match=f"run has other settings in {section!r}"):
        resumed_run(load_config(config, [override]), "tiny", run_dir)
    assert files_of(run_dir) == before


@pytest.mark.parametrize(
    "override", ["trainer.max_steps=99", "trainer.backend=scatter", "evaluation={}"]
)
def test_resuming_for_longer_elsewhere_or_with_another_evaluation_is_possible(
    config, override
):
    run_dir = fake_run(Path("run"), config)
    assert resumed_run(load_config(config, [override]), "tiny", run_dir) == run_dir


def test_resuming_is_possible_where_the_run_could_not_be_evaluated(config):
    stored = fake_run(Path("run"), config) / "config.yaml"
    stored.write_text(stored.read_text().replace("steps: 3\n", "steps: 1001\n"))
    resumed_run(load_config(config), "tiny", Path("run"))


def test_newest_run_of_a_config_with_a_checkpoint_is_resumed(config, capsys):
    for name in ("tiny", "tiny-2", "other"):
        fake_run(Path("runs") / name, config)
    new_run(load_config(config), "tiny", Path("runs/tiny-3"))  # it never started
    capsys.readouterr()
    found = resumed_run(load_config(config), "tiny")
    assert found == Path("runs/tiny-2")
    assert capsys.readouterr().out == "resuming: runs/tiny-2\n"


def begun_run(config: Path) -> None:
    """A new run as far as the checks before training look."""
    run_dir = new_run(load_config(config), "tiny")
    (run_dir / "checkpoints").mkdir()
    (run_dir / "checkpoints" / "last.ckpt").touch()


def test_resuming_after_nothing_has_changed_is_silent(config, caplog):
    begun_run(config)
    resumed_run(load_config(config), "tiny")
    assert caplog.messages == []


def test_resuming_after_the_code_of_the_problem_has_changed_says_so(tmp_path, caplog):
    file = tmp_path / "mine.py"
    file.write_text(USER_PROBLEM)
    config = tmp_path / "mine.yaml"
    config.write_text('problem: {name: "mine.py:UserSum", n: 2}')
    begun_run(config)
    file.write_text(USER_PROBLEM + "\n")
    resumed_run(load_config(config), "tiny")
    (message,) = caplog.messages
    assert "runs/tiny began, something has changed: code of the problem." in message


@pytest.mark.parametrize("package", ["torch", "gsdm_pyg"])
def test_resuming_with_another_version_of_a_package_says_so(config, caplog, package):
    begun_run(config)
    environment = Path("runs/tiny/environment.json")
    stored = json.loads(environment.read_text())
    environment.write_text(json.dumps({**stored, package: "0.0.1"}))
    resumed_run(load_config(config), "tiny")
    (message,) = caplog.messages
    assert f"something has changed: {package}." in message


# One run, looked at from many sides.


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    config = write_config(folder / "tiny.yaml", trainer={"max_steps": 12})
    overrides = ["optimizer.ema=0.9", "evaluation.solver=ddim"]
    train_here(config, *overrides, "--run-dir", folder / "run")
    return folder / "run"


@pytest.mark.slow
def test_run_folder_holds_config_logs_checkpoint_pictures_metrics_and_model(run_dir):
    assert {path.name for path in run_dir.iterdir()} == {
        "config.yaml",
        "environment.json",
        "csv",
        "tensorboard",
        "checkpoints",
        "pictures",
        "metrics.json",
        "model",
    }
    assert {path.name for path in (run_dir / "checkpoints").iterdir()} == {"last.ckpt"}
    assert len(list(run_dir.glob("csv/*/metrics.csv"))) == 1
    assert len(list(run_dir.glob("tensorboard/*/events.*"))) == 1
    pictures = list((run_dir / "pictures").iterdir())
    assert len(pictures) == 5  # at steps 4, 8 and 12, at the end, and the mask
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


@pytest.mark.slow
def test_run_folder_holds_the_resolved_config(run_dir):
    overrides = ["optimizer.ema=0.9", "evaluation.solver=ddim"]
    resolved = load_config(run_dir.parent / "tiny.yaml", overrides)
    assert load_config(run_dir / "config.yaml") == resolved


@pytest.mark.slow
def test_every_step_is_logged_once(run_dir):
    for name in ("loss", "lr"):
        assert list(logged(run_dir, name)) == list(range(12))
    assert all(math.isfinite(loss) for loss in logged(run_dir, "loss").values())
    assert all(rate > 0 for rate in logged(run_dir, "nodes/s").values())


@pytest.mark.slow
def test_logged_learning_rate_is_that_of_the_formula(run_dir):
    rates = logged(run_dir, "lr")
    for step, rate in rates.items():
        decay = 0.5 * (1 + math.cos(math.pi * step / 12))
        expected = 1e-2 * min(1, (step + 1) / 4) * decay
        assert rate == pytest.approx(expected, rel=1e-5)
    assert max(rates, key=rates.__getitem__) == 3
    assert rates[11] < 0.1 * rates[3]


@pytest.mark.slow
def test_exported_weights_are_the_averaged_ones(run_dir):
    checkpoint = checkpoint_of(run_dir)
    assert checkpoint["global_step"] == 12
    exported = exported_weights(run_dir)
    assert_identical(exported, diffusion_part(checkpoint["state_dict"]))
    raw = diffusion_part(checkpoint["current_model_state"])
    assert not torch.equal(
        exported["denoiser.output.weight"], raw["denoiser.output.weight"]
    )


@pytest.mark.slow
def test_exported_model_has_the_sampler_of_its_evaluation(run_dir):
    stored = json.loads((run_dir / "model" / "config.json").read_text())["sampler"]
    expected = SamplerSettings(steps=3, solver="ddim", restarts=1)
    assert SamplerSettings(**stored) == expected
    assert GSDM.from_pretrained(run_dir / "model").sampler == expected


@pytest.mark.slow
def test_evaluate_command_without_flags_uses_the_sampler_of_the_run(run_dir, capsys):
    arguments = [str(run_dir / "model"), "m=4", "n=2", "k=1", "--instances=3"]
    for flags in ([], ["--steps=3", "--solver=ddim", "--restarts=1"], ["--steps=5"]):
        main(["evaluate", *arguments, *flags])
    without, same, other = capsys.readouterr().out.strip().split("BCMF(")[1:]
    assert without == same != other
    found = json.loads((run_dir / "metrics.json").read_text())[label(PROBLEM)]["rmse"]
    assert f"rmse: {found:.4f} " in without


@pytest.mark.slow
def test_evaluation_during_training_uses_the_averaged_weights(run_dir):
    found = logged(run_dir, f"{label(PROBLEM)}/rmse")
    assert list(found) == [3, 7, 11]
    model = GSDM.from_pretrained(run_dir / "model")  # the averaged ones of step 12
    expected = model.evaluate(PROBLEM, 2, seed=10_000)
    assert found[11] == pytest.approx(expected.metrics["rmse"], rel=1e-4)


@pytest.mark.slow
def test_metrics_file_holds_the_metrics_of_the_exported_model(run_dir):
    model = GSDM.from_pretrained(run_dir / "model")
    result = model.evaluate(PROBLEM, 3, steps=3, solver="ddim", restarts=1, seed=0)
    metrics = json.loads((run_dir / "metrics.json").read_text())
    assert list(metrics) == ["BCMF(m=4,n=2,k=1)"]
    found = metrics["BCMF(m=4,n=2,k=1)"]["rmse"]
    assert found == pytest.approx(result.metrics["rmse"], rel=1e-4)
    card = (run_dir / "model" / "README.md").read_text()
    assert str(found) in card and "3 steps of ddim (logsnr) with restarts=1" in card


@pytest.mark.slow
def test_finished_run_cannot_be_overwritten(run_dir):
    before = files_of(run_dir)
    with pytest.raises(SystemExit, match="run folder is not empty"):
        train_here(run_dir.parent / "tiny.yaml", "--run-dir", run_dir)
    assert files_of(run_dir) == before


@pytest.mark.slow
def test_model_is_exported_before_each_evaluation_and_completed_after(
    tmp_path, monkeypatch
):
    seen = []
    evaluate = GSDM.evaluate

    def watched(model, problem, *arguments, **named):
        exported = GSDM.from_pretrained("run/model")
        assert_identical(exported.state_dict(), model.state_dict())
        card = Path("run/model/README.md").read_text()
        metrics = json.loads(Path("run/metrics.json").read_text())
        assert ("Means over" in card) == bool(metrics)
        seen.append([name for name in metrics if name in card])
        return evaluate(model, problem, *arguments, **named)

    monkeypatch.setattr(GSDM, "evaluate", watched)
    sizes = [{"m": 1, "n": 1, "k": 1}, {"m": 2, "n": 1, "k": 1}]
    config = write_config(
        tmp_path / "tiny.yaml",
        trainer={"max_steps": 2},
        evaluation={"every": None, "problems": sizes, "pictures": 0},
    )
    train_here(config, "--run-dir", "run")
    first, second = "BCMF(m=1,n=1,k=1)", "BCMF(m=2,n=1,k=1)"
    assert seen == [[], [first]]
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert list(metrics) == [first, second]


# What goes wrong.

FAILING = """
import torch
from problems import BCMF


class Failing(BCMF):
    draws = 0

    def sample_batch(self, num, generator=None):
        type(self).draws += num
        values = super().sample_batch(num, generator)
        if type(self).draws > 256 + 2 * 6:  # moments, then six steps of two graphs
            values["C"][:, 0, 0, 0] = 1e30  # its square is infinite
        return values
"""


@pytest.mark.slow
def test_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    config = write_config(
        tmp_path / "failing.yaml",
        problem={"name": f"{file}:Failing"},
        evaluation={"every": None, "problems": []},
    )
    run = [config, "--run-dir", tmp_path / "run"]
    with pytest.raises(SystemExit) as caught:
        train_here(*run)
    message = str(caught.value.code)
    assert message.startswith("error: ")
    assert "step 6" in message
    assert "not finite" in message
    checkpoint = checkpoint_of(tmp_path / "run")
    assert checkpoint["global_step"] == 4
    for state in ("state_dict", "current_model_state"):
        assert all(weight.isfinite().all() for weight in checkpoint[state].values())
    assert not (tmp_path / "run" / "model").exists()

    BCMF.registry["Failing"].draws = -1000  # the cause is gone
    train_here(*run, "--resume")
    weights = exported_weights(tmp_path / "run")
    assert all(weight.isfinite().all() for weight in weights.values())
