"""Problem classes by name: built in, imported, or in a file of the user's own."""

import sys

import pytest

from gsdm_pyg import Problem, Role
from gsdm_pyg.problem import graph_of
from gsdm_pyg.registry import resolve_problem
from problems import BCMF

FILE = """
import torch
from gsdm_pyg import GraphicalModel, Problem, Role, Size

class {name}(Problem):
    n: Size

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


def test_a_file_without_that_problem_is_named(tmp_path):
    for name in ["Totals", "NotAProblem", "torch", ""]:
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


def test_without_the_problems_package_the_error_says_where_the_built_in_ones_are(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(Problem, "registry", {})
    for module in [name for name in sys.modules if name.split(".")[0] == "problems"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site-packages" in p])
    monkeypatch.chdir(tmp_path)
    sentence = r"'BCMF'.*built-in problems are in .*run from the repository's folder"
    with pytest.raises(ValueError, match=sentence):
        resolve_problem("BCMF")


def test_with_the_problems_package_the_error_does_not_send_for_it():
    with pytest.raises(ValueError) as error:
        resolve_problem("BMCF")
    assert "repository" not in str(error.value)
