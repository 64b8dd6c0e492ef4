"""Draws of a program that are repeated often are recorded as a list of operators.

A run of a program under vmap costs some 10 microseconds per function of torch. The
recorded operators, constants computed beforehand, draw the same numbers without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from gsdm_pyg.private_api import arguments_by_name
from gsdm_pyg.programs.vectorized import without_remarks

Drawn = tuple[dict[str, Tensor], Tensor | None]  # values, and which are accepted

OFTEN = 200  # recording takes as long as about so many draws


class RecordedDraws:
    """Draws by a function, and by its recording where that has become worthwhile.

    Args:
        draw: Draws `num` instances from torch's global generator.
    """

    def __init__(self, draw: Callable[[int], Drawn]) -> None:
        self.draw = draw
        self._counts: Counter[int] = Counter()
        self._recorded: dict[int, Callable[[], Drawn] | None] = {}

    def __call__(self, num: int) -> Drawn:
        recorded = self._recorded.get(num)
        if recorded is not None:
            return recorded()
        self._counts[num] += 1
        if self._counts[num] == OFTEN:
            self._recorded[num] = record(lambda: self.draw(num))
        return self.draw(num)


def record(draw: Callable[[], Drawn]) -> Callable[[], Drawn] | None:
    """A function that draws the same numbers faster; None if there is none."""
    names: list[str] = []

    def flat(_: Tensor) -> list[Tensor]:
        values, accepted = draw()
        names[:] = values
        return [*values.values(), *([] if accepted is None else [accepted])]

    nothing, state = torch.empty(0), torch.random.get_rng_state()
    try:
        recording = make_fx(flat)(nothing)
        _fold_constants(recording)
        _drop_copies(recording)
        torch.random.set_rng_state(state)
        expected, after = flat(nothing), torch.random.get_rng_state()
        torch.random.set_rng_state(state)
        found = recording(nothing)
        same = torch.equal(after, torch.random.get_rng_state())
    except RuntimeError:  # make_fx cannot record everything that vmap can run
        return None
    finally:
        torch.random.set_rng_state(state)
    if not same or not all(map(_equal, expected, found)):
        return None

    def run() -> Drawn:
        with torch.no_grad(), without_remarks():
            drawn = recording(nothing)
        values = dict(zip(names, drawn, strict=False))
        return values, drawn[len(names)] if len(drawn) > len(names) else None

    return run


def _equal(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def _fold_constants(recording: GraphModule) -> None:
    """Compute beforehand what no draw changes."""
    known: dict[Node, Tensor] = {}
    for node in recording.graph.nodes:
        if node.op == "get_attr":
            known[node] = getattr(recording, node.target)
        elif any(changed in known for changed in _changed(node)):
            raise RuntimeError("A constant that is changed in place is none.")
        elif node.op == "call_function" and _is_constant(node, known):
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), known.get)
            result = node.target(*arguments[0], **arguments[1])
            if not isinstance(result, Tensor):
                continue
            name = f"_folded_{node.name}"
            recording.register_buffer(name, result)
            with recording.graph.inserting_before(node):
                constant = recording.graph.get_attr(name)
            node.replace_all_uses_with(constant)
            known[node] = known[constant] = result
    for node in reversed(recording.graph.nodes):
        if node in known and not node.users:
            recording.graph.erase_node(node)
    recording.recompile()


def _drop_copies(recording: GraphModule) -> None:
    """Leave out copies of tensors if nothing is changed in place."""
    nodes = list(recording.graph.nodes)
    if any(_changed(node) for node in nodes):
        return
    for node in nodes:
        if node.target is torch.ops.aten.clone.default and not node.kwargs:
            node.replace_all_uses_with(node.args[0])
            recording.graph.erase_node(node)
    recording.recompile()


def _changed(node: Node) -> list[Node]:
    """What an operator changes in place."""
    if not hasattr(node.target, "overloadpacket"):
        return []
    arguments = arguments_by_name(node.target, node.args, node.kwargs)
    values = [arguments.by_name[name] for name in (*arguments.changed, *arguments.out)]
    return [value for value in values if isinstance(value, Node)]


def _is_constant(node: Node, known: dict[Node, Tensor]) -> bool:
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags or torch.Tag.inplace in tags:
        return False
    return all(source in known for source in node.all_input_nodes)
