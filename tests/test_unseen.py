"""Warnings where training never saw the like."""

import logging
import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from gsdm_pyg import GSDM, Continuous, GraphicalModel, Role
from gsdm_pyg.model_folder import WEIGHTS
from problems import BCMF
from tests.helpers import CopyTask, GroupMeans, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)


def warnings_of(caplog, model, problem=PROBLEM, **arguments):
    caplog.clear()
    caplog.set_level(logging.WARNING, logger="gsdm_pyg")
    model.sample(problem, steps=1, **arguments)
    return [r.getMessage() for r in caplog.records if r.name == "gsdm_pyg"]


def test_values_far_from_those_of_training_warn_each_time(caplog):
    model = tiny_model(PROBLEM)
    far = {"E": torch.full((2, 3), 50.0)}
    (message,) = warnings_of(caplog, model, given=far)
    assert "given['E'] has values" in message and "standard deviations" in message
    assert len(warnings_of(caplog, model, given=far)) == 1
    assert warnings_of(caplog, tiny_model(PROBLEM), given={"E": torch.ones(2, 3)}) == []


def test_sizes_far_beyond_training_warn(caplog):
    model = tiny_model(BCMF.family(m=(1, 2), n=3, k=2))
    at = {"given": {"E": torch.ones(17, 3)}}
    (message,) = warnings_of(caplog, model, BCMF(m=17, n=3, k=2), **at)
    assert message.startswith("m=17 is more than 8 times the largest of training, 2")
    at = {"given": {"E": torch.ones(16, 3)}}
    assert warnings_of(caplog, model, BCMF(m=16, n=3, k=2), **at) == []


def test_weights_that_are_not_finite_are_refused(tmp_path):
    model = tiny_model(PROBLEM)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / WEIGHTS)
    weights["denoiser.output.bias"][0] = torch.nan
    save_file(weights, tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match=r"denoiser\.output\.bias is not finite"):
        GSDM.from_pretrained(tmp_path)


def test_samples_that_are_not_finite_are_refused():
    model = tiny_model(PROBLEM)
    model.diffusion.denoiser.output.bias.data.fill_(torch.inf)
    with pytest.raises(ValueError, match="samples are not finite"):
        model.sample(PROBLEM, {"E": torch.ones(2, 3)}, steps=1)


def test_plates_far_larger_than_those_of_training_warn(caplog):
    family = GroupMeans.family(groups={"length": (2, 3), "each": (1, 3)})
    model = tiny_model(family)
    messages = warnings_of(caplog, model, GroupMeans(groups=(40, 2)))
    assert any("groups=40 is more than 8 times" in message for message in messages)


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    model = tiny_model(PROBLEM)
    model.diffusion.denoiser.output.bias.data.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"not finite are not saved.*output\.bias"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_values_are_far_on_the_scale_that_they_diffuse_on(caplog):
    class Sizes(CopyTask):
        def graphical_model(self):
            graph = GraphicalModel()
            positive = Continuous(0, math.inf)
            x = graph.add_variable("x", (self.n,), positive, Role.OBSERVED)
            graph.connect(x, graph.add_variable("y", (self.n,), positive))
            return graph

        def sample(self, generator=None):
            x = (2 * torch.randn(self.n, generator=generator)).exp()
            return {"x": x, "y": x.clone()}

    model = tiny_model(Sizes(n=2))
    inside = {"x": torch.tensor([math.exp(16.0), math.exp(-16.0)])}  # eight deviations
    assert warnings_of(caplog, model, Sizes(n=2), given=inside) == []
    outside = {"x": torch.tensor([1.0, math.exp(24.0)])}
    (message,) = warnings_of(caplog, model, Sizes(n=2), given=outside)
    assert "12 standard deviations on the scale of log from the mean" in message
