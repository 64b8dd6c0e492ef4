"""Wrong inputs of someone who writes a problem -> the sentence that each of them gets.

What looks unusual but has an obvious meaning is accepted: see the end of the file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from gsdm_pyg import (
    GSDM,
    Categorical,
    Continuous,
    GraphicalModel,
    GraphOptions,
    Problem,
    ProblemBatches,
    Role,
    Size,
)
from gsdm_pyg.evaluation import prior_metrics
from gsdm_pyg.problem import check_problem_argument, check_source_argument
from gsdm_pyg.problem_spec import ProblemSpec
from problems import BCMF, BooleanCircuit, HierarchicalBCMF, Sudoku
from tests.helpers import tiny_model


@pytest.fixture(autouse=True)
def _restored_registry(monkeypatch):
    monkeypatch.setattr(Problem, "registry", dict(Problem.registry))


class Sum(Problem):
    """x uniform on [0, 1], z its rounded value, s its sum."""

    n: Size

    def graphical_model(self):
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.n,), Continuous(0, 1))
        z = graph.add_variable("z", (self.n,), Categorical(2))
        graph.connect(x, z)
        graph.connect(x, graph.add_variable("s", (), role=Role.OBSERVED))
        return graph

    def sample(self, generator=None):
        x = torch.rand(self.n, generator=generator)
        return {"x": x, "z": x.round(), "s": x.sum()}


def add(name="x", shape=(2,), *arguments, **named) -> GraphicalModel:
    graph = GraphicalModel()
    graph.add_variable(name, shape, *arguments, **named)
    return graph


def drawing(changes: dict[str, Any] | Callable[[dict], Any]) -> Problem:
    """A problem whose `sample` returns something else."""

    class Drawn(Sum):
        def sample(self, generator=None):
            values = super().sample(generator)
            return changes(values) if callable(changes) else {**values, **changes}

    return Drawn(n=3)


def drawing_many(changes: Callable[[dict], Any]) -> Problem:
    """A problem whose `sample_batch` returns something else."""

    class Drawn(Sum):
        def sample_batch(self, num, generator=None):
            return changes(super().sample_batch(num, generator))

    return Drawn(n=3)


def scoring(score: Any) -> Callable[[], object]:
    class Scored(Sum):
        def metrics(self, sample, truth):
            return score(sample) if callable(score) else score

    return lambda: prior_metrics(Scored(n=2), num_instances=8)


def batch(problem: Problem) -> Callable[[], object]:
    return lambda: ProblemBatches(problem, batch_size=4).batch(7)


def spec(source: Any) -> Callable[[], object]:
    return lambda: ProblemSpec.of(source, GraphOptions())


def with_init():
    class Own(Sum):
        def __init__(self, n):
            self.n = n


def with_dataclass():
    @dataclass
    class Own(Sum):
        m: Size = 1


def with_frozen_dataclass():
    @dataclass(frozen=True)
    class Own(Sum):
        m: Size = 1


def without_generator():
    class Own(Sum):
        def sample(self):
            return {}


def without_num():
    class Own(Sum):
        def sample_batch(self, generator=None):
            return {}


def outer(values):
    return {**values, "x": values["x"] + 1}


WRONG = {
    # domains, roles and shapes
    "classes": (lambda: Categorical(2.5), r"number of its classes.*\(got 2\.5\)"),
    "classes as text": (lambda: Categorical("3"), r"whole number \(got '3'\)"),
    "classes as truth": (lambda: Categorical(True), r"whole number \(got True\)"),
    "bounds as text": (
        lambda: Continuous("a", "b"),
        r"Continuous\(low, high\) takes two numbers.*\(got 'a'\)",
    ),
    "bounds of None": (lambda: Continuous(None, 1), r"two numbers.*\(got None\)"),
    "NaN as bound": (
        lambda: Continuous(float("nan"), 1),
        r"low < high \(got nan and 1\)",
    ),
    "domain class": (
        lambda: add("x", (2,), Continuous),
        r"domain of variable 'x' is Continuous\(low.*\(got <class .*Continuous'>\)",
    ),
    "domain as text": (lambda: add("x", (2,), "real"), r"domain.*\(got 'real'\)"),
    "fraction in shape": (
        lambda: add("x", (2.7,)),
        r"shape of variable 'x' is a tuple of whole numbers.*\(got \(2\.7,\)\)",
    ),
    "shape of 2.7": (lambda: add("x", 2.7), r"shape of variable 'x'.*\(got 2\.7\)"),
    "shape as text": (lambda: add("x", "3"), r"shape of variable 'x'.*\(got '3'\)"),
    "shape of None": (lambda: add("x", None), r"shape of variable 'x'.*\(got None\)"),
    "role": (
        lambda: add(role="seen"),
        r"role is one of observed, latent, intermediate \(got 'seen'\)",
    ),
    "name": (lambda: add(3), r"name that is not empty \(got 3\)"),
    # what a sampler returns
    "tuple": (
        batch(drawing(lambda v: (v["x"], v["z"]))),
        r"sample\(\) of Drawn\(n=3\) must return a dictionary.*\(got tuple\)",
    ),
    "None": (batch(drawing(lambda v: None)), r"sample\(\) of .*\(got NoneType\)"),
    "None from a batch": (
        batch(drawing_many(lambda v: None)),
        r"sample_batch\(\) of Drawn\(n=3\) must return a dictionary.*got NoneType",
    ),
    "missing variable": (
        batch(drawing(lambda v: {"x": v["x"]})),
        r"sample\(\) of .* must return the variables x, z, s \(got x\)",
    ),
    "unknown variable": (
        batch(drawing({"w": 1.0})),
        r"return the variables x, z, s \(got x, z, s, w\)",
    ),
    "no variables": (batch(drawing(lambda v: {})), r"x, z, s \(got none\)"),
    "variable as text": (
        batch(drawing({"x": "abc"})),
        r"sample\(\) of .* an array of numbers for 'x' \(got 'abc'\)",
    ),
    "variable of None": (batch(drawing({"x": None})), r"for 'x' \(got None\)"),
    "complex": (
        batch(drawing({"x": torch.zeros(3, dtype=torch.cfloat)})),
        r"real numbers for 'x' \(got torch\.complex64\)",
    ),
    "shape": (
        batch(drawing({"x": torch.zeros(4)})),
        r"sample\(\) of Drawn\(n=3\) must return 'x' in the shape \(3,\) \(got \(4,\)",
    ),
    "varying shape": (
        batch(drawing(lambda v: {**v, "x": v["x"][: 1 + int(v["z"][0])]})),
        r"'x' in the same shape in every instance \(got ",
    ),
    "varying variables": (
        batch(drawing(lambda v: v if v["z"][0] else {"x": v["x"]})),
        r"the same variables in every instance \(got ",
    ),
    "number of instances": (
        batch(drawing_many(lambda v: {n: value[1:] for n, value in v.items()})),
        r"sample_batch\(\) .* 'x' in the shape \(4, 3\), which is 4 inst.*\(got \(3, 3",
    ),
    "NaN": (
        batch(drawing({"s": float("nan")})),
        r"sample\(\) of Drawn\(n=3\) must draw 's' .*\(got nan at training step 7\)",
    ),
    "infinity": (
        batch(drawing({"s": np.inf})),
        r"'s' from real numbers, finite in torch\.float32 \(got inf at training step",
    ),
    "beyond float32": (
        batch(drawing({"s": torch.tensor(1e39, dtype=torch.double)})),
        r"finite in torch\.float32 \(got 1e\+39",
    ),
    "out of bounds": (
        batch(drawing(outer)),
        r"'x' from real numbers in \[0, 1\].*\(got 1\.\d+ at training step 7\)",
    ),
    "out of bounds in a batch": (
        batch(drawing_many(outer)),
        r"sample_batch\(\) of Drawn\(n=3\) must draw 'x'.*\(got 1\.\d+ at training st",
    ),
    "masked": (
        batch(drawing({"z": np.ma.masked_array([0, 1, 1], mask=[1, 0, 0])})),
        r"must return an array of numbers for 'z'",
    ),
    "one number from a batch": (
        lambda: drawing_many(lambda v: {**v, "s": 1.0}).sample(),
        r"sample_batch\(\) .* first dimension of instances for 's' \(got 1\.0\)",
    ),
    "class": (
        batch(drawing({"z": [0, 2, 1]})),
        r"'z' from classes 0\.\.1.*\(got 2 at training step 7\)",
    ),
    "half a class": (batch(drawing({"z": [0, 0.5, 1]})), r"'z' from.*\(got 0\.5 at"),
    "NaN before training": (
        spec(drawing({"s": float("nan")})),
        r"sample\(\) of Drawn\(n=3\) must draw 's' .*\(got nan\)",
    ),
    "NaN in evaluation": (
        lambda: prior_metrics(drawing({"s": float("nan")})),
        r"sample\(\) of Drawn\(n=3\) must draw 's' .*\(got nan\)",
    ),
    "tuple in evaluation": (
        lambda: prior_metrics(drawing(lambda v: ())),
        r"sample\(\) .* dictionary .*\(got tuple\)",
    ),
    # problem classes
    "own __init__": (with_init, r"Own gets its __init__ from its fields: declare them"),
    "@dataclass": (with_dataclass, r"remove the decorator \(got @dataclass\)"),
    "@dataclass(frozen=True)": (with_frozen_dataclass, r"remove the decorator"),
    "sample without generator": (
        without_generator,
        r"write `def sample\(self, generator=None\)`.*\(got sample\(self\)\)",
    ),
    "sample_batch without num": (
        without_num,
        r"`def sample_batch\(self, num, generator=None\)`.*\(got sample_batch\(self, g",
    ),
    # families
    "classes change with size": (
        spec(HierarchicalBCMF.family(m=2, n=2, k=(1, 3))),
        r"'K' depends on \(got 'K' latent with 2 classes in Hier.* with 4 classes in H",
    ),
    "digits change with size": (
        spec(Sudoku.family(a=2, b=(2, 3))),
        r"sizes that 'cells' depends on \(got 'cells' latent with 4 classes in Sudoku",
    ),
    "variables change with size": (
        spec(BooleanCircuit.family(n=(1, 3))),
        r"'h' depends on \(got 'h' missing in BooleanCircuit\(n=1.*intermediate",
    ),
    # a problem is due
    "problem class": (
        lambda: check_problem_argument(BCMF),
        r"call the class with its sizes, BCMF\(m=\.\.\., n=\.\.\., k=\.\.\.\) \(got th",
    ),
    "family": (
        lambda: check_problem_argument(BCMF.family(m=1, n=1, k=1)),
        r"one size is due: pass BCMF\(m=\.\.\..*\(got a family of BCMF\)",
    ),
    "no problem": (lambda: check_problem_argument(None), r"is due.*\(got None\)"),
    "problem name": (lambda: check_problem_argument("BCMF"), r"is due.*\(got 'BCMF'\)"),
    "source class": (
        lambda: check_source_argument(BCMF),
        r"a problem or a family of sizes is due: call .*\(got the class BCMF\)",
    ),
    "source name": (lambda: check_source_argument("BCMF"), r"family.*\(got 'BCMF'\)"),
    "class to sample": (
        lambda: tiny_model().sample(BCMF),
        r"call the class with its sizes.*\(got the class BCMF\)",
    ),
    "family to sample": (
        lambda: tiny_model().sample(BCMF.family(m=1, n=1, k=1)),
        r"\(got a family of BCMF\)",
    ),
    "nothing to sample": (lambda: tiny_model().sample(None), r"is due.*\(got None\)"),
    "name to evaluate": (
        lambda: tiny_model().evaluate("BCMF"),
        r"problem of one size is due.*\(got 'BCMF'\)",
    ),
    "class for a model": (
        lambda: GSDM.from_problem(BCMF),
        r"a problem or a family of sizes is due.*\(got the class BCMF\)",
    ),
    "nothing for batches": (
        lambda: ProblemBatches(None),
        r"a problem or a family of sizes is due.*\(got None\)",
    ),
    # metrics
    "metrics of None": (
        scoring(None),
        r"metrics\(\) of Scored\(n=2\) must return a dictionary.*\(got None\)",
    ),
    "metrics as number": (scoring(0.5), r"must return a dictionary.*\(got 0\.5\)"),
    "metric as vector": (
        scoring({"error": torch.zeros(2)}),
        r"metrics\(\) of Scored\(n=2\) .* one number for 'error'.*\(got tensor",
    ),
    "metric as text": (scoring({"error": "1"}), r"one number for 'error'.*\(got '1'\)"),
    "metric of None": (scoring({"error": None}), r"for 'error'.*\(got None\)"),
    "metrics that vary": (
        scoring(lambda v: {"a": 1.0} if v["z"][0] else {"b": 1.0}),
        r"metrics\(\) .* the same metrics for every instance.*\(got [ab] and [ab]\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_gets_its_sentence(name):
    do, sentence = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=sentence):
        do()


def test_what_has_an_obvious_meaning_is_accepted():
    assert add(shape=3).variables["x"].shape == (3,)
    shape = add(shape=(np.int64(2), torch.tensor(3))).variables["x"].shape
    assert shape == (2, 3) and all(type(size) is int for size in shape)
    assert add(shape=torch.zeros(2, 3).shape).variables["x"].shape == (2, 3)
    for role in Role:
        assert add(role=role.value).variables["x"].role is role
    assert Categorical(np.int64(3)) == Categorical(3)
    assert Continuous(np.float32(0), np.int64(1)) == Continuous(0, 1)
    problem, family = BCMF(m=1, n=1, k=1), BCMF.family(m=1, n=1, k=1)
    assert check_problem_argument(problem) is problem
    assert check_source_argument(problem) is problem
    assert check_source_argument(family) is family


@pytest.mark.parametrize(
    "convert", [np.asarray, lambda t: t.tolist(), lambda t: t.double()]
)
def test_samplers_may_return_arrays_lists_and_floats(convert):
    def converted(values):
        return {name: convert(value) for name, value in values.items()}

    expected = ProblemBatches(Sum(n=3), batch_size=4).batch(7).x
    for problem in (drawing(converted), drawing_many(converted)):
        found = ProblemBatches(problem, batch_size=4).batch(7).x
        torch.testing.assert_close(found, expected)
        assert spec(problem)().variables == spec(Sum(n=3))().variables
        truth = prior_metrics(Sum(n=3), 4)
        assert prior_metrics(problem, 4) == pytest.approx(truth)


def test_numbers_of_any_kind_are_metrics():
    class Scored(Sum):
        def metrics(self, sample, truth):
            return {
                "int": 1,
                "bool": True,
                "numpy": np.float32(0.5),
                "tensor": torch.tensor(0.25),
            }

    expected = {"int": 1.0, "bool": 1.0, "numpy": 0.5, "tensor": 0.25}
    assert prior_metrics(Scored(n=2), 3) == expected


def test_bounds_hold_as_float32_rounds_them():
    domain = Continuous(-0.1, 0.1)
    ends = torch.tensor([-0.1, 0.1])  # a little outside in float64
    assert domain.holds(ends) and domain.holds(ends.double())
    assert not domain.outside(ends.double()).any()
    assert not domain.holds(ends * 1.001) and domain.outside(ends * 1.001).all()
