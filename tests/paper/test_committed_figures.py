"""The figures of the paper in configs/paper, at both scales."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from gsdm_pyg.baselines import create
from gsdm_pyg.paper.budget import seconds_of
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import SETTINGS, Kind, Scale, load_figure
from gsdm_pyg.paper.jobs import EvaluationJob, TrainingJob
from gsdm_pyg.paper.making import jobs_of
from gsdm_pyg.paper.page import verdicts
from gsdm_pyg.paper.runs import Run, load_runs
from gsdm_pyg.problem import graph_of
from gsdm_pyg.problem_spec import ProblemSpec
from tests.helpers import ROOT

FOLDER = ROOT / "configs" / "paper"
FILES = sorted(path for path in FOLDER.glob("*.yaml") if path.name != SETTINGS)
SCALES: tuple[Scale, ...] = get_args(Scale)
MOST_MINUTES = 2 * 8 * 60  # of one core, for all figures at laptop scale


@cache
def runs_of(path: Path, scale: Scale) -> list[Run]:
    return load_runs(path, scale)[1]


def all_runs(scale: Scale) -> list[Run]:
    """The distinct runs of all figures."""
    return list({r.key: r for path in FILES for r in runs_of(path, scale)}.values())


def trained(scale: Scale) -> list[Run]:
    """The distinct runs that are trained for a figure."""
    found = {}
    for path in FILES:
        figure, runs = load_figure(path), runs_of(path, scale)
        for job in jobs_of(figure, runs):
            if isinstance(job, TrainingJob):
                found[job.key] = job.place
    return list(found.values())


def test_every_figure_and_table_of_the_paper_has_a_file():
    places = {load_figure(path).title.partition(":")[0] for path in FILES}
    figures = {f"Figure {number}" for number in (3, 4, 5, 6, 7)}
    assert places == figures | {f"Appendix {letter}" for letter in "CGHIJKN"}


def test_every_kind_of_figure_is_one_of_the_paper():
    assert {load_figure(path).kind for path in FILES} == set(get_args(Kind))


@pytest.mark.parametrize("scale", SCALES)
def test_every_run_can_be_trained_on_its_problems(scale, monkeypatch):
    monkeypatch.setattr("gsdm_pyg.problem_spec._DRAWS", 2)  # moments do not matter
    for run in trained(scale):
        config = run.config
        config.trainer.check_end()
        graph = config.model.graph
        spec = ProblemSpec.of(config.problem.source(), graph)
        assert spec.graph(run.problem(), graph)


@pytest.mark.parametrize("scale", SCALES)
def test_every_baseline_can_solve_the_problems_of_its_panels(scale):
    checked = 0
    for run in all_runs(scale):
        if run.baseline is not None:
            create(run.baseline[0]).check(run.problem())
            checked += 1
    assert checked > 10


def test_models_that_are_not_trained_are_in_the_repository():
    folders = {run.pretrained for run in all_runs("laptop")} - {None}
    assert len(folders) >= 4
    for folder in folders:
        assert (ROOT / folder / "model.safetensors").is_file()


def test_training_at_laptop_scale_takes_three_quarters_of_eight_hours_at_most():
    """The rest is for evaluations, and for methods without training."""
    limits = [run.config.trainer.max_time for run in trained("laptop")]
    minutes = sum(seconds_of(limit) for limit in limits if limit is not None) / 60
    assert None not in limits
    assert len(limits) > 150
    assert minutes < 0.75 * MOST_MINUTES


def test_paper_scale_has_the_settings_of_table_2():
    expected = {  # batch size, learning rate, width, layers, heads
        "BCMF": (8, 2e-5, 64, 12, 2),
        "Sorting": (16, 2e-4, 64, 6, 8),
        "Sudoku": (32, 2e-5, 128, 6, 8),
        "BooleanCircuit": (16, 2e-5, 64, 12, 2),
    }
    seen = set()
    for config in (run.config for run in trained("paper")):
        name, model = config.problem.name, config.model
        if name not in expected or model.method != "diffusion":
            continue
        seen.add(name)
        assert (
            config.data.batch_size,
            config.optimizer.lr,
            model.width,
            model.layers,
            model.heads,
        ) == expected[name]
        assert (config.optimizer.name, config.optimizer.warmup_steps) == ("adamw", 0)
        assert (model.schedule, model.num_timesteps) == ("paper", 1000)
        sampler = config.evaluation
        assert (sampler.solver, sampler.steps) == ("ddpm", 1000)
    assert seen == set(expected)


def test_heat_maps_reach_200_by_200_of_rank_10_in_memory():
    path = FOLDER / "appendix_g.yaml"
    for scale in SCALES:
        jobs = jobs_of(load_figure(path), runs_of(path, scale))
        cells = [job for job in jobs if isinstance(job, EvaluationJob)]
        largest = max(cells, key=lambda job: graph_of(job.problem).num_nodes)
        sizes = largest.problem.sizes()
        assert (sizes["m"], sizes["n"], sizes["k"]) == (200, 200, 10)


def test_claims_name_points_that_are_there():
    for path in FILES:
        figure = load_figure(path)
        points = {run.point for scale in SCALES for run in runs_of(path, scale)}
        for claim in figure.claims:
            assert set(claim.points) <= points, (path, claim)


def test_results_that_are_committed_belong_to_their_figures_and_are_small():
    folder = ROOT / "docs" / "paper"
    index = (folder / "README.md").read_text()
    for path in folder.glob("*.json"):
        stem, _, scale = path.stem.rpartition("-")
        figure = load_figure(FOLDER / f"{stem}.yaml")
        data = Data.load(path, figure)
        assert data.scale == scale
        assert data.records
        assert f"({path.stem}.md)" in index
        page = (folder / f"{path.stem}.md").read_text()
        for verdict in verdicts(data):
            assert str(verdict) in page, path
        keys = {
            job.key for job in jobs_of(figure, runs_of(FOLDER / f"{stem}.yaml", scale))
        }
        assert {record["key"] for record in data.records} <= keys, path
    for path in folder.glob("*.png"):
        assert path.stat().st_size < 150_000
    linked = re.findall(r"\((\w[\w-]*\.(?:md|png))\)", index)
    assert linked and all((folder / name).is_file() for name in linked)
