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

from gsdm_pyg import GSDM, GraphOptions, SamplerSettings
from problems import BCMF
from tests.helpers import assert_identical, files_of, seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)
OPTIONS = [
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


def edit(folder: Path, change) -> None:
    """Apply a function to the config of a folder, in place."""
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


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
    arguments |= {"discrete_scale": 0.25, "self_conditioning": True, "dropout": 0.1}
    saved = tiny_model(source, **arguments)
    saved.save_pretrained(tmp_path / "saved")
    loaded = GSDM.from_pretrained(tmp_path / "saved")
    assert loaded.spec.name == "BCMF"
    assert loaded.spec.sizes == {"m": [1, 3], "n": 2, "k": [1, 2]}
    assert loaded.spec == saved.spec
    assert loaded.settings == saved.settings
    assert loaded.settings.model_dump().items() >= arguments.items()
    assert torch.equal(loaded.diffusion.scaling.loc, saved.diffusion.scaling.loc)
    assert torch.equal(loaded.diffusion.scaling.scale, saved.diffusion.scaling.scale)
    assert torch.equal(loaded.diffusion.beta, saved.diffusion.beta)
    assert_identical(draw(saved), draw(loaded))
    assert not loaded.training


@pytest.mark.parametrize("options", OPTIONS, ids="-".join)
def test_loaded_model_sees_the_graphs_that_the_saved_one_saw(tmp_path, options):
    chosen = dict(zip(("embedding", "edges", "intermediates"), options, strict=True))
    saved = tiny_model(PROBLEM, **chosen)
    saved.save_pretrained(tmp_path / "saved")
    loaded = GSDM.from_pretrained(tmp_path / "saved")
    assert loaded.settings.graph == saved.settings.graph == GraphOptions(**chosen)
    assert loaded.spec.shapes == saved.spec.shapes
    assert_identical(draw(saved), draw(loaded))


def test_the_sampler_is_stored_and_used_by_default(tmp_path):
    saved = tiny_model(PROBLEM)
    saved.sampler = SamplerSettings(steps=4, solver="ddim", restarts=1)
    saved.save_pretrained(tmp_path / "saved")
    loaded = GSDM.from_pretrained(tmp_path / "saved")
    assert loaded.sampler == saved.sampler
    explicit = {"steps": 4, "solver": "ddim", "spacing": "logsnr", "restarts": 1}
    assert_identical(
        loaded.sample(PROBLEM, generator=seeded(0)),
        tiny_model(PROBLEM).sample(PROBLEM, generator=seeded(0), **explicit),
    )
    ours, theirs = loaded.evaluate(PROBLEM, 2), saved.evaluate(PROBLEM, 2, **explicit)
    assert ours.metrics == theirs.metrics


def test_loaded_model_can_be_saved_again(folder, tmp_path):
    GSDM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    again, before = files_of(tmp_path / "again"), files_of(folder)
    assert again["model.safetensors"] == before["model.safetensors"]
    assert json.loads(again["config.json"]) == json.loads(before["config.json"])


def test_folder_holds_config_weights_and_card(tmp_path):
    model = tiny_model(PROBLEM, backend="scatter")
    model.save_pretrained(tmp_path, details="Trained for an hour.")
    assert set(files_of(tmp_path)) == FILES
    config = json.loads((tmp_path / "config.json").read_text())
    assert list(config) == ["format_version", "problem", "model", "sampler"]
    assert config["format_version"] == 2
    assert [v["name"] for v in config["problem"]["variables"]] == ["A", "R", "C", "E"]
    assert config["model"]["width"] == 8
    assert config["sampler"] == {
        "steps": 50,
        "solver": "dpm++_sde",
        "spacing": "logsnr",
        "restarts": 0,
    }
    assert "backend" not in (tmp_path / "config.json").read_text()
    card = (tmp_path / "README.md").read_text()
    assert "GSDM.from_pretrained" in card and "Trained for an hour." in card


# versions

# What folders were sampled with before they stored it.
OLDER_SAMPLER = SamplerSettings(steps=50, solver="ddpm", spacing="time")


def to_version_1(config: dict) -> None:
    """Rewrite a config as version 1 did: flat, with a backend and without sampler."""
    problem, model = config["problem"], config["model"]
    variables = problem["variables"]
    flat = {
        **model,
        "backend": "auto",
        "problem": problem["name"],
        "sizes": problem["sizes"],
        "shapes": problem["shapes"],
        "loc": [v["loc"] for v in variables],
        "scale": [v["scale"] for v in variables],
        "variables": [
            {key: v[key] for key in ("name", "num_classes", "role")} for v in variables
        ],
    }
    config.clear()
    config.update(flat)


@pytest.mark.parametrize("options", [{}, {"embedding": "independent", "width": 12}])
def test_a_folder_of_version_1_gives_the_same_samples(tmp_path, options):
    saved = tiny_model(
        PROBLEM, discrete_scale=0.4, observe="mixed", scales="linear", **options
    )
    saved.sampler = OLDER_SAMPLER
    saved.save_pretrained(tmp_path)
    edit(tmp_path, to_version_1)
    loaded = GSDM.from_pretrained(tmp_path)
    assert_identical(draw(saved), draw(loaded))
    assert (loaded.spec, loaded.settings) == (saved.spec, saved.settings)
    assert loaded.sampler == OLDER_SAMPLER


def test_what_the_first_folders_do_not_say_has_its_default(tmp_path):
    older = {"scales": "linear", "schedule": "cosine", "continuous_loss": "x0"}
    saved = tiny_model(PROBLEM, seed=1, discrete_scale=1.0, **older)
    saved.sampler = OLDER_SAMPLER
    saved.save_pretrained(tmp_path)

    def shorten(config):
        to_version_1(config)
        for key in ("embedding", "edges", "intermediates", "shapes", "sizes"):
            del config[key]
        for key in ("continuous_loss", "discrete_scale", "self_conditioning"):
            del config[key]
        for key in ("observe", "problem", "backend", "scales"):
            del config[key]

    edit(tmp_path, shorten)
    loaded = GSDM.from_pretrained(tmp_path)
    assert loaded.settings.graph == GraphOptions()
    assert loaded.settings == saved.settings
    assert_identical(draw(loaded), draw(saved))


def test_a_folder_of_version_1_is_saved_as_version_2(tmp_path):
    folder = tmp_path / "saved"
    saved = tiny_model(PROBLEM, scales="linear")
    saved.sampler = OLDER_SAMPLER
    saved.save_pretrained(folder)
    before = (folder / "config.json").read_text()
    edit(folder, to_version_1)
    GSDM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "config.json").read_text() == before


