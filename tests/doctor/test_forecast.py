"""The forecast of a training step: what must hold on any machine."""

from __future__ import annotations

import json

import pytest
import torch

from gsdm_pyg import ModelSettings, ProblemBatches
from gsdm_pyg.doctor import forecast as module
from gsdm_pyg.doctor.forecast import forecast, operations
from gsdm_pyg.settings import DataSettings
from problems import BCMF

PROBLEM = BCMF(m=3, n=4, k=2)  # 50 nodes
MODEL = ModelSettings(width=8, layers=6)


class Ticks:
    """A clock that counts how often it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_memory_grows_with_layers_and_graphs_and_time_is_extrapolated():
    data = DataSettings(batch_size=4)
    found = forecast(PROBLEM, MODEL, data, clock=Ticks())
    assert found.num_nodes == 4 * PROBLEM.graphical_model().num_nodes
    assert found.num_edges == 4 * PROBLEM.graphical_model().edge_index().size(1)
    assert found.step_seconds == pytest.approx(1)  # every step took one tick
    assert found.data_seconds == 1
    deep = forecast(PROBLEM, MODEL.updated({"layers": 12}), data)
    wide = forecast(PROBLEM, MODEL, DataSettings(batch_size=16))
    assert deep.operations == 2 * found.operations
    assert wide.operations == pytest.approx(4 * found.operations)
    assert deep.peak_bytes > found.peak_bytes
    assert wide.peak_bytes > 2 * found.peak_bytes
    assert json.loads(json.dumps(found.to_dict()))["num_nodes"] == found.num_nodes
    assert f"{found.num_nodes} nodes" in str(found)


def test_saved_bytes_of_a_deep_model_are_extrapolated_exactly():
    batch = ProblemBatches(PROBLEM, batch_size=4).batch(0)
    spec = module.ProblemSpec.of(PROBLEM, MODEL.graph)

    def saved(layers: int) -> int:
        settings = MODEL.updated({"layers": layers})
        diffusion = module.build(spec, settings)
        return module.saved_bytes(lambda: diffusion.loss(batch), diffusion.parameters())

    work = operations(batch, MODEL.width)
    measured = [[saved(n) for n in module._DEPTHS]]
    foretold = module._whole(measured, [work], MODEL.layers, work)
    assert foretold == pytest.approx(saved(MODEL.layers), rel=0.02)


def test_operations_are_those_of_the_products_and_the_edges():
    batch = ProblemBatches(PROBLEM, batch_size=2).batch(0)
    rows = len(batch.embedding["row_graph"])
    products = 2 * 8 * 8 * (6 * batch.num_nodes + rows + 2)
    assert operations(batch, 8) == products + 4 * 8 * batch.num_edges


def test_a_forecast_leaves_the_random_state_as_it_was():
    before = torch.get_rng_state()
    forecast(PROBLEM, MODEL, DataSettings(batch_size=1))
    assert torch.equal(torch.get_rng_state(), before)
