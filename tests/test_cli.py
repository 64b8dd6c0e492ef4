"""The command line: files in, files out, and one line for what went wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from gsdm_pyg import GSDM
from gsdm_pyg.cli import main
from gsdm_pyg.config import dump_config, load_config, parse_config
from gsdm_pyg.data import keyed_generator
from gsdm_pyg.evaluation import evaluate, prior_metrics
from problems import BCMF
from tests.runs import (
    ROOT,
    USER_PROBLEM,
    files_of,
    finish,
    seeded,
    start,
    tiny_model,
    train_here,
    write_config,
)

PROBLEM = BCMF(m=2, n=3, k=2)
SIZES = ["m=2", "n=3", "k=2"]
nan = math.nan


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model(BCMF.family(m=(1, 2), n=(1, 3), k=2)).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(command: str, model: Path, *arguments: object, sizes=SIZES) -> None:
    main([command, str(model), *sizes, "--steps", "3", *map(str, arguments)])


def refusal(*arguments: object) -> str:
    """The one line that a command ends in."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    message = caught.value.code
    assert isinstance(message, str)
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1
    return message


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
        generator=keyed_generator("sample", 7),
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


def test_evaluate_prints_metrics_beside_those_of_the_prior(model_folder, capsys):
    run("evaluate", model_folder, "--instances", 3, "--seed", 5, "--restarts", 1)
    model = GSDM.from_pretrained(model_folder)
    rmse = evaluate(model, PROBLEM, 3, steps=3, restarts=1, seed=5).metrics["rmse"]
    prior = prior_metrics(PROBLEM, 3, seed=5)["rmse"]
    assert capsys.readouterr().out.splitlines() == [
        "BCMF(m=2,n=3,k=2), 3 instances, seed 5",
        f"rmse: {rmse:.4f} (answers from the prior: {prior:.4f})",
    ]
    assert list(Path().iterdir()) == []


def test_evaluate_writes_metrics_and_pictures(model_folder):
    run(
        "evaluate",
        model_folder,
        *["--instances", 2, "--out", "metrics.json", "--pictures", "pictures"],
    )
    result = evaluate(GSDM.from_pretrained(model_folder), PROBLEM, 2, steps=3)
    assert json.loads(Path("metrics.json").read_text()) == result.metrics
    pictures = list(Path("pictures").iterdir())
    assert len(pictures) == 2
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


@pytest.mark.parametrize("command", ["sample", "evaluate"])
@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        (["m=2", "n=3", "k=[1, 2]"], "Here a size is one number (got 'k=[1, 2]')"),
        (["m=2", "n=3", "k"], "A size reads name=value (got 'k')"),
        (["m=2", "n=3", "k=0"], "BCMF.k is a size"),
        (["m=2", "n=3", "k=-1"], "BCMF.k is a size"),
        (["m=2", "n=3", "k=two"], "BCMF.k is a size"),
        (["m=2", "n=3", "k=[1"], "k=[1"),
        (["m=2", "n=3", "k=2", "q=1"], "BCMF takes m, n, k, given (got 'q')"),
    ],
)
def test_impossible_sizes_are_refused(model_folder, command, sizes, complaint):
    assert complaint in refusal(command, model_folder, *sizes)


def test_sizes_left_out_are_the_largest_of_training(model_folder, tmp_path):
    out = tmp_path / "samples.json"
    main(["sample", str(model_folder), "m=2", "--steps=2", f"--out={out}"])
    sizes = GSDM.from_pretrained(model_folder).sizes
    largest = {n: s[-1] if isinstance(s, list) else s for n, s in sizes.items()}
    R = np.array(json.loads(out.read_text())["R"])
    assert R.shape == (1, largest["k"], largest["n"])


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
        ({"E": [1, 2]}, "given['E'] must have the shape (2, 3) (got (2,))"),
        ({"R": [[2, 0, 0], [0, 0, 0]]}, "given['R'] takes classes 0..1"),
        ({"A": [[1.5, 0], [0, 0]]}, "given['A'] takes real numbers in [0, 1]"),
    ],
)
def test_impossible_given_is_refused(model_folder, given, complaint):
    Path("given.json").write_text(json.dumps(given))
    message = refusal("sample", model_folder, *SIZES, "--given", "given.json")
    assert complaint in message
    assert not Path("samples.npz").exists()


@pytest.mark.parametrize("command", ["sample", "evaluate"])
@pytest.mark.parametrize("steps", [0, -1, 1001])
def test_impossible_steps_are_refused(model_folder, command, steps):
    message = refusal(command, model_folder, *SIZES, "--steps", steps)
    assert f"(got {steps})" in message


@pytest.mark.parametrize("steps, restarts", [(5, -1), (1, 1)])
def test_impossible_restarts_are_refused(model_folder, steps, restarts):
    options = ["--steps", steps, "--restarts", restarts]
    message = refusal("sample", model_folder, *SIZES, *options)
    assert f"(got {restarts} with steps={steps})" in message


