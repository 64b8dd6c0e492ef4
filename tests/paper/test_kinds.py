"""Each kind of figure: the jobs that it needs, what they measure, what is drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gsdm_pyg import ProblemBatches
from gsdm_pyg.paper.complexity import LayerJob, complexity_table, exponent
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import load_figure
from gsdm_pyg.paper.heatmap import heatmap_figure
from gsdm_pyg.paper.jobs import EvaluationJob, PeakMemory, TrainingJob, read_curve
from gsdm_pyg.paper.lines import curves_figure, scaling_figure
from gsdm_pyg.paper.making import collect, jobs_of, save, write
from gsdm_pyg.paper.masks import learned_attention, mask_of
from gsdm_pyg.paper.runs import load_runs
from gsdm_pyg.paper.samples import samples_figure
from gsdm_pyg.paper.sweep import sweep
from gsdm_pyg.paper.table import heatmap_table, metric_table
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import GraphOptions
from problems import BCMF, Sudoku
from tests.helpers import tiny_model
from tests.paper.figures import TINY, data_of, tiny_figure, write_figure

SCORES = {
    ("2", "kept"): [[0.1, 0.3], [0.2, 0.4]],
    ("3", "kept"): [[0.2, 0.6], [0.2, 0.6]],
    ("3", "dropped"): [[0.5, 0.7], [0.7, 0.9]],
}


def made(path, tmp_path) -> Data:
    """A figure at laptop scale, its jobs done in this process."""
    figure, runs = load_runs(path, "laptop")
    folder = tmp_path / "out" / "runs"
    sweep(jobs_of(figure, runs), folder)
    data = collect(figure, runs, "laptop", folder)
    assert data.missing == []
    write(data, "tiny-laptop", tmp_path / "out", folder)
    assert Data.load(tmp_path / "out" / "tiny-laptop.json", figure) == data
    return data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    tiny_model(BCMF.family(m=(1, 3), n=(1, 3), k=(1, 2))).save_pretrained(path)
    return str(path)


# Lines.


def test_scaling_figure_shows_means_at_the_sizes():
    ax = scaling_figure(data_of(SCORES)).axes[0]
    lines = {c.get_label(): c[0].get_xydata() for c in ax.containers}
    assert np.allclose(lines["kept"], [[2, 0.25], [3, 0.4]])
    assert np.allclose(lines["dropped"], [[3, 0.7]])
    (chance,) = (line for line in ax.lines if line.get_label() == "chance")
    assert np.allclose(chance.get_xydata(), [[2, 1], [3, 1]])
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("BCMF", "n", "rmse")


def test_curves_show_the_mean_of_the_seeds_against_minutes():
    data = data_of(SCORES)
    first, second = data.of("BCMF", "3", "kept")
    first["curve"] = {"minutes": [0.0, 2.0], "rmse": [1.0, 0.0], "steps": [1, 2]}
    second["curve"] = {"minutes": [0.0, 1.0], "rmse": [1.0, 0.2], "steps": [1, 2]}
    ax = curves_figure(data).axes[1]
    assert ax.get_title() == "BCMF, n 3"
    (line,) = (line for line in ax.lines if line.get_label() == "kept")
    x, y = line.get_xdata(), line.get_ydata()
    assert (x[0], x[-1]) == (0, 1)  # where both have begun and none has ended
    assert y[-1] == pytest.approx((0.5 + 0.2) / 2)


def test_table_has_the_mean_the_interval_and_the_effort_of_each_place():
    lines = metric_table(data_of(SCORES))
    assert [(line["point"], line["row"]) for line in lines] == [
        ("2", "kept"),
        ("2", "chance"),
        ("3", "kept"),
        ("3", "dropped"),
        ("3", "chance"),
    ]
    assert lines[0] == {
        "panel": "BCMF",
        "point": "2",
        "row": "kept",
        "metric": "rmse",
        "mean": "0.25",
        "95% interval": lines[0]["95% interval"],
        "seeds": "0 1",
        "minutes": "1",
        "steps": "4",
    }
    low, _, high = lines[0]["95% interval"].partition(" to ")
    assert float(low) < 0.25 < float(high)


def slow_figure() -> Data:
    """`dropped` is never as good as the limit, and `kept` is after a minute."""
    panel = {**TINY["panels"]["BCMF"], "time_to": 0.5}
    data = data_of(SCORES, panels={"BCMF": panel})
    for record in data.of("BCMF", "3", "dropped"):
        record["curve"] = {"steps": [4], "minutes": [1.0], "rmse": [0.8]}
    for record in data.records:
        record["clock"] = "processor"
    data.of("BCMF", "3", "dropped")[1]["minutes"] = 1.5
    return data


def test_run_that_never_gets_there_is_a_lower_bound_in_the_table_and_hollow(tmp_path):
    data = slow_figure()
    lines = metric_table(data)
    assert [line["mean"] for line in lines] == ["1", "1", "> 1.5"]
    assert lines[2]["95% interval"] == ""
    assert lines[0]["metric"] == "core-minutes to rmse of 0.5"
    ax = scaling_figure(data).axes[0]
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert [line.get_xydata().tolist() for line in hollow] == [[[3.0, 1.5]]]
    write(data, "tiny-laptop", tmp_path, tmp_path / "runs")
    text = (tmp_path / "tiny-laptop.md").read_text()
    assert "> 1.5" in text and "a lower bound, with >" in text


def test_lower_bounds_at_one_point_are_rings_around_each_other():
    data = slow_figure()
    for record in data.of("BCMF", "3", "kept"):
        record["curve"] = {"steps": [4], "minutes": [1.0], "rmse": [0.8]}
    lines = scaling_figure(data).axes[0].lines
    hollow = [line for line in lines if line.get_markerfacecolor() == "white"]
    assert [line.get_markersize() for line in hollow] == [7, 5]


@pytest.mark.parametrize(
    ("low", "scale"), [(0.5, "linear"), (0.002, "log"), (0.0, "symlog")]
)
def test_errors_that_span_orders_of_magnitude_have_a_logarithmic_axis(low, scale):
    scores = {("2", "kept"): [[low]], ("3", "kept"): [[0.01 if low < 0.1 else low]]}
    assert scaling_figure(data_of(scores)).axes[0].get_yscale() == scale


def test_legend_of_one_panel_is_within_the_figure():
    figure = scaling_figure(data_of(SCORES))
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_minutes_are_core_minutes_where_all_runs_used_the_clock_of_the_processor():
    data = slow_figure()
    assert curves_figure(data).axes[0].get_xlabel() == "core-minutes of training"
    assert "core-minutes" in metric_table(data)[0]
    data = data_of(SCORES)
    data.records[0]["clock"] = "processor"
    assert curves_figure(data).axes[0].get_xlabel() == "minutes of training"
    assert "minutes" in metric_table(data)[0]


def test_json_has_the_table_and_the_verdicts(tmp_path):
    data = data_of({("3", "kept"): [[0.1, 0.3]], ("3", "dropped"): [[0.6]]})
    save(data, tmp_path / "tiny.json")
    content = json.loads((tmp_path / "tiny.json").read_text())
    (claim,) = content["verdicts"]
    assert (claim["claim"], claim["verdict"]) == ("Kept is best.", "not measured")
    kept, dropped = content["table"]
    assert (kept["panel"], kept["point"], kept["row"]) == ("BCMF", "3", "kept")
    assert (kept["mean"], kept["seeds"], kept["minutes"]) == (0.2, [0], 1.0)
    assert kept["low"] < 0.2 < kept["high"]
    assert (dropped["mean"], dropped["low"], dropped["high"]) == (0.6, None, None)
    for name in ("verdicts", "table"):  # as older files are
        del content[name]
    (tmp_path / "older.json").write_text(json.dumps(content))
    assert Data.load(tmp_path / "older.json", data.figure) == data


def test_json_says_which_claims_hold(tmp_path):
    data = data_of({("3", "kept"): [[0.1, 0.2]], ("3", "dropped"): [[0.6, 0.7]]})
    save(data, tmp_path / "tiny.json")
    (claim,) = json.loads((tmp_path / "tiny.json").read_text())["verdicts"]
    assert claim["verdict"] == "holds"
    assert claim["advantage"] == {"mean": 0.5, "low": 0.5, "high": 0.5}
    assert claim["sentence"].startswith("Kept is best. It holds here: kept is better")


def test_curve_of_a_resumed_run_is_that_of_the_steps_that_counted(tmp_path):
    logs = {
        0: "step,minutes,P/rmse,loss\n1,0.5,0.9,\n1,,,3\n3,1.0,0.8,\n5,1.5,0.7,\n",
        2: "step,minutes,P/rmse,loss\n5,1.6,0.65,\n7,2.0,0.6,\n",
        10: "step,loss\n9,1\n",
    }
    for version, text in logs.items():
        folder = tmp_path / "csv" / f"version_{version}"
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text(text)
    assert read_curve(tmp_path, "P") == {
        "steps": [2, 4, 6, 8],
        "minutes": [0.5, 1.0, 1.6, 2.0],
        "rmse": [0.9, 0.8, 0.65, 0.6],
    }


# Heat maps.


def test_heat_map_evaluates_every_cell_and_shows_it_at_its_sizes(tmp_path, folder):
    panel = {
        "metric": "rmse",
        "laptop": {"pretrained": folder, "grid": {"m": [4, 1], "n": [2], "k": [2, 1]}},
    }
    path = write_figure(
        tmp_path, kind="heatmap", panels={"P": panel}, rows={"kept": {}}, claims=[]
    )
    data = made(path, tmp_path)
    found = {(r["panel"], r["point"]) for r in data.records}
    assert found == {(f"k = {k}", f"{m} x 2") for m in (1, 4) for k in (1, 2)}
    axes = heatmap_figure(data).axes
    image = axes[0].images[0].get_array()
    small = [record for record in data.records if record["panel"] == "k = 1"]
    top = max(np.mean(record["chance"]["rmse"]) for record in small)
    assert axes[0].images[0].get_clim() == (0, pytest.approx(top))
    (record,) = data.of("k = 1", "4 x 2", "kept")
    assert (record["clock"], record["chance"].keys()) == ("processor", {"rmse"})
    seconds = record["sampling_seconds"] / 3
    (cell,) = (t for t in axes[0].texts if t.get_position() == (0, 1))
    error, time = cell.get_text().split("\n")
    assert error == f"{np.mean(record['scores']['rmse']):.2f}"
    assert float(time.removesuffix(" s")) == pytest.approx(seconds, rel=0.05)
    assert image.shape == (2, 1)
    assert image[1, 0] == pytest.approx(sum(record["scores"]["rmse"]) / 3)
    assert 0 < record["scores"]["peak_gib"][0] < 16
    assert record["sizes"] == {"m": 4, "n": 2, "k": 1}


def heat_map_of(rows: dict[str, float]) -> Data:
    """One cell and one instance each: the rmse by row, with other chances."""
    records = [
        {
            **data_of({("4 x 2", "kept"): [[error]]}).records[0],
            "panel": "k = 1",
            "row": row,
            "sizes": {"m": 4, "n": 2, "k": 1},
            "clock": "processor",
            "sampling_seconds": 12.0,
            "scores": {"rmse": [error], "peak_gib": [3.0]},
            "chance": {"rmse": [2 * error]},
        }
        for row, error in rows.items()
    ]
    changes = {"kind": "heatmap", "panels": {"P": {"metric": "rmse"}}}
    return Data(tiny_figure(**changes), "laptop", records, [])


def test_heat_map_has_a_table_of_time_memory_and_each_row_s_own_chance(tmp_path):
    data = heat_map_of({"kept": 0.25, "dropped": 0.5})
    assert heatmap_table(data) == [
        {
            "row": row,
            "panel": "k = 1",
            "point": "4 x 2",
            "rmse": error,
            "chance": chance,
            "core-seconds per answer": "12",
            "peak GiB": "3",
            "seeds": "0",
        }
        for row, error, chance in (("kept", "0.25", "0.5"), ("dropped", "0.5", "1"))
    ]
    write(data, "tiny-laptop", tmp_path, tmp_path / "runs")
    text = (tmp_path / "tiny-laptop.md").read_text()
    assert "inf" not in text
    assert "shows the rmse and the core-seconds of an answer" in text
    limits = [ax.images[0].get_clim() for ax in heatmap_figure(data).axes[:2]]
    assert limits == [(0, 0.5), (0, 1.0)]


def test_training_that_a_heat_map_needed_is_in_its_records(tmp_path):
    panel = {"metric": "rmse", "laptop": {"grid": {"n": [2], "k": [1]}}}
    path = write_figure(
        tmp_path, kind="heatmap", panels={"P": panel}, rows={"kept": {}}, claims=[]
    )
    figure, runs = load_runs(path, "laptop")
    for job, result in zip(
        jobs_of(figure, runs),
        ({"minutes": 4.0, "steps": 7, "curve": {}}, {"sampling_seconds": 2.0}),
        strict=True,
    ):
        (tmp_path / job.key).mkdir()
        (tmp_path / job.key / "result.json").write_text(json.dumps(result))
    (record,) = collect(figure, runs, "laptop", tmp_path).records
    training = {"key": runs[0].key, "clock": "wall", "steps": 7, "minutes": 4.0}
    assert record["training"] == training


def test_heat_map_trains_its_model_first_and_cells_wait_for_it(tmp_path):
    panel = {"metric": "rmse", "laptop": {"grid": {"n": [2, 3], "k": [1]}}}
    path = write_figure(
        tmp_path, kind="heatmap", panels={"P": panel}, rows={"kept": {}}, claims=[]
    )
    figure, runs = load_runs(path, "laptop")
    training, *cells = jobs_of(figure, runs)
    assert isinstance(training, TrainingJob)
    assert [isinstance(cell, EvaluationJob) for cell in cells] == [True, True]
    assert not any(cell.ready(tmp_path) for cell in cells)
    (tmp_path / training.key / "model").mkdir(parents=True)
    assert not any(cell.ready(tmp_path) for cell in cells)  # it is being written
    (tmp_path / training.key / "result.json").touch()
    assert all(cell.ready(tmp_path) for cell in cells)


def test_peak_memory_is_that_of_the_block():
    cpu = torch.device("cpu")
    with PeakMemory(cpu) as small:
        pass
    with PeakMemory(cpu) as large:
        torch.ones(64 * 2**20)  # 256 MiB
    assert 0.2 < large.gib - small.gib < 0.4


# Samples.


def test_samples_are_scored_one_by_one_and_shown(tmp_path, folder):
    panel = {"metric": "rmse", "samples": 3, "laptop": {"pretrained": folder}}
    path = write_figure(
        tmp_path, kind="samples", panels={"P": panel}, rows={"kept": {}}, claims=[]
    )
    (record,) = made(path, tmp_path).records
    assert len(record["scores"]["rmse"]) == 3  # instances
    assert record["answers"] == 3 * 3 and record["sampling_seconds"] > 0
    assert len(record["examples"]) == 3
    example = record["examples"][0]
    E = torch.tensor(example["truth"]["E"])
    errors = [
        (E - torch.tensor(s["A"]) @ torch.tensor(s["R"]).float()).square().mean().sqrt()
        for s in example["samples"]
    ]
    assert len(errors) == 2  # those that are shown, of three
    assert all(error.isfinite() for error in errors)
    figure = samples_figure(Data(load_figure(path), "laptop", [record], []))
    assert sum(bool(ax.images) for ax in figure.axes) == 3 * 2


# Complexity.


def test_exponent_of_a_power_law_is_its_power():
    sizes = [3.0, 5.0, 9.0]
    assert exponent(sizes, [7 * n**2.5 for n in sizes]) == pytest.approx(2.5)


def test_layer_is_measured_at_all_sizes(tmp_path):
    points = {str(n): {"problem": {"m": n, "n": n, "k": n}} for n in (2, 3, 4)}
    panel = {"metric": "time_exponent", "axis": "n", "points": points}
    panel["formulas"] = {"kept": 4, "dropped": 4}
    claim = {"says": "So.", "row": "kept", "than": 10.0, "metric": "edge_exponent"}
    path = write_figure(
        tmp_path, kind="complexity", panels={"P": panel}, claims=[claim]
    )
    figure, runs = load_runs(path, "laptop")
    jobs = jobs_of(figure, runs)
    assert [type(job) for job in jobs] == [LayerJob, LayerJob]
    data = made(path, tmp_path)
    record = data.of("P", "", "kept")[0]
    n = np.array(record["sizes"])
    nodes = 3 * n**2 + n**3
    assert record["nodes"] == nodes.tolist()
    assert record["edges"] == (nodes + 6 * n**3).tolist()  # loops, and C to A, R and E
    assert np.array(record["seconds"]).shape == (7, 3)
    expected = exponent(n, record["edges"])
    assert record["scores"]["edge_exponent"][0] == pytest.approx(expected, rel=1e-5)
    assert complexity_table(data)[0]["paper's exponent"] == "4"


# Masks.


def test_mask_has_the_edges_of_the_graph():
    problem = Sudoku(a=2, b=2)
    mask = mask_of(problem, GraphOptions())
    row, column = torch.arange(16) // 4, torch.arange(16) % 4
    block = row // 2 * 2 + column // 2
    same = [x[:, None] == x for x in (row, column, block)]
    assert torch.equal(mask, same[0] | same[1] | same[2])


def test_learned_attention_sums_to_one_and_is_that_of_the_graph_alone():
    problem = Sudoku(a=2, b=2)
    model = tiny_model(problem, layers=2, heads=2, edges="complete")
    options = model.settings.graph
    batch = ProblemBatches(problem, options=options, batch_size=3).batch(0)
    weights = learned_attention(model.diffusion, batch, keyed_generator("test"))
    assert weights.shape == (2 * 2, 3, 16, 16)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 3, 16))
    assert (weights > 0).all()
    assert not torch.allclose(weights[:, 0], weights[:, 1])


@pytest.mark.slow
def test_masks_with_learned_attention_are_made(tmp_path):
    base = {**TINY["base"], "problem": {"name": "Sudoku", "a": 2, "b": 2}}
    rows = {"kept": {}, "dropped": {"model": {"edges": "complete"}}}
    claim = {"says": "So.", "row": "dropped", "than": "chance", "metric": "off_mask"}
    path = write_figure(
        tmp_path,
        kind="masks",
        base=base,
        rows=rows,
        panels={"P": {"metric": "density"}},
        claims=[claim],
    )
    data = made(path, tmp_path)
    assert {tuple(sorted(r["scores"])) for r in data.records} == {
        ("density",),
        ("off_mask",),
    }
    assert (tmp_path / "out" / "tiny-laptop.png").stat().st_size > 1000
