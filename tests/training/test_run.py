"""One run in this process: when it ends, what it leaves."""

from __future__ import annotations

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


@pytest.mark.slow
def test_backend_of_the_trainer_is_the_one_that_trains():
    settings = TrainingSettings.from_keywords(
        {"max_steps": 1, "batch_size": 1, "accelerator": "cpu", "backend": "scatter"}
    )
    model = tiny_model(FAMILY)
    train(Training(model.diffusion, FAMILY, settings))
    backends = {block.attention.backend for block in model.diffusion.denoiser.attention}
    assert backends == {"scatter"}
