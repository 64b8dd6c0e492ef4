"""Model folders: whole or refused, and never unpickled."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from gsdm_pyg import GSDM, GraphView
from problems import BCMF
from tests.runs import assert_identical, files_of, seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)
VIEWS = [
    ("exchangeable", "random", "unsupervised"),
    ("array", "complete", "keep"),
    ("independent", "directed", "drop"),
    ("shared", "structured", "unsupervised"),
]
FILES = {"config.json", "model.safetensors", "README.md"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model(PROBLEM, seed=1).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def draw(model: GSDM) -> dict[str, torch.Tensor]:
    given = {"E": torch.ones(2, 3)}
    return model.sample(PROBLEM, given, 2, steps=3, generator=seeded(0))


def refusal(folder: Path, kind: type[Exception] = ValueError) -> str:
    with pytest.raises(kind) as caught:
        GSDM.from_pretrained(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_loaded_model_gives_the_samples_of_the_saved_one(folder):
    saved, loaded = tiny_model(PROBLEM, seed=1), GSDM.from_pretrained(folder)
    assert_identical(draw(saved), draw(loaded))
    assert_identical(saved.state_dict(), loaded.state_dict())


def test_folder_is_found_by_a_relative_name(folder, monkeypatch, offline):
    monkeypatch.chdir(folder.parent)
    assert_identical(draw(GSDM.from_pretrained("saved")), draw(tiny_model(seed=1)))


def test_loaded_model_knows_what_it_was_made_for(tmp_path):
    source = BCMF.family(m=(1, 3), n=2, k=(1, 2))
    arguments = {"observe": "mixed", "schedule": "linear", "num_timesteps": 50}
    arguments |= {"discrete_loss": "squared", "continuous_loss": "v"}
    saved = tiny_model(source, dropout=0.1, **arguments)
    saved.save_pretrained(tmp_path / "saved")
    loaded = GSDM.from_pretrained(tmp_path / "saved")
    assert loaded.problem == "BCMF"
    assert loaded.sizes == {"m": [1, 3], "n": 2, "k": [1, 2]}
    for name in ("variables", "observe", "dropout", "discrete_loss", "continuous_loss"):
        assert getattr(loaded, name) == getattr(saved, name), name
    assert torch.equal(loaded.scaling.loc, saved.scaling.loc)
    assert torch.equal(loaded.scaling.scale, saved.scaling.scale)
    assert torch.equal(loaded.beta, saved.beta)
    assert not loaded.training


def test_loaded_model_scales_one_hot_codes_as_the_saved_one_did(tmp_path):
    saved = tiny_model(PROBLEM, discrete_scale=0.25)
    saved.save_pretrained(tmp_path / "saved")
    loaded = GSDM.from_pretrained(tmp_path / "saved")
    assert torch.equal(loaded.scaling.scale, saved.scaling.scale)
    assert not torch.equal(loaded.scaling.scale, tiny_model(PROBLEM).scaling.scale)
    assert_identical(draw(saved), draw(loaded))


@pytest.mark.parametrize("view", VIEWS, ids="-".join)
def test_loaded_model_sees_problems_as_the_saved_one_did(tmp_path, view):
    arguments = dict(zip(("embedding", "edges", "intermediates"), view, strict=True))
    saved = tiny_model(PROBLEM, **arguments)
    saved.save_pretrained(tmp_path / "saved")
    loaded = GSDM.from_pretrained(tmp_path / "saved")
    assert loaded.view == saved.view == GraphView(*view)
    assert loaded.shapes == saved.shapes
    assert_identical(draw(saved), draw(loaded))


def test_folder_from_before_there_were_views_has_the_default_one(folder):
    config = json.loads((folder / "config.json").read_text())
    for key in ("embedding", "edges", "intermediates", "shapes"):
        del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    loaded = GSDM.from_pretrained(folder)
    assert loaded.view == GraphView()
    assert_identical(draw(loaded), draw(tiny_model(PROBLEM, seed=1)))


def test_loaded_model_can_be_saved_again(folder, tmp_path):
    GSDM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    again, before = files_of(tmp_path / "again"), files_of(folder)
    assert again["model.safetensors"] == before["model.safetensors"]
    assert json.loads(again["config.json"]) == json.loads(before["config.json"])


def test_folder_holds_config_weights_and_card(folder):
    assert set(files_of(folder)) == FILES
    config = json.loads((folder / "config.json").read_text())
    assert [v["name"] for v in config["variables"]] == ["A", "R", "C", "E"]
    assert config["width"] == 8
    assert "GSDM.from_pretrained" in (folder / "README.md").read_text()


def test_card_tells_the_details_that_it_is_given(tmp_path):
    details = {"details": "Trained for an hour."}
    tiny_model().save_pretrained(tmp_path / "saved", model_card_kwargs=details)
    assert "Trained for an hour." in (tmp_path / "saved" / "README.md").read_text()


def test_loading_never_unpickles(folder, monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("something was unpickled")

    for module, name in [
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (torch.serialization, "load"),
    ]:
        monkeypatch.setattr(module, name, refuse)
    draw(GSDM.from_pretrained(folder))


def test_pickled_weights_are_not_a_model_folder(folder, tmp_path):
    ran = tmp_path / "ran"

    class Malicious:
        def __reduce__(self):
            return (Path.touch, (ran,))

    (folder / "model.safetensors").write_bytes(pickle.dumps(Malicious()))
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Malicious()))
    refusal(folder)
    (folder / "model.safetensors").unlink()
    refusal(folder, FileNotFoundError)
    assert not ran.exists()


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_truncated_weights_are_refused(folder, kept):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:kept])
    assert "damaged" in refusal(folder)


def test_weights_of_another_width_are_refused(folder, tmp_path):
    tiny_model(width=16).save_pretrained(tmp_path / "wide")
    shutil.copy(tmp_path / "wide" / "model.safetensors", folder)
    assert "damaged or of another version" in refusal(folder)


def test_weights_with_a_missing_tensor_are_refused(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["denoiser.output.bias"]
    save_file(weights, folder / "model.safetensors")
    assert "damaged or of another version" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"{", b'{"variables": [', b"\xff\xfe\x00"])
def test_config_that_is_no_json_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    assert "config.json is not valid JSON" in refusal(folder)


@pytest.mark.parametrize(
    "content", ["{}", "[]", '"GSDM"', "3", "null", '{"architectures": ["Bert"]}']
)
def test_config_of_something_else_is_refused(folder, content):
    (folder / "config.json").write_text(content)
    assert "config.json is not the config of a GSDM model" in refusal(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("width", 16),
        ("width", 7),
        ("heads", 0),
        ("layers", "two"),
        ("schedule", "sine"),
        ("loc", None),
        ("loc", [1.0]),
        ("variables", []),
        ("variables", "A, R"),
        ("variables", [{"name": "A"}]),
        ("embedding", "independent"),
        ("embedding", "none"),
        ("edges", None),
        ("intermediates", "hide"),
        ("shapes", {"A": [2, 2]}),
    ],
)
def test_config_that_does_not_fit_is_refused(folder, key, value):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert f"{name} is missing" in refusal(folder, FileNotFoundError)


def test_model_loads_without_its_card(folder):
    (folder / "README.md").unlink()
    GSDM.from_pretrained(folder)


def test_empty_folder_is_refused(tmp_path):
    refusal(tmp_path, FileNotFoundError)


def test_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    refusal(tmp_path / "file", FileNotFoundError)


def test_path_that_does_not_exist_is_refused_without_asking_the_hub(
    tmp_path, monkeypatch
):
    def ask(*arguments, **named):
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", ask)
    monkeypatch.setattr("gsdm_pyg.model_folder.hf_hub_download", ask)
    refusal(tmp_path / "nowhere", FileNotFoundError)
    monkeypatch.chdir(tmp_path)
    refusal(Path("runs/tiny/model"), FileNotFoundError)


@pytest.mark.parametrize("name", ["nowhere", "nobody/nowhere"])
def test_name_that_does_not_exist_is_refused_offline(name, offline):
    refusal(Path(name), FileNotFoundError)


def test_saving_over_a_folder_replaces_it_whole(folder):
    wide = tiny_model(PROBLEM, width=16)
    wide.save_pretrained(folder, model_card_kwargs={"details": "The wide one."})
    assert_identical(draw(GSDM.from_pretrained(folder)), draw(wide))
    assert set(files_of(folder)) == FILES
    assert "The wide one." in (folder / "README.md").read_text()


def test_saving_makes_the_folders_above(tmp_path):
    tiny_model().save_pretrained(tmp_path / "a" / "b" / "saved")
    GSDM.from_pretrained(tmp_path / "a" / "b" / "saved")


def test_failure_while_writing_leaves_the_old_folder_as_it_was(folder, monkeypatch):
    before = files_of(folder.parent)

    def write_half(model, path, *arguments, **named):
        Path(path).write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_model", write_half)
    with pytest.raises(OSError, match="No space left"):
        tiny_model(width=16).save_pretrained(folder)
    assert files_of(folder.parent) == before


@pytest.mark.parametrize("name", sorted(FILES))
def test_failure_while_replacing_leaves_a_folder_that_loads(folder, monkeypatch, name):
    replace = os.replace

    def fail(source, target, **named):
        if Path(target).name == name:
            raise OSError("Input/output error")
        replace(source, target, **named)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        tiny_model(width=16).save_pretrained(folder)
    draw(GSDM.from_pretrained(folder))
