"""`gsdm show`: what is shown, and what is refused before anything is served."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
from argparse import Namespace

import httpx
import pytest

from gsdm_pyg.cli.show import load_subject
from gsdm_pyg.run_folder import newest_run
from problems import BCMF
from tests.cli.commands import PROBLEM, SIZES, refusal
from tests.helpers import ROOT, STUCK, USER_PROBLEM, tiny_model, write_config
from tests.workbench.browsers import shown

EXECUTED = "\nfrom pathlib import Path\nPath('executed').touch()\n"


def arguments(model: object, *settings: str, problem: str | None = None) -> Namespace:
    return Namespace(
        model=str(model),
        settings=list(settings),
        problem=problem,
        seed=0,
        device="cpu",
    )


@pytest.fixture
def user_problem(tmp_path) -> str:
    (tmp_path / "mine.py").write_text(USER_PROBLEM + EXECUTED)
    return "mine.py:UserSum"


def test_a_model_folder_is_shown_at_the_sizes_of_the_command(model_folder):
    subject = load_subject(arguments(model_folder, *SIZES))
    assert subject.problem == PROBLEM
    assert subject.model is not None and not subject.follows_run


def test_a_config_is_shown_at_its_largest_size_and_its_newest_run_is_followed(tmp_path):
    path = write_config(tmp_path / "mine.yaml")
    subject = load_subject(arguments(path))
    assert subject.problem == BCMF(m=3, n=3, k=2)
    assert subject.model is None and subject.follows_run and subject.run is None
    for name in ("mine", "mine-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert subject.run is not None and subject.run.name == "mine-2"
    assert load_subject(arguments(path, "m=2")).problem == BCMF(m=2, n=3, k=2)


def test_impossible_devices_and_seeds_are_refused_for_configs_too(
    tmp_path, model_folder
):
    path = write_config(tmp_path / "mine.yaml")
    for named in ([path], [model_folder, *SIZES]):
        for device in ("cuda:99", "hpu", "meta"):
            message = refusal("show", *named, "--device", device)
            assert "--device names no device of this machine" in message
        message = refusal("show", *named, "--seed", -1)
        assert "--seed is a number of at least 0 (got -1)" in message


def test_a_run_folder_is_followed_and_its_model_shown(tmp_path):
    write_config(tmp_path / "config.yaml")
    subject = load_subject(arguments(tmp_path))
    assert subject.run == tmp_path and subject.model is None
    tiny_model(BCMF.family(m=(1, 3), n=(1, 3), k=(1, 2))).save_pretrained(
        tmp_path / "model"
    )
    assert subject.model is not None


def test_the_newest_run_is_the_last_number(tmp_path):
    assert newest_run("mine") is None
    for number in ("", "-2", "-3"):
        (tmp_path / "runs" / f"mine{number}").mkdir(parents=True)
    assert str(newest_run("mine")) == "runs/mine-3"


def test_a_problem_file_is_executed_only_if_the_command_names_it(
    tmp_path, user_problem
):
    config = write_config(tmp_path / "c.yaml", problem={"name": user_problem})
    assert f"pass --problem {user_problem}" in refusal("show", config)
    assert not (tmp_path / "executed").exists()
    problem = {"name": user_problem, "n": 3}
    config = tmp_path / "d.yaml"
    config.write_text(f"problem: {problem}\n")
    subject = load_subject(arguments(config, problem=user_problem))
    assert subject.problem.n == 3
    assert (tmp_path / "executed").exists()
    tiny_model(subject.problem).save_pretrained(tmp_path / "model")
    assert f"pass --problem {user_problem}" in refusal("show", tmp_path / "model")


def test_a_foppl_file_is_opened_only_if_the_command_names_it(tmp_path):
    program = ROOT / "examples/programs/bcmf.foppl"
    config = write_config(tmp_path / "c.yaml", problem={"name": str(program)})
    assert f"pass --problem {program}" in refusal("show", config)
    config = tmp_path / "d.yaml"
    config.write_text(f"problem: {{name: {program}}}\n")
    subject = load_subject(arguments(config, problem=str(program)))
    assert subject.problem.reference == str(program)
    tiny_model(subject.problem).save_pretrained(tmp_path / "model")
    assert f"pass --problem {program}" in refusal("show", tmp_path / "model")


def test_without_a_web_server_the_command_says_what_to_install(
    model_folder, monkeypatch
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == "uvicorn" else find(n)
    )
    message = refusal("show", model_folder, *SIZES)
    assert "pip install 'gsdm_pyg[show]' (got no uvicorn)" in message


def test_places_where_nothing_can_listen_are_refused(model_folder):
    assert "up to 65535" in refusal("show", model_folder, *SIZES, "--port", "70000")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refusal("show", model_folder, *SIZES, "--port", port)
    assert "choose another --port, or 0 for a free one" in message
    assert f"(got 127.0.0.1:{port}: " in message
    message = refusal("show", model_folder, *SIZES, "--host", "nowhere.invalid")
    assert "a --host of this machine" in message


@pytest.mark.parametrize("name", ["nowhere", "nowhere.yaml"])
def test_what_is_not_there_is_refused(name):
    assert name in refusal("show", name)


def test_a_config_of_no_experiment_is_refused(tmp_path):
    (tmp_path / "c.yaml").write_text("- 1\n")
    refusal("show", tmp_path / "c.yaml")


@pytest.mark.slow
def test_the_server_answers_at_the_printed_address_until_it_is_interrupted():
    with shown("pretrained/state-space") as url:
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}/api/problem").json()["problem"] == "StateSpace"
    command = [sys.executable, "-m", "gsdm_pyg", "show", "pretrained/state-space"]
    server = subprocess.Popen(
        [*command, "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    address = [server.stdout.readline() for _ in range(2)][1].split()[0]
    assert httpx.get(address).status_code == 200
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=STUCK)
    assert server.returncode == 130
    assert errors.strip() == "interrupted"