@pytest.mark.parametrize(
    ("name", "stored", "loaded"),
    [("solver", "unipc", "dpm++"), ("spacing", "karras", "logsnr")],
)
def test_a_stored_sampler_that_is_no_choice_any_more_becomes_the_nearest(
    folder, name, stored, loaded
):
    edit(folder, lambda config: config["sampler"].update({name: stored}))
    assert getattr(GSDM.from_pretrained(folder).sampler, name) == loaded


@pytest.mark.parametrize("version", [3, 99, "two", 2.5, None, 0, -1])
def test_a_folder_of_a_newer_version_is_refused(folder, version):
    edit(folder, lambda config: config.update(format_version=version))
    message = refusal(folder)
    assert "was written by a newer gsdm_pyg: upgrade" in message
    assert f"(got format_version {version!r}, known: 1 to 2)" in message


def test_an_unknown_backend_is_not_blamed_on_the_folder(folder):
    with pytest.raises(ValueError, match=r"^backend is one of .* \(got 'x'\)\.$"):
        GSDM.from_pretrained(folder, backend="x")


def test_the_backend_is_chosen_where_a_model_is_loaded(folder):
    model = GSDM.from_pretrained(folder, backend="scatter")
    assert model.diffusion.denoiser.attention[0].attention.backend == "scatter"


# damage


def test_loading_never_unpickles(folder, monkeypatch):
    draw(GSDM.from_pretrained(folder))  # Numba unpickles the kernels that it cached

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


def test_config_that_is_no_json_is_refused(folder):
    for content in [b"", b"{", b'{"variables": [', b"\xff\xfe\x00"]:
        (folder / "config.json").write_bytes(content)
        assert "config.json is not valid JSON" in refusal(folder)


def test_config_of_something_else_is_refused(folder):
    for content in ["{}", "[]", '"GSDM"', "3", "null", '{"architectures": ["Bert"]}']:
        (folder / "config.json").write_text(content)
        assert "config.json is not the config of a GSDM model" in refusal(folder)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("model", "width", 16),
        ("model", "width", 7),
        ("model", "heads", 0),
        ("model", "layers", "two"),
        ("model", "schedule", "sine"),
        ("model", "embedding", "independent"),
        ("model", "embedding", "none"),
        ("model", "edges", None),
        ("model", "intermediates", "hide"),
        ("model", "widht", 8),
        ("problem", "variables", []),
        ("problem", "variables", "A, R"),
        ("problem", "variables", [{"name": "A"}]),
        ("problem", "shapes", {"A": [2, 2]}),
        ("sampler", "solver", "euler"),
        ("sampler", "steps", 0),
    ],
)
def test_config_that_does_not_fit_is_refused(folder, section, key, value):
    edit(folder, lambda config: config[section].update({key: value}))
    assert "damaged or of another version" in refusal(folder)


