"""Every block of code in the docs is executed: here, or when the site is built."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gsdm_pyg
from gsdm_pyg import GSDM, Problem, diagnostics, nn, ops, programs
from gsdm_pyg.cli import main, parse
from tests import docs_blocks as docs
from tests.helpers import ROOT

LINKED = ("pretrained", "problems", "examples", "configs", "benchmarks", "train.py")
SHORT = {"max_steps": 2, "batch_size": 4}  # instead of minutes
FEW = {"steps": 2, "restarts": 0}  # evaluations of a sampler
ALLOWED = ("pip", "echo", "source", "pre-commit")  # commands of others


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
                main(["train", block.file, "--dry-run"])
                checked += 1
    assert checked > 0


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
