"""Trace a program: its variables, and which of their elements depend on which."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from gsdm_pyg.choices import ProgramIntermediates
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.programs.dependence import Dependence
from gsdm_pyg.programs.domains import domain_of, domain_of_value
from gsdm_pyg.programs.errors import ProgramError, current_line, error
from gsdm_pyg.programs.random_state import no_new_seed, seeded
from gsdm_pyg.programs.rows import Ints, Rows, identity
from gsdm_pyg.programs.sites import Handler, Site, handled_by
from gsdm_pyg.programs.subexpressions import Subexpressions
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.variables import Categorical, Domain, Role

logger = logging.getLogger("gsdm_pyg")


@dataclass
class TracedVariable:
    """A variable as the program has named it so far, whole or entry by entry."""

    role: Role
    domain: Domain
    entry_shape: tuple[int, ...]
    line: str
    first_nodes: dict[tuple[int, ...], int] = field(default_factory=dict)  # by entry

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the whole variable; all entries must be there."""
        entries = np.array(list(self.first_nodes)).reshape(len(self.first_nodes), -1)
        lead = tuple((entries.max(0) + 1).tolist())
        if len(entries) != int(np.prod(lead)):
            every = itertools.product(*map(range, lead))
            missing = next(entry for entry in every if entry not in self.first_nodes)
            raise ProgramError(
                f"Variable {name!r} must have all entries up to its last one: name "
                f"{name}{list(missing)} too, {self.line} (got {len(entries)} of "
                f"{int(np.prod(lead))})."
            )
        return (*lead, *self.entry_shape)

    def nodes(self, name: str) -> Ints:
        """The numbers of its nodes while tracing, in row-major order."""
        shape = self.shape(name)
        num_entry = int(np.prod(self.entry_shape))
        lead = shape[: len(shape) - len(self.entry_shape)]
        first = [
            self.first_nodes[entry] for entry in itertools.product(*map(range, lead))
        ]
        return (np.array(first)[:, None] + np.arange(num_entry)).reshape(-1)


class Traced(NamedTuple):
    """What a trace has found."""

    graph: GraphicalModel
    subexpressions: dict[int, str]  # variables without a name: call -> given name
    conditioned: frozenset[str]  # variables that conditions of factor() depend on


