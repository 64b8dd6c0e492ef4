"""Problems and families: sizes, names, what is observed."""

import sys
from dataclasses import FrozenInstanceError

import pytest
import torch

from gsdm_pyg import GraphicalModel, GraphView, Problem, Role
from gsdm_pyg.problem import graph_of, resolve_problem
from problems import BCMF

FILE = """
import torch
from gsdm_pyg import GraphicalModel, Problem, Role

class {name}(Problem):
    n: int

    def graphical_model(self):
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.n,))
        graph.connect(x, graph.add_variable("s", (), role=Role.OBSERVED))
        return graph

    def sample(self, generator=None):
        x = torch.randn(self.n, generator=generator)
        return {{"x": x, "s": x.sum()}}

    def metrics(self, sample, truth):
        return {{"error": abs(sample["x"].sum() - truth["s"]).item()}}

    def plot(self, sample, truth):
        raise NotImplementedError

class NotAProblem:
    pass
"""


@pytest.fixture(autouse=True)
def _restored_registry(monkeypatch):
    monkeypatch.setattr(Problem, "registry", dict(Problem.registry))


@pytest.fixture
def seeded():
    return torch.Generator().manual_seed(0)


# sizes


def test_family_draws_every_size_of_its_range_and_no_other(seeded):
    family = BCMF.family(m=(1, 4), n=[2, 3], k=5)
    draws = [family.draw(seeded) for _ in range(300)]
    assert {p.m for p in draws} == {1, 2, 3, 4}
    assert {p.n for p in draws} == {2, 3}
    assert {p.k for p in draws} == {5}
    assert len({(p.m, p.n) for p in draws}) == 8  # drawn independently


def test_family_draws_sizes_uniformly(seeded):
    family = BCMF.family(m=(1, 4), n=1, k=1)
    sizes = torch.tensor([family.draw(seeded).m for _ in range(2000)])
    counts = sizes.bincount(minlength=5)[1:]
    assert (counts - 500).abs().max() < 4 * (2000 * 0.25 * 0.75) ** 0.5


def test_family_draws_depend_on_the_generator_alone(untouched_random_state):
    family = BCMF.family(m=(1, 9), n=(1, 9), k=(1, 9))
    first = [family.draw(torch.Generator().manual_seed(s)) for s in range(20)]
    assert first == [family.draw(torch.Generator().manual_seed(s)) for s in range(20)]
    assert len(set(first)) > 10


def test_largest_has_every_size_at_its_upper_end():
    assert BCMF.family(m=(1, 4), n=7, k=[2, 3]).largest() == BCMF(m=4, n=7, k=3)
    assert BCMF(m=1, n=2, k=3).largest() == BCMF(m=1, n=2, k=3)


def test_smallest_has_every_size_at_its_lower_end():
    assert BCMF.family(m=(1, 4), n=7, k=[2, 3]).smallest() == BCMF(m=1, n=7, k=2)


def test_a_problem_is_a_family_of_one_size(seeded):
    problem = BCMF(m=1, n=2, k=3)
    assert problem.draw(seeded) is problem
    assert problem.smallest() is problem.largest() is problem
    assert problem.sizes() == {"m": 1, "n": 2, "k": 3}


@pytest.mark.parametrize("size", [0, -3, 2.0, 2.5, "3", None, True, [2]])
def test_a_problem_refuses_what_is_not_a_size(size):
    with pytest.raises(ValueError, match=r"BCMF\.k is a size.*at least 1 \(got "):
        BCMF(m=2, n=2, k=size)


@pytest.mark.parametrize("size", [0, -3, 2.5, "3", (0, 3), [-2, 3]])
def test_a_family_refuses_what_is_not_a_size_before_it_draws(size):
    with pytest.raises(ValueError, match=r"BCMF\.k is a size.*at least 1"):
        BCMF.family(m=2, n=2, k=size)


@pytest.mark.parametrize("size", [(3, 1), (1.5, 3), (1, 2, 3), [1], (), ("1", "3")])
def test_a_family_refuses_a_malformed_range(size):
    with pytest.raises(ValueError, match=r"range of k is \[low, high\].*got \["):
        BCMF.family(m=2, n=2, k=size)


def test_a_family_names_the_sizes_when_one_is_misspelt():
    with pytest.raises(ValueError, match=r"BCMF takes m, n, k, given \(got 'kk'\)"):
        BCMF.family(m=2, n=2, kk=2)


def test_problems_are_frozen_and_hash_by_value():
    problem = BCMF(m=1, n=2, k=3)
    with pytest.raises(FrozenInstanceError):
        problem.m = 5
    assert problem == BCMF(m=1, n=2, k=3) and problem != BCMF(m=1, n=3, k=2)
    assert len({problem, BCMF(m=1, n=2, k=3), BCMF(m=2, n=2, k=3)}) == 2


def test_problems_of_two_classes_differ_even_at_one_size():
    class Other(BCMF):
        pass

    assert Other(m=1, n=2, k=3) != BCMF(m=1, n=2, k=3)
    assert graph_of(Other(m=1, n=2, k=3)) is not graph_of(BCMF(m=1, n=2, k=3))


def test_the_graph_of_a_size_is_built_once():
    calls = []

    class Counted(BCMF):
        def graphical_model(self) -> GraphicalModel:
            calls.append(self)
            return super().graphical_model()

    for m in (1, 2, 1, 2):
        graph_of(Counted(m=m, n=1, k=1))
    assert [p.m for p in calls] == [1, 2]