@pytest.mark.parametrize("section", ["problem", "model", "sampler"])
def test_section_that_is_no_section_is_refused(folder, section):
    for value in (None, 3, "BCMF", [3]):
        edit(folder, lambda config, value=value: config.update({section: value}))
        assert "damaged or of another version" in refusal(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("width", 7),
        ("layers", "two"),
        ("loc", None),
        ("loc", [1.0]),
        ("variables", []),
        ("variables", "A, R"),
        ("variables", [{"name": "A"}]),
        ("shapes", {"A": [2, 2]}),
    ],
)
def test_config_of_version_1_that_does_not_fit_is_refused(folder, key, value):
    def change(config):
        to_version_1(config)
        config[key] = value

    edit(folder, change)
    assert "damaged or of another version" in refusal(folder)


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


def test_saving_over_a_folder_replaces_it_whole(folder):
    wide = tiny_model(PROBLEM, width=16)
    wide.save_pretrained(folder, details="The wide one.")
    assert_identical(draw(GSDM.from_pretrained(folder)), draw(wide))
    assert set(files_of(folder)) == FILES
    assert "The wide one." in (folder / "README.md").read_text()


def test_saving_makes_the_folders_above(tmp_path):
    tiny_model().save_pretrained(tmp_path / "a" / "b" / "saved")
    GSDM.from_pretrained(tmp_path / "a" / "b" / "saved")


@pytest.mark.parametrize("name", sorted(FILES))
def test_failure_while_replacing_a_file_leaves_the_old_folder(
    folder, monkeypatch, name
):
    before, replace = files_of(folder.parent), os.replace

    def fail(source, target, **named):
        if Path(target).name == name:
            raise OSError("Input/output error")
        replace(source, target, **named)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        tiny_model(width=16).save_pretrained(folder)
    assert files_of(folder.parent) == before
    assert_identical(draw(GSDM.from_pretrained(folder)), draw(tiny_model(seed=1)))


@pytest.mark.parametrize("num_written", [0, 1, 2])
def test_failure_while_writing_a_file_leaves_the_old_folder(
    folder, monkeypatch, num_written
):
    before, fsync, written = files_of(folder.parent), os.fsync, []

    def fail_once(file):
        written.append(file)
        if len(written) == num_written + 1:
            raise OSError("No space left on device")
        fsync(file)

    monkeypatch.setattr(os, "fsync", fail_once)
    with pytest.raises(OSError, match="No space left"):
        tiny_model(width=16).save_pretrained(folder)
    assert files_of(folder.parent) == before


def test_failure_while_writing_a_new_folder_leaves_no_file(tmp_path, monkeypatch):
    replace = os.replace

    def fail_at_the_last(source, target, **named):
        if Path(target).name == "README.md":
            raise OSError("Input/output error")
        replace(source, target, **named)

    monkeypatch.setattr(os, "replace", fail_at_the_last)
    with pytest.raises(OSError, match="Input/output"):
        tiny_model().save_pretrained(tmp_path / "saved")
    assert files_of(tmp_path) == {}


# the Hub


def test_path_that_does_not_exist_is_refused_without_asking_the_hub(
    tmp_path, monkeypatch
):
    def ask(*arguments, **named):
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr("huggingface_hub.snapshot_download", ask)
    refusal(tmp_path / "nowhere", FileNotFoundError)
    monkeypatch.chdir(tmp_path)
    refusal(Path("runs/tiny/model"), FileNotFoundError)
    (tmp_path / "runs").mkdir()
    refusal(Path("runs/tiny"), FileNotFoundError)


def test_name_that_does_not_exist_is_refused_offline(offline):
    for name in ["nowhere", "nobody/nowhere"]:
        refusal(Path(name), FileNotFoundError)


def test_an_id_of_the_hub_is_downloaded_without_other_files(folder, monkeypatch):
    asked = []

    def download(repo_id, revision, token, allow_patterns):
        asked.append((repo_id, revision, token, set(allow_patterns)))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    loaded = GSDM.from_pretrained("owner/tiny", revision="v2", token="secret")
    assert asked == [("owner/tiny", "v2", "secret", FILES)]
    assert_identical(draw(loaded), draw(tiny_model(seed=1)))


def test_pushing_uploads_a_model_folder(folder, monkeypatch):
    calls = []

    class Hub:
        def create_repo(self, repo_id, private, exist_ok):
            calls.append((repo_id, private, exist_ok))

        def upload_folder(self, repo_id, folder_path):
            calls.append((repo_id, files_of(Path(folder_path))))
            return "https://hub/owner/tiny"

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    model = GSDM.from_pretrained(folder)
    assert model.push_to_hub("owner/tiny", private=True) == "https://hub/owner/tiny"
    assert calls == [("owner/tiny", True, True), ("owner/tiny", files_of(folder))]
