"""How the modules of the package depend on each other, read from their source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import networkx as nx
import pytest

import gsdm_pyg
from tests.helpers import ROOT

FILES = sorted((ROOT / "gsdm_pyg").rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of a syntax tree, except below `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


def imported(path: Path) -> set[str]:
    """The modules that a file imports anywhere, also inside functions.

    `from package import name` depends on the module package.name if there is one, and
    on the package itself otherwise.
    """
    found = set()
    for node in runtime_nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else str(node.module))
    return found


def test_no_modules_import_each_other_in_a_circle():
    graph = nx.DiGraph(
        (name, other)
        for name, path in MODULES.items()
        for other in imported(path)
        if other in MODULES
    )
    assert graph.number_of_edges() > 50
    assert list(nx.simple_cycles(graph)) == []


def test_no_name_of_a_package_hides_a_module_of_it():
    hidden = []
    for name in MODULES:
        package, _, leaf = name.rpartition(".")
        exported = package and leaf in getattr(import_module(package), "__all__", ())
        if exported and not isinstance(getattr(sys.modules[package], leaf), ModuleType):
            hidden.append(name)
    assert hidden == []


def test_package_never_imports_the_problems():
    guilty = [
        name
        for name, path in MODULES.items()
        if any(other.split(".")[0] == "problems" for other in imported(path))
    ]
    assert guilty == []


@pytest.mark.parametrize("folder", ["training", "data"])
def test_folder_uses_no_private_attribute_of_other_objects(folder):
    private = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for path in sorted((ROOT / "gsdm_pyg" / folder).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert private == []


def test_only_commands_that_train_and_their_lanes_change_the_memory_of_a_process():
    memory = "gsdm_pyg.training.memory"
    users = [name for name, path in MODULES.items() if memory in imported(path)]
    assert users == [
        "gsdm_pyg.cli.doctor",
        "gsdm_pyg.cli.reproduce",
        "gsdm_pyg.cli.train",
        "gsdm_pyg.paper.sweep",
    ]


def test_problems_are_written_with_public_names_alone():
    """A user may copy any of them: they import from `gsdm_pyg`, not from within."""
    within = [
        f"{path.name}: {module}"
        for path in sorted((ROOT / "problems").glob("*.py"))
        for module in imported(path)
        if module.startswith("gsdm_pyg.")
    ]
    assert within == []


def test_public_names_are_in_the_order_of_the_data_flow():
    modules = list(gsdm_pyg._PUBLIC)
    names = [name for module in modules for name in gsdm_pyg._PUBLIC[module]]
    assert list(gsdm_pyg.__all__) == names
    for name in names:
        assert getattr(gsdm_pyg, name) is not None