def test_views_share_a_graph_unless_they_drop_intermediates():
    problem = BCMF(m=2, n=1, k=1)
    whole, dropped = graph_of(problem), GraphView(intermediates="drop")
    for view in (GraphView("array"), GraphView(edges="random", intermediates="keep")):
        assert graph_of(problem, view) is whole
    assert list(graph_of(problem, dropped).variables) == ["A", "R", "E"]
    assert graph_of(problem, dropped) is graph_of(problem, dropped)


# observe


def test_observing_by_roles_gives_the_observed_variables_whole(untouched_random_state):
    masks = BCMF(m=2, n=3, k=4).observe(torch.Generator(), "roles")
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {
        "A": (2, 4),
        "R": (4, 3),
        "C": (2, 3, 4),
        "E": (2, 3),
    }
    assert all(mask.dtype == torch.bool for mask in masks.values())
    assert masks["E"].all()
    assert not any(masks[name].any() for name in "ARC")


def test_mixed_observation_shows_roles_in_half_and_every_pattern(
    seeded, untouched_random_state
):
    problem = BCMF(m=4, n=4, k=3)
    by_role = problem.observe()
    draws = [problem.observe(seeded, "mixed") for _ in range(600)]
    same = [all(torch.equal(d[n], by_role[n]) for n in by_role) for d in draws]
    # half by role, and by chance 1/3^4 of the other half
    assert abs(sum(same) / 600 - 0.5 - 0.5 / 81) < 4 * 0.5 / 600**0.5
    for name in "ARCE":
        shares = torch.stack(
            [d[name].float().mean() for d, s in zip(draws, same, strict=True) if not s]
        )
        for kind in (shares == 0, shares == 1, (shares > 0) & (shares < 1)):
            assert 0.2 < kind.float().mean() < 0.47  # a third each, roughly


def test_mixed_observation_is_a_function_of_the_generator():
    problem = BCMF(m=3, n=3, k=3)
    for seed in range(10):
        first = problem.observe(torch.Generator().manual_seed(seed), "mixed")
        again = problem.observe(torch.Generator().manual_seed(seed), "mixed")
        assert all(torch.equal(first[name], again[name]) for name in first)


# names


def test_a_problem_is_found_by_its_class_name():
    assert resolve_problem("BCMF") is BCMF


def test_a_name_is_looked_up_in_the_problems_package(monkeypatch):
    monkeypatch.setattr(Problem, "registry", {})
    with pytest.raises(ValueError, match="Known: none"):
        resolve_problem("BCMF")  # the package was imported before the registry went
    monkeypatch.delitem(sys.modules, "problems")
    monkeypatch.delitem(sys.modules, "problems.bcmf")
    assert resolve_problem("BCMF").__name__ == "BCMF"


def test_a_problem_is_found_in_a_file(tmp_path):
    file = tmp_path / "total.py"
    file.write_text(FILE.format(name="Total"))
    problem = resolve_problem(f"{file}:Total")
    graph = graph_of(problem(n=3))
    assert graph.num_nodes == 4 and graph.variables["s"].role is Role.OBSERVED
    assert problem.reference == f"{file}:Total"
    assert resolve_problem(f"{file}:Total") is problem
    assert resolve_problem("Total") is problem


def test_a_relative_path_names_a_file_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "nearby.py").write_text(FILE.format(name="Nearby"))
    monkeypatch.chdir(tmp_path)
    assert resolve_problem("nearby.py:Nearby").__name__ == "Nearby"


def test_files_of_one_name_in_two_folders_are_two_problems(tmp_path):
    references = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(FILE.format(name="Same"))
        references.append(f"{tmp_path / folder / 'same.py'}:Same")
    first, second = map(resolve_problem, references)
    assert first is not second
    assert resolve_problem(references[0]) is first


def test_a_problem_file_can_be_corrected_after_it_failed(tmp_path):
    file = tmp_path / "typo.py"
    file.write_text("raise RuntimeError('typo')")
    with pytest.raises(RuntimeError, match="typo"):
        resolve_problem(f"{file}:Fixed")
    file.write_text(FILE.format(name="Fixed") + "# longer, so that no cache is used\n")
    assert resolve_problem(f"{file}:Fixed").__name__ == "Fixed"


def test_a_subclass_does_not_inherit_the_file_of_its_parent(tmp_path):
    file = tmp_path / "parent.py"
    file.write_text(FILE.format(name="Parent"))
    parent = resolve_problem(f"{file}:Parent")

    class Child(parent):
        pass

    assert Child.reference is None


def test_a_missing_problem_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"does not exist.*nowhere\.py"):
        resolve_problem(f"{tmp_path / 'nowhere.py'}:Total")


@pytest.mark.parametrize("name", ["Totals", "NotAProblem", "torch", ""])
def test_a_file_without_that_problem_is_named(tmp_path, name):
    file = tmp_path / "without.py"
    file.write_text(FILE.format(name="Total"))
    with pytest.raises(ValueError, match=rf"without.py defines no.*got '{name}'"):
        resolve_problem(f"{file}:{name}")


def test_an_unknown_name_lists_the_known_ones_and_the_way_out():
    with pytest.raises(ValueError) as error:
        resolve_problem("BMCF")
    text = str(error.value)
    assert "'BMCF'" in text and "BCMF" in text.split("Known:")[1]
    assert "path/to/file.py:ClassName" in text


def test_a_problem_must_say_how_to_sample():
    class Incomplete(Problem):
        n: int

        def graphical_model(self) -> GraphicalModel:
            return GraphicalModel()

    with pytest.raises(TypeError, match="abstract"):
        Incomplete(n=1)
