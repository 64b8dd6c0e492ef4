"""What a model remembers of its problem: variables, moments, name and sizes."""

import math

import pytest
import torch

from gsdm_pyg import GraphicalModel, GraphOptions, ProblemBatches, Role
from gsdm_pyg.problem import graph_of
from gsdm_pyg.problem_spec import ProblemSpec
from problems import BCMF
from tests.helpers import CopyTask, tiny_model

PROBLEM = BCMF(m=2, n=3, k=2)


def spec_of(source, scales="support", **options):
    return ProblemSpec.of(source, GraphOptions(**options), scales)


def test_variables_have_their_moments():
    k = 2
    spec = spec_of(BCMF(m=8, n=8, k=k), scales="linear")
    # A is uniform; C = A R has E[C] = 0.3 / 2, E[C^2] = 0.3 / 3; E sums k of those.
    variance = 0.3 / 3 - 0.15**2
    expected = {
        "A": (0.5, 1 / math.sqrt(12)),
        "C": (0.15, math.sqrt(variance)),
        "E": (0.15 * k, math.sqrt(k * variance)),
    }
    found = {v.name: (v.loc, v.scale) for v in spec.variables}
    assert list(found) == ["A", "R", "C", "E"]
    for name, moments in expected.items():
        assert found[name] == pytest.approx(moments, abs=0.02), name


def test_moments_do_not_depend_on_global_randomness(untouched_random_state):
    family = BCMF.family(m=(1, 3), n=2, k=(1, 2))
    first = spec_of(family)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        assert spec_of(family) == first


def test_a_constant_variable_is_not_divided_by_zero():
    class Constant(CopyTask):
        def sample(self, generator=None):
            return {**super().sample(generator), "x": torch.full((self.n,), 4.0)}

    (x, *_) = spec_of(Constant(n=2)).variables
    assert (x.loc, x.scale) == (4.0, 1.0)


@pytest.mark.parametrize("value", [4.1, 1e6 / 3, 1e-40, 0.0])
def test_a_constant_of_any_size_has_no_spread(value):
    class Constant(CopyTask):
        def sample(self, generator=None):
            return {**super().sample(generator), "x": [value] * self.n}

    (x, *_) = spec_of(Constant(n=3)).variables
    assert x.scale == 1.0 and x.loc == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-9, 1e-20, 1e20])
def test_a_variable_of_any_scale_is_scaled_by_its_spread(factor):
    class Scaled(CopyTask):
        def sample(self, generator=None):
            values = super().sample(generator)
            return {**values, "x": factor * values["x"], "y": factor * values["y"]}

    for plain, x in zip(
        spec_of(CopyTask(n=2)).variables[:2],
        spec_of(Scaled(n=2)).variables[:2],
        strict=True,
    ):
        assert x.scale == pytest.approx(factor * plain.scale, rel=1e-5)
        assert x.loc == pytest.approx(factor * plain.loc, rel=1e-5)
    batch = ProblemBatches(Scaled(n=2), batch_size=64).batch(0)
    scaling = tiny_model(Scaled(n=2)).diffusion.scaling(batch.variable_id)
    unit = scaling.standardize(batch.x)[scaling.columns & ~scaling.discrete]
    assert unit.std() == pytest.approx(1, abs=0.2)
    torch.testing.assert_close(
        scaling.restore(scaling.standardize(batch.x)) / factor,
        batch.x / factor,
        rtol=1e-5,
        atol=1e-5,
    )


def test_a_spread_that_float32_cannot_hold_is_none():
    class Nearly(CopyTask):
        def sample(self, generator=None):
            values = super().sample(generator)
            return {**values, "x": 1 + 1e-12 * values["x"].double()}

    (x, *_) = spec_of(Nearly(n=2)).variables
    assert (x.loc, x.scale) == (1.0, 1.0)


