"""A numerical oracle of dependence: change one input, and see which outputs move."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.programs.dependence import Dependence
from gsdm_pyg.programs.rows import identity
from gsdm_pyg.programs.trace import trace

SEED = 17  # of draws inside of the function


class Input(NamedTuple):
    """A random input: its shape, and where its values are."""

    shape: tuple[int, ...] = ()
    kind: str = "real"  # or "unit", "bool", or a number of classes as a string

    def draw(self, generator: torch.Generator) -> Tensor:
        if self.kind == "bool":
            return torch.rand(self.shape, generator=generator) < 0.5
        if self.kind.isdigit():
            return torch.randint(int(self.kind), self.shape, generator=generator)
        if self.kind == "unit":
            options = {"generator": generator, "dtype": torch.float64}
            return torch.rand(self.shape, **options) * 0.98 + 0.01
        return torch.randn(self.shape, generator=generator, dtype=torch.float64) * 2


Function = Callable[..., Tensor | Sequence[Tensor]]


def moved(
    function: Function,
    inputs: Sequence[Input],
    num_draws: int = 30,
    found: Tensor | None = None,
) -> Tensor:
    """Which outputs ever move when one entry of an input is drawn again, [O, I].

    Args:
        function: The function.
        inputs: Its random inputs, of I entries together.
        num_draws: How often each entry is drawn again.
        found: A table [O, I] by tracing: after some draws, entries of which it has no
            dependence that is not confirmed yet are left alone.
    """
    generator = torch.Generator().manual_seed(0)
    state, seen = torch.get_rng_state(), None
    for number in range(num_draws):
        values = [x.draw(generator) for x in inputs]
        base = _flat(_run(function, values))
        if seen is None:
            entries = sum(value.numel() for value in values)
            seen = torch.zeros(base.numel(), entries, dtype=torch.bool)
        open_entries = (found & ~seen).any(0) if found is not None else None
        column = 0
        for which, x in enumerate(inputs):
            other = x.draw(generator).reshape(-1)
            for entry in range(other.numel()):
                if open_entries is None or number < 8 or open_entries[column]:
                    changed = [value.clone() for value in values]
                    changed[which].view(-1)[entry] = other[entry]
                    seen[:, column] |= ~_same(base, _flat(_run(function, changed)))
                column += 1
    torch.set_rng_state(state)
    assert seen is not None
    return seen


def traced(function: Function, values: Sequence[Tensor]) -> Tensor:
    """Which outputs depend on which entries of the inputs, by tracing, [O, I]."""
    dependence = Dependence()
    with torch.random.fork_rng(), dependence.follow():
        torch.manual_seed(SEED)
        inputs = []
        for value in values:
            with dependence.pause():
                x = value.clone()
            first = dependence.add_nodes(x.numel())
            dependence.write(x, identity(first, x.numel()))
            inputs.append(x)
        num_inputs = dependence.num_nodes
        result = function(*inputs)
        outputs = [result] if isinstance(result, Tensor) else list(result)
        rows = [dependence.rows(out) for out in outputs]
    tables = []
    for row in rows:
        table = torch.zeros(row.count, num_inputs, dtype=torch.bool)
        known = row.node < num_inputs  # others are draws inside of the function
        table[row.element[known], row.node[known]] = True
        tables.append(table)
    return torch.cat(tables)


def traces(function: Function, inputs: Sequence[Input]) -> list[Tensor]:
    """Traces for several values of the inputs, of which some are zero."""
    generator = torch.Generator().manual_seed(1)
    drawn = [[x.draw(generator) for x in inputs] for _ in range(3)]
    zeros = [torch.zeros_like(value) for value in drawn[0]]
    safe = all(x.kind != "unit" for x in inputs)
    return [traced(function, values) for values in [*drawn, *([zeros] if safe else [])]]


def _run(function: Function, values: Sequence[Tensor]) -> list[Tensor]:
    torch.default_generator.manual_seed(SEED)
    with torch.no_grad():
        result = function(*[value.clone() for value in values])
    return [result] if isinstance(result, Tensor) else list(result)


def _flat(outputs: Sequence[Tensor]) -> Tensor:
    parts = [x.real + x.imag / 3 if x.is_complex() else x for x in outputs]
    return torch.cat([x.double().reshape(-1) for x in parts])


def _same(a: Tensor, b: Tensor) -> Tensor:
    return torch.isclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


def graph_of(program: Callable[[], object]) -> GraphicalModel:
    """The graph of a program without arguments."""
    return trace(program, "program").graph


def linked(graph: GraphicalModel, first: str, second: str) -> Tensor:
    """Which elements of two variables an edge or a factor links, [first, second]."""
    pairs = torch.cat([graph.edges(), graph.factor_pairs()], 1)
    table = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    table[pairs[0], pairs[1]] = table[pairs[1], pairs[0]] = True
    ids = [graph.node_ids(name).reshape(-1) for name in (first, second)]
    return table[ids[0]][:, ids[1]]


def entries(table: Tensor) -> list[tuple[int, int]]:
    """The entries (output, input) of a table, for messages."""
    return np.argwhere(table.numpy()).tolist()
