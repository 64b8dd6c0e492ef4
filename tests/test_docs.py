"""Blocks of code in the docs are executed: here, or when the site is built.

Three kinds are not: the block of BayesFlow, which is compiled, the commands of
`NOT_EXECUTED`, which are parsed, and what programs print.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from lightning.pytorch.utilities.seed import isolate_rng

import gsdm_pyg
from gsdm_pyg import GSDM, Problem, diagnostics, nn, ops, programs
from gsdm_pyg.cli import main, parse
from gsdm_pyg.config import read_yaml
from gsdm_pyg.paper.figure_file import load_figure
from tests import docs_blocks as docs
from tests.helpers import ROOT

LINKED = ("pretrained", "problems", "examples", "configs", "benchmarks", "train.py")
SHORT = {"max_steps": 2, "batch_size": 4}  # instead of minutes
FEW = {"steps": 2, "restarts": 0}  # evaluations of a sampler
ALLOWED = ("pip", "echo", "source", "pre-commit")  # commands of others

# Commands of shell blocks that no test executes, by their first words, and why.
NOT_EXECUTED = {
    "pip install": "needs the network",
    "make": "sets up an environment and runs for minutes; CI runs lint, docs and test",
    "gsdm show": "serves until it is interrupted; tests/workbench does that",
    "python -m gsdm_pyg reproduce": "trains for hours; tests/paper has tiny figures",
    "python -m benchmarks.baselines": "takes minutes of both cores",
    "python -m benchmarks.defaults": "trains for minutes",
    "python -m examples.programs.any_subset": "trains for minutes; so does its test",
    "gsdm doctor": "takes a minute to measure training; tests/cli does with a tiny one",
    "gsdm report": "compares samplers for minutes; tests/cli does with a tiny model",
    "python train.py configs/bcmf_varsize.yaml": "trains for minutes; tests/training "
    "starts, stops and resumes tiny runs",
}
# What makes the others take seconds.
FEWER = {
    "evaluate": ["--steps", "2", "--instances", "2"],
    "sample": ["--steps", "2"],
    "calibrate": ["--steps", "2", "--instances", "20", "--num-samples", "5"],
}
MINE = """
from torch.distributions import Normal
from gsdm_pyg import program, sample


@program
def model(n):
    sample("x", Normal(0, 1), n)
"""  # the file of a reader


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def to_run(page: Path) -> list[docs.Block]:
    """The blocks of a page to run; cells too if blocks come after them."""
    found = docs.blocks(page)
    if not any(block.language == docs.PYTHON for block in found):
        return []
    return [block for block in found if block.language in (docs.PYTHON, docs.CELL)]


def executed_pages() -> list:
    """Pages with Python to run here; slow if they make, train or load a model."""
    pages = []
    for page in docs.PAGES:
        code = "".join(block.code for block in to_run(page))
        slow = "GSDM." in code
        if code:
            pages.append(pytest.param(page, marks=[pytest.mark.slow] * slow))
    return pages


@pytest.fixture
def short(monkeypatch):
    """Trainings, samplers and calibrations that take seconds."""
    fit, sample, evaluate = GSDM.fit, GSDM.sample, GSDM.evaluate

    def short_fit(self, *args, max_time=None, **settings):
        return fit(self, *args, **{**settings, **SHORT})

    def short_sample(self, *args, **settings):
        return sample(self, *args, **{**settings, **FEW})

    def short_evaluate(self, *args, **settings):
        return evaluate(self, *args, **{**settings, **FEW})

    monkeypatch.setattr(GSDM, "fit", short_fit)
    monkeypatch.setattr(GSDM, "sample", short_sample)
    monkeypatch.setattr(GSDM, "evaluate", short_evaluate)
    defaults = diagnostics.calibrate.__kwdefaults__
    monkeypatch.setitem(defaults, "num_instances", 20)
    monkeypatch.setitem(defaults, "num_samples", 5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to write to that looks like that of the repository."""
    for entry in LINKED:
        (tmp_path / entry).symlink_to(ROOT / entry)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(Problem, "registry", dict(Problem.registry))
    return tmp_path


@pytest.mark.parametrize("page", executed_pages(), ids=name)
def test_python_of_a_page_runs_from_top_to_bottom(page, folder, short):
    namespace = {"__name__": "__main__"}
    for block in to_run(page):
        file = folder / (block.file or f"{page.stem}_{block.line}.py")
        file.write_text(block.code)  # tracebacks and the tracer read it there
        exec(compile(block.code, str(file), "exec"), namespace)


@pytest.mark.parametrize("page", docs.PAGES, ids=name)
def test_blocks_of_a_page_are_of_a_known_kind(page):
    known = (docs.CELL, docs.PYTHON, docs.OTHER_LIBRARY, docs.SHELL, docs.CONFIG)
    for block in docs.blocks(page):
        assert block.language in (*known, *docs.PLAIN), f"{name(page)}:{block.line}"
        if block.language == docs.OTHER_LIBRARY:
            compile(block.code, f"{name(page)}:{block.line}", "exec")


def test_configs_in_the_docs_say_what_to_train(folder, capsys):
    checked = 0
    for page in docs.PAGES:
        for block in docs.blocks(page):
            if block.file is not None:
                (folder / block.file).write_text(block.code)
        for block in docs.blocks(page):
            if block.language == docs.CONFIG:
                assert block.file is not None, f"{name(page)}:{block.line} has no name"
                if "rows" in read_yaml(Path(block.file)):
                    assert load_figure(block.file).claims
                else:
                    main(["train", block.file, "--dry-run"])
                checked += 1
    assert checked > 1


