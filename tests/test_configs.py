"""Every config of the repository: its model fits its problems, trains and answers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from gsdm_pyg import GSDM, Problem
from gsdm_pyg.config import Config, dump_config, load_config
from gsdm_pyg.evaluation import evaluate
from gsdm_pyg.training import Training, train
from tests.runs import ROOT

FOLDER = ROOT / "configs"
CONFIGS = sorted(FOLDER.rglob("*.yaml"))
PAPER = [path for path in CONFIGS if path.parent.name == "paper"]

# Problems keep their sizes: one graph per step is cheap for a narrow model.
SMALL = (
    "model.width=8",
    "model.layers=1",
    "model.heads=2",
    "data.batch_size=1",
    "trainer.max_steps=2",
    "trainer.accelerator=cpu",
)

each_config = pytest.mark.parametrize(
    "path", CONFIGS, ids=lambda path: str(path.relative_to(FOLDER).with_suffix(""))
)
each_config_of_the_paper = pytest.mark.parametrize(
    "path", PAPER, ids=lambda path: path.stem
)


@cache
def small(path: Path) -> tuple[Config, GSDM]:
    """A config at small width, and its model; the tests of one config share it."""
    config = load_config(path, SMALL)
    arguments = {"observe": config.data.observe, **config.model.model_dump()}
    return config, GSDM.from_problem(config.problem.source(), **arguments)


def evaluated(config: Config) -> list[Problem]:
    return [config.problem.source(s).largest() for s in config.evaluation.problems]


@each_config
def test_settings_that_the_other_tests_shrink_are_possible(path):
    config = load_config(path)
    config.trainer.check_end()
    assert config.model.width % config.model.heads == 0


@each_config
def test_model_of_a_config_fits_the_problems_it_is_evaluated_on(path):
    config, model = small(path)
    for problem in evaluated(config):
        model.check_problem(problem)


@pytest.mark.slow
@each_config
def test_config_trains(path):
    config, model = small(path)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    source = config.problem.source()
    train(Training(model, source, config.data, config.optimizer), config.trainer)
    after = dict(model.named_parameters())
    assert all(p.isfinite().all() for p in after.values())
    assert any(not p.equal(before[name]) for name, p in after.items())


@each_config
def test_model_of_a_config_answers_the_smallest_problem_of_its_evaluation(path):
    config, model = small(path)
    problem = min(evaluated(config), key=lambda p: model.check_problem(p).num_nodes)
    steps = min(2, config.model.num_timesteps)
    solver, restarts = config.evaluation.solver, config.evaluation.restarts
    result = evaluate(model, problem, 1, steps, solver, restarts=restarts)
    assert result.metrics
    assert all(array.isfinite().all() for array in result.samples[0].values())


@each_config_of_the_paper
def test_config_of_the_paper_names_its_place_there(path):
    assert re.match(r"# (Figure|Section|Appendix) \w", path.read_text())


@each_config
def test_config_says_only_what_it_changes(path):
    config = load_config(path)
    for name, values in yaml.safe_load(path.read_text()).items():
        if name != "problem":
            section = getattr(config, name)
            default = type(section)()
            for key in values:
                assert getattr(section, key) != getattr(default, key), f"{name}.{key}"


@each_config
def test_dumped_config_reads_back_equal(path, tmp_path):
    resolved = load_config(path)
    (tmp_path / "again.yaml").write_text(dump_config(resolved))
    assert load_config(tmp_path / "again.yaml") == resolved


def test_no_two_configs_share_a_run_folder():
    stems = [path.stem for path in CONFIGS]
    assert len(stems) == len(set(stems))


def test_table_of_configs_is_complete():
    text = (FOLDER / "README.md").read_text()
    listed = set(re.findall(r"`((?:paper/)?\w+\.yaml)`", text))
    found = {str(path.relative_to(FOLDER)) for path in CONFIGS}
    assert found == listed
