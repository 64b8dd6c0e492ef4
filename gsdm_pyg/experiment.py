"""An experiment: a config -> a run folder with logs, checkpoints, metrics and model."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import lightning as L

from gsdm_pyg.clock import clock_of
from gsdm_pyg.config import Config
from gsdm_pyg.evaluation import Evaluation, as_json, label
from gsdm_pyg.files import atomic_writer, write_file
from gsdm_pyg.model import GSDM
from gsdm_pyg.plotting import mask_figure
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.training import Training, train
from gsdm_pyg.training.run import removed_if_never_started

_DRAWABLE = 2000  # nodes, the most in the picture of an attention mask


class Experiment:
    """The model and the training run that a config describes.

    Args:
        config: The config; its seed becomes the global one.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        source = config.problem.source()
        L.seed_everything(config.seed, verbose=False)
        self.model = GSDM.from_problem(source, **config.model.model_dump())
        self.training = Training(self.model.diffusion, source, config)
        self.model.sampler = self.training.sampler
        self.steps, self.minutes = 0, 0.0  # of training
        self.evaluations: list[Evaluation] = []  # of the trained model
        self.sampling_seconds = 0.0  # of these evaluations

    def describe(self) -> str:
        """The resolved config, the graph of the largest problem, the parameters."""
        largest, options = self.config.problem.source().largest(), self.config.model
        parameters = sum(p.numel() for p in self.model.parameters())
        return "\n".join(
            [
                self.config.dump(),
                f"largest problem: {label(largest)}",
                graph_of(largest, options.graph).summary(options.edges),
                f"{parameters:,} parameters",
            ]
        )

    def run(self, run_dir: Path, resume: bool = False) -> signal.Signals | None:
        """Train, export and evaluate into a folder, see `run_folder`.

        The model is exported before the evaluation, and its figures are added as they
        come: interrupting the evaluation leaves what is done.

        Returns:
            The signal that stopped training, if one did; nothing is exported then.
        """
        with removed_if_never_started(None if resume else run_dir, self.training):
            trainer = train(self.training, run_dir, resume)
        stopped = self.training.interruption.signal
        if stopped is not None or not trainer.is_global_zero:
            return stopped
        self.model.to(trainer.strategy.root_device)  # Lightning leaves it on the CPU
        self.steps = trainer.global_step
        self.minutes = self.training.timer.time_elapsed() / 60
        effort = f"{self.steps:,} steps, {self.minutes:.1f} minutes"
        rows: dict[str, dict[str, Any]] = {}
        self._export(run_dir, effort, rows)
        print(f"model folder: {run_dir / 'model'}")
        try:
            for problem in self.training.problems:
                result = self._evaluate(problem)
                self.evaluations.append(result)
                rows[label(problem)] = as_json(result.metrics)
                self._export(run_dir, effort, rows)
                count = self.config.evaluation.pictures
                result.save_pictures(count, run_dir / "pictures", "final")
        except KeyboardInterrupt:
            done, all_ = len(rows), len(self.training.problems)
            print(
                f"evaluated {done} of {all_} problems; for the others: "
                f"gsdm evaluate {run_dir / 'model'}"
            )
            raise
        self._draw_mask(run_dir / "pictures")
        return None

    def _evaluate(self, problem: Problem) -> Evaluation:
        """Evaluate the averaged weights."""
        count, seed = self.config.evaluation.final_instances, self.config.seed
        clock = clock_of(next(self.model.parameters()).device)
        start = clock()
        result = self.model.evaluate(problem, count, seed=seed)
        self.sampling_seconds += clock() - start
        figures = ", ".join(f"{n} {v:.4f}" for n, v in result.metrics.items())
        print(f"{label(problem)}: {figures}")
        return result

    def _export(
        self, run_dir: Path, effort: str, rows: dict[str, dict[str, Any]]
    ) -> None:
        """Write the model folder, and the figures so far to its card and a file."""
        self.model.save_pretrained(run_dir / "model", self._details(effort, rows))
        write_file(run_dir / "metrics.json", json.dumps(rows, indent=2).encode())

    def _details(self, effort: str, rows: dict[str, dict[str, Any]]) -> str:
        """The text of the model's card."""
        count, seed = self.config.evaluation.final_instances, self.config.seed
        figures = [
            f"Means over {count} fresh instances, averaged weights, "
            f"{self.model.sampler}, seed {seed}:",
            "",
            *(f"- {name}: {json.dumps(row)}" for name, row in rows.items()),
            "",
        ]
        return "\n".join(
            [
                f"Trained for {effort} with seed {seed}.",
                "",
                *(figures if rows else ()),
                "```yaml",
                self.config.dump().strip(),
                "```",
            ]
        )

    def _draw_mask(self, folder: Path) -> None:
        """A picture of the attention mask of the first small problem."""
        options = self.config.model
        graphs = [graph_of(p, options.graph) for p in self.training.problems]
        small = [graph for graph in graphs if graph.num_nodes <= _DRAWABLE]
        if small and self.config.evaluation.pictures:
            with atomic_writer(folder / "mask.png") as file:
                mask_figure(small[0], options.edges).savefig(file)