@pytest.mark.slow
def test_block_of_sbi_runs(folder, monkeypatch):
    """In a folder of its own: sbi writes logs to where it runs."""
    npe = pytest.importorskip("sbi.inference", reason="needs sbi").NPE
    train = npe.train
    short = {"max_num_epochs": 2, "training_batch_size": 1000}
    monkeypatch.setattr(npe, "train", lambda self: train(self, **short))
    page = ROOT / "docs/coming-from.md"
    (block,) = (b for b in docs.blocks(page) if b.code.startswith("# sbi\n"))
    namespace: dict = {}
    with isolate_rng():
        exec(compile(block.code, "sbi", "exec"), namespace)
    assert namespace["samples"].shape == (1000, 2)


def exception(words: list[str]) -> str | None:
    """The first words of a command, if it is one that is not executed."""
    line = " ".join(words)
    if "--dry-run" in words:
        return None
    return next((e for e in NOT_EXECUTED if f"{line} ".startswith(f"{e} ")), None)


def pages_with_commands() -> list:
    pages = []
    for page in docs.PAGES:
        found = [words for words, _ in docs.shell_commands(page)]
        if not all(map(exception, found)):
            pages.append(page)
    return pages


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with_commands(), ids=name)
def test_commands_of_a_page_run_one_after_the_other(page, folder, capsys):
    (folder / "mine.py").write_text(MINE)
    for words, out in docs.shell_commands(page):
        if exception(words) is not None:
            continue
        if words[0] == "echo":
            assert out is not None
            (folder / out).write_text(" ".join(words[1:]))
            continue
        arguments = docs.own_arguments(words)
        assert arguments is not None, words
        with isolate_rng():
            main([*arguments, *FEWER.get(arguments[0], [])])
        for word in arguments:
            if word.endswith((".npz", ".png", ".json", ".graphml")):
                assert (folder / word).is_file(), word


def test_commands_that_are_not_executed_are_in_the_docs():
    found = [w for page in docs.PAGES for w, _ in docs.shell_commands(page)]
    assert {exception(words) for words in found} - {None} == set(NOT_EXECUTED)


@pytest.mark.parametrize("page", docs.PAGES, ids=name)
def test_commands_in_the_docs_are_ones_that_exist(page, capsys):
    for words in docs.commands(page):
        arguments = docs.own_arguments(words)
        if arguments is not None:
            if len(arguments) > 1:  # otherwise a command is named, not called
                parse(arguments)
            for word in arguments:
                if word.startswith(("pretrained/", "configs/", "examples/")):
                    assert list(ROOT.glob(word.partition(":")[0])), word
        elif words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            for target in targets:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)
        elif words[:2] == ["python", "-m"]:
            assert find_spec(words[2]) is not None, words
        else:
            assert "=" in words[0] or words[0] in ALLOWED, words


def test_reference_has_every_public_name():
    pages = [page.read_text() for page in (ROOT / "docs/reference").glob("*.md")]
    text = "\n".join(pages)
    for module in (gsdm_pyg, nn, ops, diagnostics, programs):
        for public in module.__all__:
            assert re.search(rf"^\.\. auto\w+:: {public}\b", text, re.M), public


def test_front_page_leads_to_what_a_newcomer_looks_for():
    text = (ROOT / "docs/index.md").read_text()
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert links >= {
        "#install",
        "tutorials/factorize.md",  # ten lines
        "tutorials/own-model.md",
        "tutorials/layer.md",
        "calibration.md",
        "tutorials/sudoku.md",  # solving
        "results.md",
    }


def test_every_page_is_reached_by_links_from_the_front_page():
    pages = {page for page in docs.PAGES if page.is_relative_to(ROOT / "docs")}
    reached, new = set(), {ROOT / "docs/index.md"}
    while new:
        reached |= new
        new = {target for page in new for target in docs.links(page)} & pages - reached
    assert reached == pages


@pytest.mark.parametrize("page", docs.PAGES, ids=name)
def test_links_of_a_page_lead_to_files(page):
    for target in docs.links(page):
        assert target.exists(), target


def test_pages_that_include_a_file_link_to_it_too():
    for page in docs.PAGES:
        for included in re.findall(r"^```\{include\} (.+)$", page.read_text(), re.M):
            assert (page.parent / included).resolve() in docs.links(page), name(page)


@pytest.mark.slow
def test_site_is_built_without_a_warning_and_loads_no_file_of_others(tmp_path):
    sphinx = [sys.executable, "-m", "sphinx", "-W", "-b", "html"]
    fast = ["-D", "nb_execution_mode=off", "-D", "suppress_warnings=myst-nb.lexer"]
    places = ["-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(tmp_path / "html")]
    built = subprocess.run([*sphinx, *fast, *places], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    loads = r"<(?:script|img|iframe|source)[^>]*src=\"(?:https?:)?//|<link[^>]*(?:style"
    loads += r"sheet|icon|preload)[^>]*href=\"(?:https?:)?//|@import|url\([\"']?https?:"
    for file in (tmp_path / "html").rglob("*"):
        if file.suffix in (".html", ".css"):
            assert re.search(loads, file.read_text()) is None, file.name
