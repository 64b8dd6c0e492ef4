"""What the workbench shows: a problem, a model of it, and the run that trains one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import torch

from gsdm_pyg.model import GSDM
from gsdm_pyg.model_folder import CONFIG, WEIGHTS
from gsdm_pyg.panels import check_panels
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.settings import ModelSettings
from gsdm_pyg.workbench.turns import Turns

logger = logging.getLogger("gsdm_pyg")


class Subject:
    """A problem of one size, with a model or a run if there is one.

    Args:
        name: What the user asked to be shown.
        problem: The problem at the size to show.
        model: A model of it, if it is trained.
        settings: How the model is, or will be, made.
        find_run: Finds the run folder to follow, once there is one; nothing is
            followed by default.
        device: Where to load the model that the run exports.
        seed: Chooses the instance that the page begins with.
    """

    def __init__(
        self,
        name: str,
        problem: Problem,
        model: GSDM | None = None,
        settings: ModelSettings = ModelSettings(),
        find_run: Callable[[], Path | None] | None = None,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        self.name = name
        self.seed = seed
        self.problem = problem
        self.settings = model.settings if model is not None else settings
        self.graph = graph_of(problem, self.settings.graph)
        seen = self.settings.graph
        self.names = [
            v.name for v in self.graph.variables.values() if seen.has_values(v.role)
        ]
        panels = check_panels(problem.panels(), graph_of(problem))
        self.panels = [p for p in panels if set(p.variables) <= set(self.names)]
        self.turns = Turns()
        self._find_run = find_run
        self._model = model
        self._device = device
        self._loaded: tuple[Path, int, int] | None = None  # see `_load`
        self._lock = threading.Lock()

    @property
    def has_rules(self) -> bool:
        """Whether the problem says what a solution is."""
        return type(self.problem).violations is not Problem.violations

    @property
    def follows_run(self) -> bool:
        return self._find_run is not None

    @property
    def run(self) -> Path | None:
        """The run folder to follow, if there is one by now."""
        return self._find_run() if self._find_run is not None else None

    @property
    def stamp(self) -> str | None:
        """Which run and which of its models; another one when either has changed."""
        run = self.run
        if run is None:
            return None
        written = _written(run / "model")
        return " ".join(map(str, (run, *written[1:]) if written else (run,)))

    @property
    def shown(self) -> list[str]:
        """The variables of the panels, in the order of the graph."""
        in_panels = {name for panel in self.panels for name in panel.variables}
        return [name for name in self.names if name in in_panels]

    @property
    def model(self) -> GSDM | None:
        """The model, as soon as the run has exported one; always its newest."""
        with self._lock:
            if self.follows_run:
                self._load(self.run)
            return self._model

    def _load(self, run: Path | None) -> None:
        """Load the model of a run, once for each time that its files were written."""
        written = None if run is None else _written(run / "model")
        if written == self._loaded:
            return
        self._loaded, self._model = written, None
        if written is None:
            return
        try:
            model = GSDM.from_pretrained(written[0], map_location=self._device)
            model.check_problem(self.problem)
        except (ValueError, OSError, RuntimeError) as error:
            logger.warning("The model of the run cannot be shown: %s", error)
        else:
            self._model = model


def _written(folder: Path) -> tuple[Path, int, int] | None:
    """A model folder and when its files were written, if it has both of them."""
    try:
        config, weights = ((folder / name).stat() for name in (CONFIG, WEIGHTS))
    except OSError:
        return None
    return folder, config.st_mtime_ns, weights.st_mtime_ns