class Tracer(Handler):
    """Turns statements into nodes and edges."""

    def __init__(self) -> None:
        self.dependence = Dependence()
        self.variables: dict[str, TracedVariable] = {}
        self.values: list[Tensor] = []  # keeps the memory of named tensors
        self.parents: list[tuple[Rows, int]] = []  # of nodes from a first one on
        self.conditions: list[Rows] = []
        self.subexpressions: dict[int, str] = {}  # names by the number of the call

    def draw(self, site: Site, distribution: Distribution, shape: torch.Size) -> Tensor:
        value = distribution.sample(shape)
        with self.dependence.pause():
            domain = domain_of(site, distribution, self.dependence.is_random)
        return self._add(site, value, domain)

    def compute(self, site: Site, value: Tensor) -> Tensor:
        return self._add(site, value, domain_of_value(site, value))

    def constrain(self, condition: Tensor) -> None:
        rows = self.dependence.rows(condition)
        if not rows:
            raise error(
                "factor() takes a condition on variables of the program: this one "
                f"depends on none (got {condition!r:.60})."
            )
        self.conditions.append(rows)

    def name_result(self, call: int, function: str, value: Tensor) -> Tensor:
        """A variable for the result of a function, if it depends on any."""
        values = value.is_floating_point() or value.dtype == torch.bool
        if self.dependence.paused or not values or not self.dependence.rows(value):
            return value
        others = sum(name.startswith(function) for name in self.variables)
        name = f"{function}_{others + 1}"
        self.subexpressions[call] = name
        site = Site(name, None, Role.INTERMEDIATE, None)
        return self._add(site, value, domain_of_value(site, value))

    def _take_over(self, site: Site, rows: Rows) -> bool:
        """Name a sub-expression that has become a variable without a name before."""
        first = int(rows.node[0]) if rows.node.size else -1
        for call, name in self.subexpressions.items():
            variable = self.variables.get(name)
            if variable is None or variable.first_nodes[()] != first:
                continue
            num = int(np.prod(variable.entry_shape))
            if np.array_equal(rows.node, np.arange(first, first + num)):
                del self.variables[name], self.subexpressions[call]
                return True
        return False

    def _add(self, site: Site, value: Tensor, domain: Domain) -> Tensor:
        """New nodes for the elements of a value; what follows depends on them alone."""
        rows = self.dependence.rows(value)
        shape, num = tuple(value.shape), value.numel()
        if not num:
            raise error(f"Variable {str(site)!r} has no elements (got shape {shape}).")
        entry = site.entry or ()
        known = self.variables.get(site.variable)
        if known is None:
            known = TracedVariable(site.role, domain, shape, current_line())
            self.variables[site.variable] = known
        first_entry = next(iter(known.first_nodes), entry)
        if entry in known.first_nodes or len(entry) != len(first_entry):
            raise error(
                f"Every variable has a name of its own, and every entry an index: "
                f"{site.variable!r} is named before, {known.line} (got {str(site)!r})."
            )
        if isinstance(domain, Categorical) and isinstance(known.domain, Categorical):
            classes = max(domain.num_classes, known.domain.num_classes)
            domain = known.domain = Categorical(classes)
        elif not isinstance(domain, Categorical) and type(domain) is type(known.domain):
            low = min(domain.low, known.domain.low)
            high = max(domain.high, known.domain.high)
            domain = known.domain = type(domain)(low, high)
        found = (site.role, type(domain), shape)
        if found != (known.role, type(known.domain), known.entry_shape):
            raise error(
                f"All entries of {site.variable!r} have one shape, role and kind of "
                f"domain, {known.entry_shape}, {known.role.value} and {known.domain} "
                f"(got {shape}, {site.role.value} and {domain} for {str(site)!r})."
            )
        if site.variable not in self.subexpressions.values() and self._take_over(
            site, rows
        ):
            first = int(rows.node[0])
        else:
            first = self.dependence.add_nodes(num)
            self.parents.append((rows, first))
        known.first_nodes[entry] = first
        with self.dependence.pause():
            value = value.detach().clone(memory_format=torch.contiguous_format)
            self.dependence.write(value, identity(first, num))
        self.values.append(value)
        return value


def trace(
    program: Callable[[], object],
    name: str,
    positions: Mapping[str, Sequence[int]] | None = None,
    intermediates: ProgramIntermediates = "named",
) -> Traced:
    """The graph of a program, from one run.

    Args:
        program: The program at one size, without arguments.
        name: Its name, for errors.
        positions: The axes of each variable whose index is a position.
        intermediates: "named": the variables that the program names. "all": results of
            functions, too, as intermediate variables.
    """
    tracer = Tracer()
    following = tracer.dependence.follow()
    all_results: Any = nullcontext()
    if intermediates == "all":
        all_results = Subexpressions(tracer.name_result)
    seed = seeded(keyed_generator("trace"))
    with seed, no_new_seed(), handled_by(tracer), following, all_results:
        program()
    if not tracer.variables:
        raise ProgramError(
            f"The program {name} names no variable: call sample(), let() or observe() "
            "in it (got an empty program)."
        )
    graph = _graph(tracer, positions or {})
    return Traced(graph, tracer.subexpressions, _conditioned(tracer))


def _conditioned(tracer: Tracer) -> frozenset[str]:
    """The variables that conditions depend on; all if one depends on unnamed draws."""
    nodes = {node for rows in tracer.conditions for node in rows.node.tolist()}
    found = {
        name: nodes & set(variable.nodes(name).tolist())
        for name, variable in tracer.variables.items()
    }
    if nodes - set().union(*found.values()):
        return frozenset(found)
    return frozenset(name for name, members in found.items() if members)