def test_counts_below_one_are_refused(model_folder):
    message = refusal("sample", model_folder, *SIZES, "--num-samples", 0)
    assert "num_samples must be at least 1 (got 0)" in message
    assert "(got 0)" in refusal("evaluate", model_folder, *SIZES, "--instances", 0)


@pytest.mark.parametrize("command", ["sample", "evaluate"])
def test_unknown_model_folder_is_refused(command, tmp_path):
    nowhere = tmp_path / "nowhere"
    message = refusal(command, nowhere, *SIZES)
    assert "There is no model folder" in message
    assert str(nowhere) in message


@pytest.mark.parametrize("command", ["sample", "evaluate"])
def test_damaged_model_folder_is_refused(command, model_folder, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name, content in files_of(model_folder).items():
        (damaged / name).write_bytes(content[:50])
    assert str(damaged) in refusal(command, damaged, *SIZES)


@pytest.mark.parametrize("command", ["sample", "evaluate"])
def test_problem_of_another_model_is_refused(command, model_folder):
    Path("mine.py").write_text(USER_PROBLEM)
    problem = ["--problem", "mine.py:UserSum"]
    message = refusal(command, model_folder, "n=2", *problem)
    assert "trained on BCMF" in message
    assert "UserSum does not fit" in message


@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        ("Sudokku", "No problem is called 'Sudokku'"),
        ("nowhere.py:Problem", "problem file does not exist (got 'nowhere.py')"),
        ("mine.py:Nothing", "mine.py defines no Problem of that name (got 'Nothing')"),
        ("mine.py:torch", "mine.py defines no Problem of that name (got 'torch')"),
    ],
)
def test_unknown_problem_is_refused(model_folder, problem, complaint):
    Path("mine.py").write_text(USER_PROBLEM)
    message = refusal("sample", model_folder, *SIZES, "--problem", problem)
    assert complaint in message


def test_model_that_names_no_problem_asks_for_one(tmp_path):
    model = tiny_model()
    nameless = GSDM(model.variables, [0.0] * 4, [1.0] * 4, width=8, layers=1)
    nameless.save_pretrained(tmp_path / "nameless")
    message = refusal("sample", tmp_path / "nameless", *SIZES)
    assert message == "error: This model does not name its problem: pass --problem."
    run("sample", tmp_path / "nameless", "--problem", "BCMF")
    assert Path("samples.npz").exists()


