"""Which fields of a problem are sizes, and how families draw them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated

import numpy as np
import pytest
import torch

import gsdm_pyg
from gsdm_pyg import GraphicalModel, GraphOptions, Problem, Size, Sizes
from gsdm_pyg.config import parse_config
from gsdm_pyg.problem_spec import ProblemSpec
from tests.helpers import GroupMeans, main, seeded, tiny_model

RAGGED = GroupMeans.family(groups={"length": [2, 4], "each": [1, 3]})


@pytest.fixture(autouse=True)
def _restored_registry(monkeypatch):
    monkeypatch.setattr(Problem, "registry", dict(Problem.registry))


class Base(Problem):
    """One number, at whatever size."""

    def graphical_model(self) -> GraphicalModel:
        graph = GraphicalModel()
        graph.add_variable("x", ())
        return graph

    def sample_batch(self, num, generator=None):
        return {"x": torch.randn(num, generator=generator)}


class Fields(Base):
    """Every kind of field."""

    n: Size
    seed: int = 0
    most: Size | None = None
    groups: Sizes = (1,)
    name: str = "plain"
    odd: Annotated[int, "anything"] = 0


def test_only_fields_that_say_so_are_sizes():
    assert Fields.size_kinds == {"n": "size", "most": "size", "groups": "sizes"}
    problem = Fields(n=2, seed=-5, odd=0)
    assert (problem.seed, problem.most) == (-5, None)
    assert Fields(n=1, seed="abc").seed == "abc"
    for wrong in ({"n": 0}, {"n": 1, "most": 0}, {"n": 1, "groups": ()}):
        with pytest.raises(ValueError, match="at least 1"):
            Fields(**wrong)


def test_annotations_are_understood_within_a_function_and_from_other_modules():
    from gsdm_pyg import Size as Local  # known to this function alone

    class Inner(Fields):
        more: gsdm_pyg.Size = 1
        text: "Sizes" = (2,)  # noqa: UP037
        alias: Local = 1

    own = {"more": "size", "text": "sizes", "alias": "size"}
    assert Inner.size_kinds == {**Fields.size_kinds, **own}
    with pytest.raises(ValueError, match=r"Inner\.n is a size"):
        Inner(n=-1)


def test_a_name_that_only_a_type_checker_imports_is_understood():
    scope = {"__name__": "nowhere", "Base": Base}
    code = "class Odd(Base):\n    n: 'Size | None' = None\n    m: 'g.Sizes' = (1,)"
    exec(code, scope)
    assert scope["Odd"].size_kinds == {"n": "size", "m": "sizes"}


def test_a_subclass_inherits_which_fields_are_sizes():
    class Heir(Fields):
        other: int = 0

    assert Heir.size_kinds == Fields.size_kinds
    assert Heir(n=1, other=-1).other == -1


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_integers_of_numpy_are_sizes_and_become_ints(kind):
    problem = Fields(n=kind(3), groups=np.array([1, 2], dtype=kind))
    assert type(problem.n) is int and problem == Fields(n=3, groups=(1, 2))
    assert [type(size) for size in problem.groups] == [int, int]
    family = Fields.family(n=(kind(1), kind(2)), groups=[kind(4)])
    assert family.largest() == Fields(n=2, groups=(4,))
    spec = ProblemSpec.of(Fields.family(n=kind(2), groups=[kind(4)]), GraphOptions())
    assert json.loads(spec.model_dump_json())["sizes"] == {"n": 2, "groups": [4]}


def test_sizes_are_a_tuple_from_any_sequence():
    for groups in ([3, 4, 2], (3, 4, 2), np.array([3, 4, 2])):
        assert GroupMeans(groups=groups) == GroupMeans(groups=(3, 4, 2))
    for groups in (3, "34", [], [0], [1.5], [True], None, {"length": 1, "each": 2}):
        with pytest.raises(ValueError, match=r"GroupMeans\.groups holds sizes.*\(got "):
            GroupMeans(groups=groups)


def test_sizes_at_default_are_still_sizes():
    assert Fields(n=1).sizes() == {"n": 1, "most": None, "groups": (1,)}


# families of several sizes


def test_a_family_of_fixed_groups_has_one_problem():
    family = GroupMeans.family(groups=[3, 4, 2])
    assert family.smallest() == family.largest() == GroupMeans(groups=(3, 4, 2))
    assert family.draw_many(3)[0] == [GroupMeans(groups=(3, 4, 2))]


def test_a_family_draws_length_and_sizes_uniformly():
    lengths, sizes = Counter(), Counter()
    problems, which = RAGGED.draw_many(3000, seeded(0))
    assert len(set(problems)) == len(problems)
    for i in which.tolist():
        lengths[len(problems[i].groups)] += 1
        sizes.update(problems[i].groups)
    assert set(lengths) == {2, 3, 4} and set(sizes) == {1, 2, 3}
    for counts in (lengths, sizes):
        for count in counts.values():
            assert abs(count / counts.total() - 1 / 3) < 4 * 0.5 / 3000**0.5


def test_the_ends_of_a_family_have_all_groups_at_one_end():
    assert RAGGED.smallest().groups == (1, 1)
    assert RAGGED.largest().groups == (3, 3, 3, 3)
    one = GroupMeans.family(groups={"length": 3, "each": [1, 2]})
    assert {len(one.draw(seeded(seed)).groups) for seed in range(20)} == {3}
    assert RAGGED.draw(seeded(1)) == RAGGED.draw(seeded(1))


def test_groups_and_single_sizes_are_drawn_together():
    each = {"length": (1, 2), "each": (1, 2)}
    family = Fields.family(n=(1, 2), groups=each, most=(3, 4), seed=7)
    problems, which = family.draw_many(200, seeded(0))
    assert len(problems) == len(set(problems)) and which.max() == len(problems) - 1
    assert {p.n for p in problems} == {1, 2} and {p.most for p in problems} == {3, 4}
    assert {p.seed for p in problems} == {7}
    expected = {(1,), (2,), (1, 1), (1, 2), (2, 1), (2, 2)}
    assert {p.groups for p in problems} == expected


@pytest.mark.parametrize(
    "groups",
    [
        {"length": [2, 5]},
        {"length": [2, 5], "each": [1, 2], "other": 1},
        {"length": [5, 2], "each": 1},
        {"length": 2, "each": [0, 2]},
        {"length": 0, "each": 2},
        {"length": 2.5, "each": 2},
        [0, 1],
        3,
    ],
)
def test_a_malformed_range_of_groups_is_refused(groups):
    with pytest.raises(ValueError, match=r"groups.*\(got "):
        GroupMeans.family(groups=groups)


# groups from the config to the command line


def test_groups_of_different_sizes_are_linked_to_their_own_mean():
    graph = GroupMeans(groups=(2, 1)).graphical_model()
    assert graph.edges().t().tolist() == [[0, 1], [0, 2], [1, 3], [1, 4], [2, 5]]


def test_a_spec_holds_groups_as_json():
    sizes = ProblemSpec.of(RAGGED, GraphOptions()).sizes
    assert sizes == {"groups": {"length": [2, 4], "each": [1, 3]}}
    assert GroupMeans.family(**json.loads(json.dumps(sizes))) == RAGGED
    fixed = ProblemSpec.of(GroupMeans(groups=(3, 1)), GraphOptions()).sizes
    assert fixed == {"groups": [3, 1]}


def test_a_config_holds_groups_as_yaml():
    config = parse_config(
        {
            "problem": {"name": "GroupMeans", "groups": dict(RAGGED.ranges["groups"])},
            "evaluation": {"problems": [{"groups": [3, 4, 2]}]},
        }
    )
    assert config.problem.source() == RAGGED
    (sizes,) = config.evaluation.problems
    assert config.problem.source().at(sizes).groups == (3, 4, 2)


@pytest.mark.slow
def test_a_model_of_groups_is_trained_and_sampled_at_other_groups(tmp_path, capsys):
    model = tiny_model(RAGGED)
    model.fit(max_steps=2, batch_size=8)
    drawn = model.sample(GroupMeans(groups=(5, 1, 2)), num_samples=2, steps=2)
    assert drawn["x"].shape == (2, 3) and drawn["y"].shape == (2, 8)
    model.save_pretrained(tmp_path / "model")
    options = ["--instances", "2", "--steps", "2", "--pictures", str(tmp_path / "out")]
    command = ["evaluate", str(tmp_path / "model")]
    main([*command, "groups=[3, 4, 2]", *options])
    assert "GroupMeans(groups=(3, 4, 2))" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert "groupmeans-groups3-4-2-seed0-0.png" in names
    main([*command, *options[:4]])  # the largest of training
    assert "GroupMeans(groups=(3, 3, 3, 3))" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"groups holds sizes|holds sizes.*got 3"):
        main([*command, "groups=3", *options[:4]])
