"""Training on simulations that exist already."""

import numpy as np
import pytest
import torch

from gsdm_pyg import GSDM, GraphicalModel, Problem, Role, Size
from gsdm_pyg.data import ProblemBatches, with_simulations
from gsdm_pyg.problem import graph_of
from problems import BCMF
from tests.helpers import CopyTask, seeded, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)


def simulations(num=5):
    return PROBLEM.sample_batch(num, seeded(0))


def test_batches_hold_nothing_but_the_simulations():
    arrays = simulations()
    source = with_simulations(PROBLEM, arrays)
    batch = ProblemBatches(source, batch_size=64).batch(0)
    expected = graph_of(PROBLEM).encode(arrays)
    found = batch.x.view(64, *expected.shape[1:])
    assert torch.equal(found.unique(dim=0), expected.unique(dim=0))


def test_the_problem_itself_stays_as_it_was():
    source = with_simulations(PROBLEM, simulations(1))
    assert source == PROBLEM and graph_of(source) is graph_of(PROBLEM)
    first, second = PROBLEM.sample(seeded(1)), source.sample(seeded(1))
    assert not torch.equal(first["A"], second["A"])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"E": None}, r"must hold the variables A, R, C, E \(got A, R, C\)"),
        ({"B": torch.ones(5)}, r"\(got A, R, C, E, B\)"),
        ({"E": torch.ones(5, 3, 2)}, r"'E'\] must have the shape \('num', 2, 3\)"),
        ({"E": torch.ones(4, 2, 3)}, r"same number.*\(got 5 of A.*4 of E\)"),
    ],
    ids=["missing", "unknown", "shape", "number"],
)
def test_simulations_that_do_not_fit_are_refused(change, message):
    arrays = {**simulations(), **change}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(ValueError, match=message):
        with_simulations(PROBLEM, arrays)


def test_simulations_of_a_family_of_sizes_are_refused():
    model = tiny_model(BCMF.family(m=(1, 2), n=3, k=2))
    with pytest.raises(ValueError, match="simulations have one size"):
        model.fit(simulations=simulations(), max_steps=1)


@pytest.mark.slow
def test_fit_learns_from_simulations_alone():
    problem = CopyTask(n=4)
    arrays = problem.sample_batch(400, seeded(0))
    torch.manual_seed(0)
    model = tiny_model(problem, width=16)
    before = model.evaluate(CopyTask(n=8), 16, steps=10).metrics
    model.fit(simulations=arrays, max_steps=400, lr=1e-2)
    after = model.evaluate(CopyTask(n=8), 16, steps=10).metrics
    assert before["rmse"] > 2 and after["rmse"] < 0.9


class OnlyGraph(Problem):
    """x has the sum y; nobody says how to draw them."""

    n: Size

    def graphical_model(self):
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.n,))
        y = graph.add_variable("y", (), role=Role.OBSERVED)
        graph.connect(x, y)
        return graph


def sums(num=2000, scale=1e4):
    x = scale * torch.randn(num, 3, generator=seeded(0))
    return {"x": x, "y": x.sum(1)}


def test_the_scale_of_a_model_comes_from_its_simulations():
    model = GSDM.from_problem(OnlyGraph(n=3), simulations=sums(), width=8, layers=1)
    x, y = model.spec.variables
    assert x.scale == pytest.approx(1e4, rel=0.2)
    assert y.scale == pytest.approx(3**0.5 * 1e4, rel=0.2)


def test_simulations_on_another_scale_are_refused():
    model = GSDM.from_problem(OnlyGraph(n=3), simulations=sums(), width=8, layers=1)
    with pytest.raises(ValueError, match=r"simulations\['x'\] are on another scale"):
        model.fit(simulations=sums(scale=1.0), max_steps=1)


@pytest.mark.slow
def test_a_problem_without_a_sampler_is_trained_on_simulations():
    torch.manual_seed(0)
    problem, arrays = OnlyGraph(n=3), sums()
    model = GSDM.from_problem(problem, simulations=arrays, width=32, layers=2)
    model.fit(max_steps=300, lr=5e-3)
    x = model.sample(problem, {"y": 15_000.0}, num_samples=200, generator=0)["x"]
    assert x.sum(1).mean().item() == pytest.approx(15_000, rel=0.3)
    assert 4_000 < x.std().item() < 16_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3))}, "none missing"),
        ({"x": torch.full((4, 3), torch.nan)}, r"none missing \(got nan at \(0, 0\)\)"),
        ({"x": "abc"}, r"simulations\['x'\] must be a dense array"),
        ({"x": None}, r"simulations\['x'\] must be a dense array"),
        ({"x": [[1.0, 2.0, 3.0], [1.0]]}, r"simulations\['x'\] must be a dense array"),
        ({"x": torch.ones(4, 3).to_sparse()}, r"simulations\['x'\] must be a dense"),
    ],
    ids=["masked", "nan", "text", "None", "ragged", "sparse"],
)
def test_values_of_simulations_are_checked_at_once(change, message):
    arrays = {**sums(4, 1.0), **change}
    with pytest.raises(ValueError, match=message):
        with_simulations(OnlyGraph(n=3), arrays)


def test_simulations_without_names_are_refused():
    with pytest.raises(TypeError, match=r"simulations must hold arrays by name.*list"):
        with_simulations(OnlyGraph(n=3), [torch.ones(4, 3)])
