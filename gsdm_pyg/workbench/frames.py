"""Frames of a sample coming out of noise: estimates by name -> events for a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.workbench.jobs import Job
from gsdm_pyg.workbench.rules import broken_rules
from gsdm_pyg.workbench.subject import Subject
from gsdm_pyg.workbench.values import to_list

INTERVAL = 0.03  # seconds between two frames
MOST_ENTRIES = 20_000  # of one variable in all samples, the most that a frame has


class Frames:
    """Publishes estimates as they come, not faster than an eye follows.

    Args:
        job: Whose events they are.
        subject: What is shown.
        names: The variables to show.
        count: How many samples there are.
        total: How many evaluations there will be at most, if that is known.
    """

    def __init__(
        self,
        job: Job,
        subject: Subject,
        names: Sequence[str],
        count: int,
        total: int | None,
    ) -> None:
        self.evaluations = 0
        self._job = job
        self._subject = subject
        self._names = names
        self._count = count
        self._total = total
        self._start = time.perf_counter()
        self._shown = -INTERVAL
        self._x: Tensor | None = None  # the newest estimate of all samples
        self._certainty: dict[str, Any] = {}
        self._check_estimates = True  # unless that fails, or takes long

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def show(self, rows: Tensor, x: Tensor) -> None:
        """Count an evaluation and perhaps publish it; for `on_estimate`."""
        self._job.check_wanted()
        self._subject.turns.let_others_in()
        self.evaluations += 1
        if self._x is None:
            self._x = torch.zeros(self._count, *x.shape[1:])
        self._x[rows.cpu()] = x.cpu()
        if self.seconds - self._shown >= INTERVAL or self.evaluations == self._total:
            self._shown = self.seconds
            self._read_certainty(self._x)
            self._publish("estimate", self._subject.graph.decode(self._x))

    def finish(self, samples: dict[str, Tensor], certain: bool = False) -> None:
        """Publish the samples, the last event.

        Args:
            samples: An array [count, *shape] per variable.
            certain: Whether the last estimate does not say how certain they are.
        """
        if certain:
            self._certainty.clear()
        self._publish("done", samples)

    def _read_certainty(self, x: Tensor) -> None:
        """The probabilities of the likeliest classes."""
        graph = self._subject.graph
        named, columns = graph.unpack(x), graph.columns()
        for name in self._names:
            if graph.variables[name].domain.num_classes is not None:
                most = named[name][..., columns[name]].amax(-1).clamp(0, 1)
                self._certainty[name] = [to_list(m) for m in most.round(decimals=3)]

    def _publish(self, event: str, samples: dict[str, Tensor]) -> None:
        values = {name: [to_list(v) for v in samples[name]] for name in self._names}
        rules: dict[str, Any] = {}
        if event == "done" or self._check_estimates:
            start = time.perf_counter()
            rules = broken_rules(self._subject, samples)
            slow = time.perf_counter() - start > INTERVAL
            self._check_estimates &= bool(rules) and not slow
        self._job.publish(
            {
                "event": event,
                "evaluations": self.evaluations,
                "total": self._total,
                "seconds": round(self.seconds, 3),
                "values": values,
                "certainty": dict(self._certainty),
                **rules,
            }
        )


def shown_variables(
    graph: GraphicalModel, names: Sequence[str], num_samples: int
) -> list[str]:
    """Those of the variables that are small enough to be sent for every estimate."""
    return [
        name
        for name in names
        if graph.variables[name].num_nodes * num_samples <= MOST_ENTRIES
    ]
