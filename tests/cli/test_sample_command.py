"""`sample`: arrays in, arrays out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from gsdm_pyg import GSDM
from tests.cli.commands import PROBLEM, SIZES, refusal, run
from tests.helpers import seeded

nan = math.nan


def test_sample_writes_named_arrays_to_npz(model_folder, capsys):
    E = PROBLEM.sample(seeded(0))["E"].numpy()
    np.savez("given.npz", E=E)
    run("sample", model_folder, "--given", "given.npz", "--num-samples", 4)
    with np.load("samples.npz") as samples:
        assert {name: samples[name].shape for name in samples.files} == {
            "A": (4, 2, 2),
            "R": (4, 2, 3),
            "C": (4, 2, 3, 2),
            "E": (4, 2, 3),
        }
        assert samples["R"].dtype == np.int64
        np.testing.assert_array_equal(samples["E"], np.broadcast_to(E, (4, 2, 3)))
    printed = capsys.readouterr().out
    assert printed == "samples.npz: A [4, 2, 2], R [4, 2, 3], C [4, 2, 3, 2], " + (
        "E [4, 2, 3]\n"
    )


def test_sample_reads_json_with_null_for_missing_and_writes_json(model_folder):
    given = {"E": [[0.5, None, 0.25], [None, 1.5, 0.0]], "R": [[1, None, 0]] * 2}
    Path("given.json").write_text(json.dumps(given))
    run("sample", model_folder, "--given", "given.json", "--out", "out.json")
    samples = json.loads(Path("out.json").read_text())
    (E,), (R,) = samples["E"], samples["R"]
    assert [E[0][0], E[0][2], E[1][1], E[1][2]] == [0.5, 0.25, 1.5, 0.0]
    assert [R[0][0], R[0][2]] == [1, 0]
    assert R[0][1] in (0, 1)
    assert all(isinstance(number, int) for row in R for number in row)
    assert all(math.isfinite(number) for row in E for number in row)


def test_sample_reads_npz_with_nan_for_missing(model_folder):
    A = np.array([[0.125, nan], [nan, 1.0]])
    np.savez("given.npz", A=A)
    run("sample", model_folder, "--given", "given.npz", "--out", "out.npz")
    with np.load("out.npz") as samples:
        found = samples["A"][0]
    assert found[0, 0] == 0.125
    assert found[1, 1] == 1.0
    assert np.isfinite(found).all()


def test_sample_without_given_is_unconditional(model_folder):
    run("sample", model_folder, "--out", "out.npz")
    with np.load("out.npz") as samples:
        assert np.isfinite(samples["E"]).all()


def test_sample_writes_what_the_library_returns(model_folder):
    options = ["--seed", 7, "--solver", "dpm++", "--restarts", 2, "--out", "out.npz"]
    run("sample", model_folder, *options)
    expected = GSDM.from_pretrained(model_folder).sample(
        PROBLEM,
        steps=3,
        solver="dpm++",
        restarts=2,
        generator=7,
    )
    with np.load("out.npz") as samples:
        for name, value in expected.items():
            np.testing.assert_array_equal(samples[name], value.numpy())


def test_sample_is_a_function_of_its_seed(model_folder):
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        run("sample", model_folder, "--seed", seed, "--out", f"{name}.json")
    a, b, c = (Path(f"{name}.json").read_text() for name in "abc")
    assert a == b
    assert a != c


def test_sample_takes_sizes_beyond_those_of_training(model_folder):
    sizes = ["m=4", "n=5", "k=3"]
    run("sample", model_folder, "--out", "out.npz", sizes=sizes)
    with np.load("out.npz") as samples:
        assert samples["C"].shape == (1, 4, 5, 3)


def test_sample_leaves_no_other_files(model_folder):
    run("sample", model_folder, "--out", "out.npz")
    run("sample", model_folder, "--out", "out.json")
    assert sorted(path.name for path in Path().iterdir()) == ["out.json", "out.npz"]


@pytest.mark.parametrize("name", ["out.csv", "out", "out.npz.gz"])
def test_samples_of_another_suffix_are_refused_and_not_written(model_folder, name):
    message = refusal("sample", model_folder, *SIZES, "--out", name)
    assert message == f"error: --out ends in .npz or .json (got {name!r})."
    assert list(Path().iterdir()) == []


def test_given_of_another_suffix_is_refused(model_folder):
    Path("given.csv").write_text("1,2,3")
    message = refusal("sample", model_folder, *SIZES, "--given", "given.csv")
    assert message == "error: --given ends in .npz or .json (got 'given.csv')."


def test_missing_given_file_is_refused(model_folder):
    message = refusal("sample", model_folder, *SIZES, "--given", "nowhere.npz")
    assert "nowhere.npz" in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("given.json", b'{"E": [[1, 2'),
        ("given.json", b"[1, 2, 3]"),
        ("given.json", b'{"E": [[1], [1, 2]]}'),
        ("given.json", b'{"E": "abc"}'),
        ("given.json", b'{"E": {"a": 1}}'),
        ("given.npz", b""),
        ("given.npz", b"not a zip file"),
        ("given.npz", b"PK\x03\x04 cut off"),
    ],
    ids=["cut", "list", "ragged", "text", "object", "empty", "no npz", "cut npz"],
)
def test_damaged_given_file_is_refused_by_name(model_folder, name, content):
    Path(name).write_bytes(content)
    assert name in refusal("sample", model_folder, *SIZES, "--given", name)


class Malicious:
    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


def test_pickled_arrays_are_refused_and_not_loaded(model_folder):
    np.savez("given.npz", E=np.array([[Malicious()]], dtype=object))
    assert "pickle" in refusal("sample", model_folder, *SIZES, "--given", "given.npz")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"B": [1]}, "variables A, R, C, E (got 'B')"),
        ({"E": [1, 2]}, "given['E'] must have the shape (2, 3), or"),
        ({"R": [[2, 0, 0], [0, 0, 0]]}, "given['R'] takes classes 0..1"),
        ({"A": [[1.5, 0], [0, 0]]}, "given['A'] takes real numbers in [0, 1]"),
    ],
)
def test_impossible_given_is_refused(model_folder, given, complaint):
    Path("given.json").write_text(json.dumps(given))
    message = refusal("sample", model_folder, *SIZES, "--given", "given.json")
    assert complaint in message
    assert not Path("samples.npz").exists()


def test_fewer_than_one_sample_is_refused(model_folder):
    message = refusal("sample", model_folder, *SIZES, "--num-samples", 0)
    assert "num_samples must be an integer of at least 1 (got 0)" in message


# Where samples go is checked before they are drawn.


@pytest.fixture
def no_model(monkeypatch) -> None:
    """Fail a test in which a model is loaded."""

    def load(*arguments, **named):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(GSDM, "from_pretrained", load)


def test_samples_replace_a_file_only_if_asked(model_folder, monkeypatch):
    Path("samples.npz").write_bytes(b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(GSDM, "from_pretrained", None)  # it is not loaded
        message = refusal("sample", model_folder, *SIZES)
    assert message == (
        "error: --out exists already: choose another name, or pass --overwrite "
        "(got 'samples.npz')."
    )
    assert Path("samples.npz").read_bytes() == b"mine"
    run("sample", model_folder, "--overwrite")
    with np.load("samples.npz") as samples:
        assert "E" in samples.files


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("folder.npz", "--out is a folder: name a file (got 'folder.npz')"),
        ("file/out.npz", "--out is below a file"),
        ("out.csv", "--out ends in .npz or .json (got 'out.csv')"),
    ],
)
def test_impossible_out_is_refused_before_the_work(no_model, out, complaint):
    Path("folder.npz").mkdir()
    Path("file").touch()
    assert complaint in refusal("sample", "model", *SIZES, "--out", out)


def test_full_disk_ends_in_one_line(model_folder, monkeypatch):
    def write(file, **arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", write)
    message = refusal("sample", model_folder, *SIZES, "--steps", 2)
    assert message == "error: No space left on device (got 'samples.npz')."
    assert list(Path().iterdir()) == []


def test_ctrl_c_while_sampling_ends_in_one_line(model_folder, monkeypatch, capsys):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(GSDM, "sample", interrupted)
    with pytest.raises(SystemExit) as caught:
        run("sample", model_folder)
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
