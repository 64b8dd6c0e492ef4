"""`doctor`: a config -> what is wrong with its graph, and what training will cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gsdm_pyg.cli.arguments import PICTURES, add_overwrite_argument, check_place
from gsdm_pyg.config import load_config
from gsdm_pyg.doctor.diagnosing import diagnose
from gsdm_pyg.doctor.forecast import forecast
from gsdm_pyg.doctor.pictures import graph_figure
from gsdm_pyg.evaluation import label
from gsdm_pyg.files import atomic_writer, write_file
from gsdm_pyg.problem import graph_of
from gsdm_pyg.training.memory import keep_freed_memory


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("doctor", help=run.__doc__)
    parser.add_argument("config", help="a YAML file such as configs/bcmf_varsize.yaml")
    parser.add_argument("settings", nargs="*", help="such as model.layers=6")
    parser.add_argument(
        "--picture", type=Path, help="draw the smallest graph and its attention mask"
    )
    parser.add_argument("--json", type=Path, help="write the findings as JSON")
    add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Examine the graph of a config, and forecast time and memory of its training."""
    check_place(options.picture, "--picture", PICTURES, options.overwrite)
    check_place(options.json, "--json", (".json",), options.overwrite)
    config = load_config(options.config, options.settings)
    source, model = config.problem.source(), config.model
    problems = list(dict.fromkeys([source.smallest(), source.largest()]))
    found = {}
    for problem in problems:
        graph = graph_of(problem, model.graph)
        found[label(problem)] = diagnose(graph, model.layers, model.graph)
        print(f"{label(problem)}\n{found[label(problem)]}\n", flush=True)
    if options.picture is not None:
        figure = graph_figure(graph_of(problems[0], model.graph), model.edges)
        with atomic_writer(options.picture) as file:
            figure.savefig(file, format=options.picture.suffix[1:], dpi=120)
    keep_freed_memory()  # as the train command does
    expected = forecast(source, model, config.data, config.optimizer)
    most = config.data.num_graphs(graph_of(problems[-1], model.graph).num_nodes)
    print(f"A training step on up to {most} graphs\n{expected}")
    if options.json is not None:
        graphs = {name: diagnosis.to_dict() for name, diagnosis in found.items()}
        findings = {"graphs": graphs, "forecast": expected.to_dict()}
        write_file(options.json, json.dumps(findings, indent=2).encode())
