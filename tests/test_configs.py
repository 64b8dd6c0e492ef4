"""Every config of the repository: its model fits its problems, trains and answers.

Each test is one claim about all files, and lists the files that break it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml

from gsdm_pyg import GSDM, Problem
from gsdm_pyg.config import Config, load_config, parse_config
from gsdm_pyg.problem import graph_of
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.training import Training, train
from tests.helpers import ROOT

FOLDER = ROOT / "configs"
CONFIGS = sorted(FOLDER.glob("*.yaml"))  # figures of the paper: tests/paper

# Problems keep their sizes: one graph per step is cheap for a narrow model.
SMALL = (
    "model.width=8",
    "model.layers=1",
    "model.heads=2",
    "data.batch_size=1",
    "trainer.max_steps=2",
    "trainer.accelerator=cpu",
)


def failing(claim: Callable[[Path], object], paths: list[Path] = CONFIGS) -> list[str]:
    """The files for which a claim is false or raises, and why."""
    found = []
    for path in paths:
        try:
            holds, why = bool(claim(path)), ""
        except Exception as error:
            holds, why = False, f": {error!r}"
        if not holds:
            found.append(f"{path.relative_to(FOLDER)}{why}")
    return found


@cache
def resolved(path: Path) -> Config:
    return load_config(path)


@cache
def small(path: Path) -> tuple[Config, GSDM]:
    """A config at small width, and its model."""
    config = load_config(path, SMALL)
    settings = config.model.model_dump()
    return config, GSDM.from_problem(config.problem.source(), **settings)


def evaluated(config: Config) -> list[Problem]:
    return [config.problem.source().at(s) for s in config.evaluation.problems]


def smallest_evaluated(config: Config) -> Problem:
    graph = config.model.graph
    return min(evaluated(config), key=lambda p: graph_of(p, graph).num_nodes)


def features(path: Path) -> set[tuple[str, object]]:
    """The problem of a config, and every option that another file chooses otherwise."""
    config = resolved(path)
    largest = config.problem.source().largest()
    model = config.model.model_dump(exclude={"width", "layers", "heads", "dropout"})
    return {
        ("problem", config.problem.name),
        *model.items(),
        ("optimizer", config.optimizer.name),
        ("solver", config.evaluation.solver),
        ("restarts", config.evaluation.restarts > 0),
        ("finite", config.data.num_examples is not None),
        ("budget", config.data.max_nodes is not None),
        ("mixed sizes", config.problem.source().smallest() != largest),
    }


@cache
def covering() -> list[Path]:
    """Few configs, small ones first, that show every feature at least once."""

    def size(path: Path) -> int:
        config = resolved(path)
        graph = graph_of(config.problem.source().largest(), config.model.graph)
        return graph.edge_index(config.model.edges).size(1)

    chosen, missing = [], set().union(*map(features, CONFIGS))
    for path in sorted(CONFIGS, key=size):
        if missing & features(path):
            chosen.append(path)
            missing -= features(path)
    assert not missing
    return chosen


def test_every_config_has_settings_that_can_be_trained():
    def possible(path: Path) -> bool:
        config = resolved(path)
        config.trainer.check_end()
        return config.model.width % config.model.heads == 0

    assert failing(possible) == []


def test_every_config_says_only_what_it_changes():
    def terse(path: Path) -> bool:
        sections = yaml.safe_load(path.read_text())
        config = resolved(path)
        default = parse_config({"problem": sections.pop("problem")})
        return all(
            getattr(getattr(config, name), key) != getattr(getattr(default, name), key)
            for name, values in sections.items()
            for key in values
        )

    assert failing(terse) == []


def test_every_dumped_config_reads_back_equal():
    def equal(path: Path) -> bool:
        return parse_config(yaml.safe_load(resolved(path).dump())) == resolved(path)

    assert failing(equal) == []


def test_no_two_configs_share_a_run_folder():
    stems = [path.stem for path in CONFIGS]
    assert len(stems) == len(set(stems))


def test_table_of_configs_is_complete():
    text = (FOLDER / "README.md").read_text()
    listed = set(re.findall(r"`((?:paper/)?\w+\.yaml)`", text))
    files = [*CONFIGS, *(FOLDER / "paper").glob("*.yaml")]
    assert listed == {str(path.relative_to(FOLDER)) for path in files}


def test_model_of_every_config_fits_the_problems_it_is_evaluated_on(monkeypatch):
    monkeypatch.setattr("gsdm_pyg.problem_spec._DRAWS", 2)  # moments do not matter

    def fits(path: Path) -> bool:
        config = resolved(path)
        graph, problems = config.model.graph, evaluated(config)
        spec = ProblemSpec.of(config.problem.source(), graph)
        return bool(problems) and all(spec.graph(p, graph) for p in problems)

    assert failing(fits) == []


@pytest.mark.slow
def test_configs_that_cover_every_option_train_and_answer():
    def trains(path: Path) -> bool:
        config, model = small(path)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        train(Training(model.diffusion, config.problem.source(), config))
        after = dict(model.named_parameters())
        finite = all(p.isfinite().all() for p in after.values())
        return finite and any(not p.equal(before[name]) for name, p in after.items())

    def answers(path: Path) -> bool:
        config, model = small(path)
        model.sampler = config.evaluation.sampler
        steps = min(2, config.model.num_timesteps)
        result = model.evaluate(smallest_evaluated(config), 1, steps=steps)
        finite = all(array.isfinite().all() for array in result.samples[0].values())
        return finite and result.metrics

    paths = covering()
    assert len(paths) < len(CONFIGS)
    assert failing(trains, paths) == []
    assert failing(answers, paths) == []
