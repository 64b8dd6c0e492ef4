"""A tiny model folder, and a working folder for each test."""

from pathlib import Path

import pytest

from problems import BCMF
from tests.helpers import tiny_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model(BCMF.family(m=(1, 2), n=(1, 3), k=2)).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