def test_a_tiny_variable_is_sampled_at_its_own_scale():
    class Tiny(CopyTask):
        def sample(self, generator=None):
            values = super().sample(generator)
            return {**values, "x": 1e-9 * values["x"], "y": 1e-9 * values["y"]}

    drawn = tiny_model(Tiny(n=2)).sample(Tiny(n=2), num_samples=64, steps=5)
    assert 1e-10 < drawn["y"].std() < 1e-8 and drawn["y"].abs().max() < 1e-7


def test_moments_become_the_scaling_of_a_model():
    model = tiny_model(PROBLEM, discrete_scale=1.0)
    loc, scale = model.diffusion.scaling.loc, model.diffusion.scaling.scale
    for i in (0, 2, 3):
        assert loc[i, 0].item() == pytest.approx(model.spec.variables[i].loc)
        assert scale[i, 0].item() == pytest.approx(model.spec.variables[i].scale)
    # R is a one-hot code of two classes in the other two columns.
    torch.testing.assert_close(loc[1], torch.tensor([0.0, 0.5, 0.5]))
    torch.testing.assert_close(scale[1], torch.tensor([1.0, 0.5, 0.5]))


def test_discrete_scale_changes_the_scaling_of_one_hot_codes_alone():
    plain, quarter = (
        tiny_model(PROBLEM, discrete_scale=scale).diffusion.scaling
        for scale in (1.0, 0.25)
    )
    expected = plain.scale.clone()
    expected[1, 1:] *= 4  # R in its two columns is divided by four times as much
    torch.testing.assert_close(quarter.scale, expected)
    assert torch.equal(quarter.loc, plain.loc)


def test_name_sizes_and_roles_come_from_the_source():
    spec = spec_of(BCMF.family(m=(1, 3), n=2, k=[1, 2]))
    assert (spec.name, spec.sizes) == ("BCMF", {"m": [1, 3], "n": 2, "k": [1, 2]})
    assert spec_of(PROBLEM).sizes == {"m": 2, "n": 3, "k": 2}
    assert [v.num_classes for v in spec.variables] == [None, 2, None, None]
    assert [v.role for v in spec.variables] == [
        Role.LATENT,
        Role.LATENT,
        Role.INTERMEDIATE,
        Role.OBSERVED,
    ]


def test_only_independent_embeddings_need_the_shapes_of_variables():
    assert spec_of(PROBLEM).shapes is None
    shapes = {"A": [2, 2], "R": [2, 3], "E": [2, 3]}
    spec = spec_of(PROBLEM, embedding="independent", intermediates="drop")
    assert spec.shapes == shapes


def test_a_sampler_of_other_variables_is_refused():
    class Renamed(CopyTask):
        def sample(self, generator=None):
            values = super().sample(generator)
            return {"x": values["x"], "y": values["y"], "w": values["z"]}

    with pytest.raises(ValueError, match=r"return the variables x, y, z \(got x, y, w"):
        spec_of(Renamed(n=2))


class RelabelledBCMF(BCMF):
    """BCMF in which E is asked for."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        for variable in graph_of(BCMF(self.m, self.n, self.k)).variables.values():
            graph.add_variable(variable.name, variable.shape, variable.domain)
        return graph


def test_a_problem_of_other_variables_or_roles_is_refused():
    spec = spec_of(PROBLEM)
    assert spec.graph(BCMF(m=4, n=1, k=3), GraphOptions()).num_nodes == 12 + 3 + 12 + 4
    with pytest.raises(ValueError) as caught:
        spec.graph(CopyTask(n=2), GraphOptions())
    message = str(caught.value)
    assert "trained on BCMF with the variables A, R (2 classes), C, E" in message
    assert "CopyTask does not fit (got x, y, z (3 classes))" in message
    with pytest.raises(ValueError, match="RelabelledBCMF does not fit"):
        spec.graph(RelabelledBCMF(m=2, n=3, k=2), GraphOptions())
