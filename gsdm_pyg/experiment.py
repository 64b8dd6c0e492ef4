"""An experiment: a config -> a run folder with logs, checkpoints, metrics and model."""

from __future__ import annotations

import json
from pathlib import Path

import lightning as L
from lightning.pytorch.utilities import rank_zero_only

from gsdm_pyg.config import Config, load_config
from gsdm_pyg.evaluation import Evaluation, as_json, label
from gsdm_pyg.files import atomic_writer, write_file
from gsdm_pyg.model import GSDM
from gsdm_pyg.plotting import mask_figure
from gsdm_pyg.problem import graph_of
from gsdm_pyg.settings_base import SettingsError
from gsdm_pyg.training import Training, train
from gsdm_pyg.training.run import CHECKPOINT

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

    def run(self, run_dir: Path, resume: bool = False) -> None:
        """Train, evaluate and export into a folder from `new_run` or `resumed_run`."""
        trainer = train(self.training, run_dir, resume)
        if not trainer.is_global_zero:
            return
        self.model.to(trainer.strategy.root_device)  # Lightning leaves it on the CPU
        minutes = self.training.timer.time_elapsed() / 60
        results = self._evaluate()
        rows = {label(result.problem): as_json(result.metrics) for result in results}
        write_file(run_dir / "metrics.json", json.dumps(rows, indent=2).encode())
        effort = f"{trainer.global_step:,} steps, {minutes:.1f} minutes"
        details = self._details(effort, rows)
        self.model.save_pretrained(run_dir / "model", details)
        print(f"model folder: {run_dir / 'model'}")
        self._draw(results, run_dir / "pictures")

    def _evaluate(self) -> list[Evaluation]:
        """Evaluate the averaged weights."""
        results = []
        for problem in self.training.problems:
            count, seed = self.config.evaluation.final_instances, self.config.seed
            result = self.model.evaluate(problem, count, seed=seed)
            figures = ", ".join(f"{n} {v:.4f}" for n, v in result.metrics.items())
            print(f"{label(problem)}: {figures}")
            results.append(result)
        return results

    def _details(self, effort: str, rows: dict[str, dict]) -> str:
        """The text of the model's card."""
        evaluation, seed = self.config.evaluation, self.config.seed
        restarts = evaluation.restarts and f" with restarts={evaluation.restarts}"
        return "\n".join(
            [
                f"Trained for {effort} with seed {seed}.",
                "",
                f"Means over {evaluation.final_instances} fresh instances, averaged "
                f"weights, {evaluation.steps} steps of {evaluation.solver}"
                f"{restarts or ''}, seed {seed}:",
                "",
                *(f"- {name}: {json.dumps(row)}" for name, row in rows.items()),
                "",
                "```yaml",
                self.config.dump().strip(),
                "```",
            ]
        )

    def _draw(self, results: list[Evaluation], folder: Path) -> None:
        """Pictures of the first answers, and the attention mask of a small problem."""
        count, options = self.config.evaluation.pictures, self.config.model
        if not count:
            return
        for result in results:
            result.save_pictures(count, folder, "final")
        graphs = [graph_of(result.problem, options.graph) for result in results]
        small = [graph for graph in graphs if graph.num_nodes <= _DRAWABLE]
        if small:
            with atomic_writer(folder / "mask.png") as file:
                mask_figure(small[0], options.edges).savefig(file)


def new_run(config: Config, name: str, run_dir: Path | None = None) -> Path:
    """A new run folder with the config in it, by default the next of runs/<name>."""
    run_dir = run_dir or next(d for d in _numbered(name) if not d.exists())
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        if run_dir.exists() and any(run_dir.iterdir()):
            raise ValueError(
                "The run folder is not empty: choose another --run-dir, or pass "
                f"--resume to go on with it (got {str(run_dir)!r})."
            )
        write_file(run_dir / "config.yaml", config.dump().encode())
        print(f"run folder: {run_dir}")
    return run_dir


def resumed_run(config: Config, name: str, run_dir: Path | None = None) -> Path:
    """The folder of a run to go on with, by default the newest of runs/<name>."""
    if run_dir is None:
        numbered = _numbered(name)
        existing = [d for d in numbered if d.exists()]
        run_dir = existing[-1] if existing else numbered[0]
    if not (run_dir / CHECKPOINT).is_file():
        raise FileNotFoundError(
            "There is no checkpoint to resume from: start the run without --resume "
            f"(got {str(run_dir)!r})."
        )
    # How the run was evaluated does not matter: that may be what stopped it.
    before = load_config(run_dir / "config.yaml", ["evaluation={}"])
    for section in ("problem", "model", "data", "optimizer", "seed"):
        if getattr(before, section) != getattr(config, section):
            raise SettingsError(
                f"The run in {run_dir} has other settings in {section!r}: resume with "
                f"those, or start a new run (got {getattr(config, section)!r}, "
                f"there {getattr(before, section)!r})."
            )
    print(f"resuming: {run_dir}")
    return run_dir


def _numbered(name: str) -> list[Path]:
    """runs/<name>, runs/<name>-2 and so on."""
    stem = Path("runs") / name
    return [stem, *(Path(f"{stem}-{i}") for i in range(2, 10_000))]
