"""`compile`: the graph of a source in words, as a picture and in files."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from gsdm_pyg.cli import main
from gsdm_pyg.doctor.description import describe
from gsdm_pyg.problem import graph_of
from problems import BCMF, Sorting, Sudoku
from tests.cli.commands import refusal
from tests.helpers import ROOT, USER_PROBLEM

PROGRAM = """
from torch.distributions import Normal
from gsdm_pyg import observe, program, sample

@program
def chain(n):
    x = sample("x", Normal(0.0, 1.0), n)
    observe("y", Normal(x, 0.5))

short = chain(n=2)
number = 3

def plain(n):
    pass
"""


def compiled(capsys, *arguments: object) -> str:
    main(["compile", *map(str, arguments)])
    return capsys.readouterr().out


def test_the_graph_of_a_built_in_problem_in_words(capsys):
    printed = compiled(capsys, "BCMF", "m=3", "n=2", "k=4")
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[0] == "BCMF(m=3,n=2,k=4)"
    assert "A [3, 4] latent real numbers in [0, 1]" in lines
    assert "R [4, 2] latent classes 0..1" in lines
    assert "nodes: 50" in lines
    assert "edges: 72 directed, 0 from factors" in lines
    assert any(line.endswith("k: A[_, k], R[k, _], C[_, _, k]") for line in lines)
    assert list(Path().iterdir()) == []


def test_positions_and_factors_in_words():
    words = describe(graph_of(Sorting(n=4)), {"n": 4})
    assert "edges:        51 directed, 48 from factors" in words
    assert "exchangeable: i: u[i], P[_, i], C[_, i]\n" in words
    assert "positions:    P[j, _], C[j, _], s[j]" in words
    assert "cells[i, _] and 2 groups of j" in describe(graph_of(Sudoku(a=2, b=3)))


@pytest.mark.parametrize(
    ("source", "sizes", "expected"),
    [
        ("mine.py:UserSum", ["n=3"], "UserSum(n=3)"),
        ("program.py:chain", ["n=3"], "chain(n=3)"),
        ("program.py:short", [], "chain(n=2)"),
        ("program.py:short", ["n=3"], "chain(n=3)"),
        (ROOT / "examples/programs/bcmf.foppl", [], "bcmf()"),
        ("Sudoku", [], "Sudoku(a=3,b=3)"),
    ],
)
def test_every_kind_of_source_is_compiled(capsys, source, sizes, expected):
    Path("mine.py").write_text(USER_PROBLEM)
    Path("program.py").write_text(PROGRAM)
    assert compiled(capsys, source, *sizes).splitlines()[0] == expected


@pytest.mark.parametrize("file", ["new/graph.json", "new/graph.graphml"])
def test_a_file_that_was_written_is_a_source(capsys, file):
    option = "--" + file.partition(".")[2]
    printed = compiled(capsys, "Sorting", "n=3", option, file)
    again = compiled(capsys, file).splitlines()
    assert again[0] == "graph()"
    assert again[1:] == printed.splitlines()[1:]


def test_json_holds_nodes_edges_with_kinds_and_variables(capsys):
    compiled(capsys, "Sorting", "n=3", "--json", "graph.json")
    content = json.loads(Path("graph.json").read_text())
    graph = graph_of(Sorting(n=3))
    assert [v["name"] for v in content["variables"]] == list(graph.variables)
    assert content["variables"][1] == {
        "name": "P",
        "shape": [3, 3],
        "first_node": 3,
        "role": "latent",
        "classes": 2,
    }
    assert len(content["nodes"]) == graph.num_nodes
    kinds = [edge["kind"] for edge in content["edges"]]
    assert kinds.count("directed") == graph.edges().size(1)
    assert kinds.count("factor") == graph.factor_pairs().size(1)
    network = nx.node_link_graph(content, edges="edges")
    assert set(network.edges) == set(graph.to_networkx().edges)


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_picture_is_drawn(capsys, suffix):
    compiled(capsys, "BCMF", "m=2", "n=2", "k=1", "--picture", f"graph.{suffix}")
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[suffix]
    assert Path(f"graph.{suffix}").read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["BCMF"], "BCMF needs more sizes: add m=... n=... k=... (got none)."),
        (["BCMF", "n=2"], "BCMF needs more sizes: add m=... k=... (got n=2)."),
        (["BCMF", "q=2"], "BCMF takes m, n, k, given (got 'q')."),
        (["BCMF", "m=0", "n=1", "k=1"], "BCMF.m is a size"),
        (["BCMF", "m"], "A size reads name=value (got 'm')."),
        (["Nothing"], "No problem is called 'Nothing'."),
        (["program.py:chain"], "chain needs more sizes: add n=... (got none)."),
        (["program.py:short", "q=2"], "chain takes n (got 'q')."),
        (["program.py:plain", "n=2"], "defines no Problem of that name (got 'plain')"),
        (["program.py:number"], "defines no Problem of that name (got 'number')"),
        (["nowhere.py:chain"], "The problem file does not exist (got 'nowhere.py')"),
        (["nowhere.json"], "The file of a graph is missing (got 'nowhere.json')."),
        (["text.json"], "text.json holds no graph (got JSONDecodeError: "),
        (["text.graphml"], "text.graphml holds no graph (got ParseError: "),
        (["list.json"], "list.json holds no graph (got AttributeError: "),
        (["loop.graphml"], "remove the self-loop (got 'a')."),
        (["edge.graphml", "n=2"], "edge takes no sizes (got 'n')."),
    ],
)
def test_impossible_source_ends_in_one_line(arguments, complaint):
    Path("program.py").write_text(PROGRAM)
    Path("text.json").write_text("graph")
    Path("text.graphml").write_text("graph")
    Path("list.json").write_text("[]")
    nx.write_graphml(nx.DiGraph([("a", "a")]), "loop.graphml")
    nx.write_graphml(nx.DiGraph([("a", "b")]), "edge.graphml")
    assert complaint in refusal("compile", *arguments)


@pytest.mark.parametrize(
    ("option", "place", "complaint"),
    [
        ("--json", "graph.txt", "--json ends in .json (got 'graph.txt')."),
        ("--json", "old.json", "--json exists already"),
        ("--graphml", "graph.xml", "--graphml ends in .graphml (got 'graph.xml')."),
        ("--graphml", "old.graphml", "--graphml exists already"),
        ("--picture", "graph.txt", "--picture ends in .png or .svg or .pdf"),
        ("--picture", "old.png", "--picture exists already"),
    ],
)
def test_impossible_place_is_rejected_before_the_work(
    option, place, complaint, monkeypatch
):
    for old in ("old.json", "old.graphml", "old.png"):
        Path(old).write_text("mine")
    monkeypatch.setattr("gsdm_pyg.cli.compile.graph_of", None)
    assert complaint in refusal("compile", "Sudoku", option, place)
    assert Path("old.json").read_text() == Path("old.graphml").read_text() == "mine"


def test_nothing_is_written_if_one_of_the_files_cannot_be(monkeypatch):
    def fail(*_: object) -> bytes:
        raise ValueError("A graph cannot be written (got this one).")

    monkeypatch.setattr("gsdm_pyg.cli.compile.graphml", fail)
    files = ["--json", "graph.json", "--graphml", "graph.graphml"]
    assert "cannot be written" in refusal("compile", "Sudoku", "a=1", "b=2", *files)
    assert list(Path().iterdir()) == []


def test_files_are_replaced_if_asked(capsys):
    Path("old.json").write_text("mine")
    compiled(capsys, "Sudoku", "a=1", "b=2", "--json", "old.json", "--overwrite")
    assert "variables" in json.loads(Path("old.json").read_text())


def test_equal_sizes_name_no_index():
    words = describe(graph_of(BCMF(m=3, n=3, k=2)), {"m": 3, "n": 3, "k": 2})
    assert "k: A[_, k], R[k, _], C[_, _, k]" in words
    assert "i: A[i, _], C[i, _, _], E[i, _]" in words
