"""One run in this process: when it ends, what it leaves."""

from __future__ import annotations

import threading

import pytest

from gsdm_pyg.settings import SettingsError, TrainingSettings
from gsdm_pyg.training import Training, train
from tests.helpers import files_of, tiny_model
from tests.training.runs import FAMILY, watched


def test_run_without_an_end_is_refused():
    training = Training(tiny_model(FAMILY).diffusion, FAMILY)
    with pytest.raises(SettingsError, match="training needs an end"):
        train(training)


@pytest.mark.slow
def test_max_time_alone_ends_training():
    watched(1)  # compiles the kernels
    training = watched(trainer={"max_time": "00:00:00:01"})
    assert len(training.seen) > 2
    assert training.trainer.global_step == len(training.seen)


@pytest.mark.slow
def test_whichever_limit_comes_first_ends_training():
    limits = {"max_time": "00:01:00:00", "max_steps": 3}
    assert len(watched(trainer=limits).seen) == 3


@pytest.mark.slow
def test_run_without_a_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tiny_model(FAMILY)
    model.fit(max_steps=2, batch_size=2, checkpoint_every=1, accelerator="cpu")
    assert files_of(tmp_path) == {}
    assert not model.training


@pytest.mark.slow
def test_fit_writes_logs_checkpoints_and_pictures_into_its_folder(tmp_path):
    tiny_model(FAMILY).fit(
        run_dir=tmp_path / "run",
        max_steps=2,
        log_every=1,
        accelerator="cpu",
        evaluation={
            **{"every": 2, "problems": [{"m": 2, "n": 2, "k": 1}], "steps": 2},
            **{"num_instances": 1, "pictures": 1},
        },
    )
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"csv", "tensorboard", "checkpoints", "pictures"}


def test_fit_refuses_a_folder_that_is_not_empty_and_leaves_it_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError) as caught:
        tiny_model(FAMILY).fit(run_dir=tmp_path, max_steps=1, accelerator="cpu")
    assert str(caught.value) == (
        f"The run folder is not empty: choose another (got {str(tmp_path)!r})."
    )
    assert files_of(tmp_path) == {"notes.txt": b"mine"}


@pytest.mark.parametrize("exists", [True, False])
def test_fit_that_could_not_start_leaves_its_folder_as_it_was(tmp_path, exists):
    run_dir = tmp_path / "run"
    if exists:
        run_dir.mkdir()
    with pytest.raises(ValueError, match="abacus"):
        tiny_model(FAMILY).fit(run_dir=run_dir, max_steps=1, accelerator="abacus")
    assert run_dir.exists() == exists
    assert files_of(tmp_path) == {}


@pytest.mark.slow
def test_training_works_outside_of_the_main_thread():
    model, errors = tiny_model(FAMILY), []

    def fit() -> None:
        try:
            model.fit(max_steps=1, batch_size=1, accelerator="cpu")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert errors == []


@pytest.mark.slow
def test_backend_of_the_trainer_is_the_one_that_trains():
    settings = TrainingSettings.from_keywords(
        {"max_steps": 1, "batch_size": 1, "accelerator": "cpu", "backend": "scatter"}
    )
    model = tiny_model(FAMILY)
    train(Training(model.diffusion, FAMILY, settings))
    backends = {block.attention.backend for block in model.diffusion.denoiser.attention}
    assert backends == {"scatter"}