def test_train_refuses_a_bad_config_in_one_line(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    assert "did you mean 'layers'?" in refusal("train", config, "model.layrs=2")
    assert "does not exist" in refusal("train", tmp_path / "nowhere.yaml")
    assert "width must be even" in refusal("train", config, "model.width=7")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize("override", ["trainer.max_steps=null", "data.max_nodes=2"])
def test_settings_that_cannot_be_trained_leave_no_run_folder(tmp_path, override):
    config = write_config(tmp_path / "tiny.yaml")
    refusal("train", config, override, "--run-dir", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resume_without_a_checkpoint_is_refused(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    run_dir = tmp_path / "run"
    message = refusal("train", config, "--resume", "--run-dir", run_dir)
    assert "no checkpoint to resume from" in message
    assert str(run_dir) in message
    assert "runs/tiny" in refusal("train", config, "--resume")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def fake_run(run_dir: Path, config: Path) -> Path:
    """A run folder as far as the checks before training look."""
    (run_dir / "checkpoints").mkdir(parents=True)
    (run_dir / "checkpoints" / "last.ckpt").write_bytes(b"")
    (run_dir / "config.yaml").write_text(dump_config(load_config(config)))
    return run_dir


@pytest.mark.parametrize(
    "override",
    [
        "model.layers=2",
        "model.width=16",
        "problem.m=2",
        "data.batch_size=3",
        "data.observe=mixed",
        "optimizer.lr=1e-4",
        "seed=1",
    ],
)
def test_resume_with_other_settings_is_refused(tmp_path, override):
    config = write_config(tmp_path / "tiny.yaml")
    run_dir = fake_run(tmp_path / "run", config)
    before = files_of(run_dir)
    message = refusal("train", config, override, "--resume", "--run-dir", run_dir)
    section = override.partition("=")[0].partition(".")[0]
    assert f"has other settings in {section!r}" in message
    assert str(run_dir) in message
    assert files_of(run_dir) == before


def test_resume_takes_runs_that_could_not_be_evaluated(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    stored = fake_run(tmp_path / "run", config) / "config.yaml"
    stored.write_text(stored.read_text().replace("steps: 3\n", "steps: 1001\n"))
    options = ["--resume", "--run-dir", tmp_path / "run"]
    assert "other settings in 'seed'" in refusal("train", config, "seed=1", *options)


def test_resume_takes_the_newest_run_of_the_config(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    for name in ("tiny", "tiny-2", "other"):
        fake_run(Path("runs") / name, config)
    assert "runs/tiny-2 has other" in refusal("train", config, "seed=1", "--resume")


@pytest.mark.parametrize("name", ["config.yaml", "notes.txt", "checkpoints/last.ckpt"])
def test_run_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path, name):
    config = write_config(tmp_path / "tiny.yaml")
    file = tmp_path / "run" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    message = refusal("train", config, "--run-dir", tmp_path / "run")
    assert "run folder is not empty" in message
    assert str(tmp_path / "run") in message
    assert files_of(tmp_path / "run") == {name: b"mine"}


def test_dry_run_tells_what_would_be_trained_and_writes_nothing(tmp_path, capsys):
    config = write_config(tmp_path / "tiny.yaml")
    train_here(config, "model.layers=2", "--dry-run")
    printed = capsys.readouterr().out
    text, _, rest = printed.partition("largest problem: ")
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
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_dry_run_shows_the_graph_that_the_model_would_see(tmp_path, capsys):
    config = write_config(tmp_path / "tiny.yaml")
    train_here(config, "model.edges=complete", "model.intermediates=drop", "--dry-run")
    nodes = 3 * 2 + 2 * 3 + 3 * 3
    shown = f"A[3, 2] latent, R[2, 3] latent, E[3, 3] observed; {nodes} nodes, "
    assert f"{shown}{nodes**2} edges, density 100.00%" in capsys.readouterr().out


def test_size_that_independent_embeddings_lack_is_refused_before_training(tmp_path):
    config = write_config(tmp_path / "tiny.yaml", problem={"m": 3, "n": 3, "k": 2})
    arguments = ("train", config, "model.embedding=independent", "--dry-run")
    message = refusal(*arguments)
    assert "one size, A [3, 2]" in message and "(got A [4, 1]" in message
    train_here(*arguments[1:], "evaluation.problems=[{m: 3, n: 3, k: 2}]")


def test_dry_run_may_name_a_run_folder_that_is_not_empty(tmp_path, capsys):
    config = write_config(tmp_path / "tiny.yaml")
    before = files_of(tmp_path)
    train_here(config, "--dry-run", "--run-dir", tmp_path)
    assert files_of(tmp_path) == before


def test_options_may_stand_before_sizes_and_overrides(model_folder, tmp_path, capsys):
    main(["sample", str(model_folder), "--steps", "2", "m=2", "n=3", "k=2"])
    assert Path("samples.npz").exists()
    config = write_config(tmp_path / "tiny.yaml")
    train_here(config, "--dry-run", "model.layers=2", "seed=3")
    assert "seed: 3" in capsys.readouterr().out


def test_option_that_does_not_exist_is_refused(model_folder, capsys):
    with pytest.raises(SystemExit):
        main(["sample", str(model_folder), *SIZES, "--stepps", "2"])
    assert "--stepps" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["fly"], ["sample"]])
def test_wrong_command_shows_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: gsdm_pyg" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "evaluate", "sample"])
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: gsdm_pyg {command}" in capsys.readouterr().out


@pytest.mark.slow
def test_problem_in_a_file_of_the_users_own_works_end_to_end(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(USER_PROBLEM)
    config = tmp_path / "mine.yaml"
    config.write_text(
        """
        problem: {name: "mine.py:UserSum", n: [1, 3]}
        model: {width: 8, layers: 1}
        data: {batch_size: 2}
        trainer: {max_steps: 3, accelerator: cpu, devices: 1}
        evaluation: {problems: [{n: 4}], final_instances: 2, steps: 3, pictures: 1}
        """
    )
    train_here(config)
    folder = Path("runs/mine/model")
    assert len(list(Path("runs/mine/pictures").glob("usersum-n4-*.png"))) == 1

    run("evaluate", folder, "--instances", 2, sizes=["n=5"])
    assert "UserSum(n=5), 2 instances" in capsys.readouterr().out

    Path("given.json").write_text('{"s": 1.5}')
    run("sample", folder, "--given", "given.json", "--out", "out.json", sizes=["n=5"])
    samples = json.loads(Path("out.json").read_text())
    assert samples["s"] == [1.5]
    assert len(samples["x"][0]) == 5


@pytest.mark.slow
def test_model_finds_the_users_problem_from_another_folder(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine.py").write_text(USER_PROBLEM)
    model = tmp_path / "model"
    script = (
        "from gsdm_pyg import GSDM; from gsdm_pyg.problem import resolve_problem; "
        "problem = resolve_problem('mine.py:UserSum').family(n=(1, 3)); "
        f"GSDM.from_problem(problem, width=8, layers=1).save_pretrained({str(model)!r})"
    )
    finish(start("-c", script, cwd=home))
    command = ["-m", "gsdm_pyg", "sample", model, "n=2", "--steps", "2"]
    elsewhere = start(*command, "--problem", home / "mine.py:UserSum", cwd=tmp_path)
    assert "x [1, 2], s [1]" in finish(elsewhere)
    with np.load(tmp_path / "samples.npz") as samples:
        assert samples["x"].shape == (1, 2)


@pytest.mark.slow
def test_module_and_script_end_in_one_line_without_a_traceback(tmp_path):
    script = start(ROOT / "train.py", "nowhere.yaml", cwd=tmp_path)
    printed, _ = script.communicate(timeout=120)
    assert script.returncode == 1
    assert printed.splitlines()[-1].startswith("error: The config file does not exist")
    assert "Traceback" not in printed
