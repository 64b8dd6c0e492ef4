"""`compile`: a problem, a program or a file of a graph -> its graph, in many forms."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from gsdm_pyg.cli.arguments import (
    PICTURES,
    add_overwrite_argument,
    check_place,
    read_sizes,
)
from gsdm_pyg.doctor.description import describe
from gsdm_pyg.doctor.pictures import graph_figure
from gsdm_pyg.evaluation import label
from gsdm_pyg.files import write_file
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.programs.graphs.files import GRAPHS, graph_json, graphml, read_graph
from gsdm_pyg.programs.graphs.specs import from_networkx
from gsdm_pyg.registry import load_from_file, resolve_problem


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("compile", help=run.__doc__)
    parser.add_argument(
        "source",
        help="path/to/file.py:name, which is executed, a .foppl file, a built-in "
        "problem such as BCMF, or a graph in a .graphml or .json file",
    )
    parser.add_argument("settings", nargs="*", help="sizes such as m=3 n=2")
    parser.add_argument(
        "--picture", type=Path, help="draw the graph and its attention mask"
    )
    parser.add_argument("--json", type=Path, help="write the graph as JSON")
    parser.add_argument("--graphml", type=Path, help="write the graph as GraphML")
    add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the graph of a problem or a program; draw it, or write it to a file."""
    check_place(options.picture, "--picture", PICTURES, options.overwrite)
    check_place(options.json, "--json", (".json",), options.overwrite)
    check_place(options.graphml, "--graphml", (".graphml",), options.overwrite)
    problem = _problem(options.source, options.settings)
    name, graph = label(problem), graph_of(problem)
    print(f"{name}\n{describe(graph, problem.sizes())}", flush=True)
    contents = {}  # of all files, before the first is written
    if options.picture is not None:
        contents[options.picture] = _picture(graph, options.picture.suffix[1:])
    if options.json is not None:
        contents[options.json] = graph_json(graph, name)
    if options.graphml is not None:
        contents[options.graphml] = graphml(graph, name)
    for path, content in contents.items():
        write_file(path, content)


def _problem(source: str, texts: Sequence[str]) -> Problem:
    """The problem that a source states, at the sizes that the command names."""
    path = Path(source)
    if path.suffix in GRAPHS:
        return _at(from_networkx(read_graph(path), path.stem), texts)
    if ":" in source and isinstance(found := load_from_file(source), Problem):
        changed = read_sizes(type(found), texts)
        return replace(found, **changed)  # type: ignore[type-var]
    return _at(resolve_problem(source), texts)


def _at(problem: type[Problem], texts: Sequence[str]) -> Problem:
    sizes = read_sizes(problem, texts)
    missing = [
        f"{field.name}=..."
        for field in fields(problem)  # type: ignore[arg-type]
        if field.default is field.default_factory is MISSING and field.name not in sizes
    ]
    if missing:
        raise ValueError(
            f"{problem.__name__} needs more sizes: add {' '.join(missing)} "
            f"(got {' '.join(texts) or 'none'})."
        )
    return problem.family(**sizes).largest()


def _picture(graph: GraphicalModel, suffix: str) -> bytes:
    file = BytesIO()
    graph_figure(graph).savefig(file, format=suffix, dpi=120)
    return file.getvalue()