def _graph(tracer: Tracer, axes: Mapping[str, Sequence[int]]) -> GraphicalModel:
    graph = GraphicalModel()
    new_id = np.full(tracer.dependence.num_nodes, -1)
    for name, variable in tracer.variables.items():
        shape = variable.shape(name)
        positions = [
            torch.arange(shape[axis]).view(-1, *[1] * (len(shape) - axis - 1))
            for axis in axes.get(name, ())
        ]
        ids = graph.add_variable(name, shape, variable.domain, variable.role, positions)
        new_id[variable.nodes(name)] = ids.reshape(-1).numpy()
    children, parents = [], []
    for rows, first in tracer.parents:
        children.append(rows.element + first)
        parents.append(rows.node)
    child, parent = np.concatenate(children), np.concatenate(parents)
    named = new_id[parent] >= 0
    if named.any():
        edges = torch.from_numpy(np.stack([parent[named], child[named]]))
        graph.connect(*torch.from_numpy(new_id)[edges])
    for clique in _cliques(tracer, child[~named], parent[~named]):
        graph.factor(torch.from_numpy(new_id[clique]))
    return graph


def _cliques(tracer: Tracer, child: Ints, hidden: Ints) -> list[Ints]:
    """Factors as arrays [F, n] of nodes: of conditions, and of unnamed draws.

    An unnamed draw that several nodes depend on makes them dependent on each other.
    """
    num_nodes = tracer.dependence.num_nodes
    is_named = np.zeros(num_nodes, dtype=bool)
    for name, variable in tracer.variables.items():
        is_named[variable.nodes(name)] = True
    conditions = [
        nodes for rows in tracer.conditions for nodes in _split(rows.element, rows.node)
    ]
    # Most unnamed draws are those of one element of a named variable each.
    matters = np.bincount(hidden, minlength=num_nodes) > 1
    matters[np.concatenate([*conditions, np.empty(0, dtype=np.int64)])] = True
    child, hidden = child[matters[hidden]], hidden[matters[hidden]]
    order = np.argsort(hidden, kind="stable")
    split = _split(hidden[order], child[order])
    holders = {
        node: members.tolist()
        for node, members in zip(np.unique(hidden).tolist(), split, strict=True)
    }
    for nodes in conditions:  # a condition on an unnamed draw holds it, too
        for node in nodes[~is_named[nodes]].tolist():
            holders.setdefault(node, []).extend(nodes[is_named[nodes]].tolist())
    groups = [np.unique(members).astype(np.int64) for members in holders.values()]
    for nodes in conditions:
        held = [holders[node] for node in nodes[~is_named[nodes]].tolist()]
        members = np.concatenate([nodes[is_named[nodes]], *held])
        groups.append(np.unique(members).astype(np.int64))
    return _by_length([group for group in groups if group.size > 1])


def _split(key: Ints, value: Ints) -> list[Ints]:
    """The values of each key; keys are sorted."""
    borders = np.flatnonzero(np.diff(key)) + 1
    return np.split(value, borders) if key.size else []


def _by_length(groups: Sequence[Ints]) -> list[Ints]:
    """Distinct groups, those of one length as one array; none is part of another."""
    kept: list[Ints] = []
    containing: dict[int, list[set[int]]] = {}  # node -> larger groups with it
    for group in sorted(groups, key=len, reverse=True):
        members = set(group.tolist())
        first = next(iter(members))
        if any(members <= larger for larger in containing.get(first, ())):
            continue
        for node in members:
            containing.setdefault(node, []).append(members)
        kept.append(group)
    lengths = sorted({group.size for group in kept})
    return [np.stack([g for g in kept if g.size == size]) for size in lengths]


def warn_of_unused(graph: GraphicalModel, name: str) -> None:
    """A variable that is linked to no other may be a mistake."""
    if len(graph.variables) < 2:
        return
    owner = torch.arange(len(graph.variables)).repeat_interleave(
        torch.tensor([v.num_nodes for v in graph.variables.values()])
    )
    links = owner[torch.cat([graph.edges(), graph.factor_pairs()], 1)]
    linked = torch.zeros(len(graph.variables), dtype=torch.bool)
    linked[links[:, links[0] != links[1]]] = True
    for number, variable in enumerate(graph.variables):
        if not linked[number]:
            logger.warning(
                "Variable %r of %s is linked to no other variable: nothing depends on "
                "it, and it depends on nothing.",
                variable,
                name,
            )
