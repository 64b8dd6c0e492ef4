"""Command line: train a config, evaluate a model folder, sample from it."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args
from zipfile import BadZipFile

import lightning as L
import numpy as np
import torch
import yaml
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from gsdm_pyg.config import Config, ConfigError, dump_config, load_config
from gsdm_pyg.data import keyed_generator
from gsdm_pyg.diffusion.sampling import Solver
from gsdm_pyg.evaluation import Evaluation, evaluate, label, prior_metrics
from gsdm_pyg.model import GSDM
from gsdm_pyg.plotting import mask_figure
from gsdm_pyg.problem import Problem, graph_of, resolve_problem
from gsdm_pyg.training import Training, TrainingDiverged, save_pictures, train
from gsdm_pyg.view import GraphView

_REFUSALS = (TrainingDiverged, MisconfigurationException)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `python -m gsdm_pyg`; what the user got wrong ends in one line."""
    parser = _parser()
    # argparse wants all positional arguments together; here options may come between.
    options, rest = parser.parse_known_args(arguments)
    if any(text.startswith("-") for text in rest):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.settings += rest
    try:
        options.run(options)
    except (ValueError, FileNotFoundError, *_REFUSALS) as error:
        sys.exit(f"error: {error}")


def run_training(options: argparse.Namespace) -> None:
    """Train a config into a run folder: config, logs, checkpoints, pictures, model."""
    config = load_config(options.config, options.settings)
    source = config.problem.source()
    problems = [config.problem.source(s).largest() for s in config.evaluation.problems]
    L.seed_everything(config.seed, verbose=False)
    model = GSDM.from_problem(
        source, observe=config.data.observe, **config.model.model_dump()
    )
    for problem in problems:
        model.check_problem(problem)
    if options.dry_run:
        _describe(config, model, source.largest())
        return
    config.trainer.check_end()
    training = Training(
        model,
        source,
        config.data,
        config.optimizer,
        config.evaluation,
        problems,
        seed=config.seed,
    )
    run_dir = _run_dir(options, config)
    resume = run_dir / "checkpoints" / "last.ckpt" if options.resume else None
    trainer = train(training, config.trainer, run_dir, resume)
    if trainer.is_global_zero:
        model.to(trainer.strategy.root_device)  # Lightning leaves it on the CPU
        minutes = training.timer.time_elapsed() / 60
        steps = f"{trainer.global_step:,} steps, {minutes:.1f} minutes"
        _finish(model, config, problems, run_dir, steps)


def run_evaluation(options: argparse.Namespace) -> None:
    """Print the metrics of a model folder on fresh instances, beside the prior's."""
    model = GSDM.from_pretrained(options.model, map_location=options.device)
    problem = _problem(model, options)
    result = evaluate(
        model,
        problem,
        options.instances,
        options.steps,
        options.solver,
        options.seed,
        restarts=options.restarts,
    )
    prior = prior_metrics(problem, options.instances, options.seed, model.observe)
    print(f"{label(problem)}, {options.instances} instances, seed {options.seed}")
    for name, value in result.metrics.items():
        print(f"{name}: {value:.4f} (answers from the prior: {prior[name]:.4f})")
    if options.out is not None:
        _write(options.out, json.dumps(_strict(result.metrics), indent=2).encode())
    if options.pictures is not None:
        save_pictures(problem, result, 4, options.pictures, f"seed{options.seed}")


def run_sampling(options: argparse.Namespace) -> None:
    """Write samples by name: [num_samples, *shape] arrays in .npz or .json."""
    model = GSDM.from_pretrained(options.model, map_location=options.device)
    problem = _problem(model, options)
    if options.out.suffix not in (".npz", ".json"):
        raise ValueError(f"--out ends in .npz or .json (got {str(options.out)!r}).")
    samples = model.sample(
        problem,
        given=_read_arrays(options.given) if options.given else None,
        num_samples=options.num_samples,
        steps=options.steps,
        solver=options.solver,
        restarts=options.restarts,
        generator=keyed_generator("sample", options.seed),
    )
    _write_arrays(options.out, {name: v.numpy() for name, v in samples.items()})
    shapes = ", ".join(f"{name} {list(v.shape)}" for name, v in samples.items())
    print(f"{options.out}: {shapes}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gsdm_pyg", description=__doc__)
    commands = parser.add_subparsers(required=True)

    training = commands.add_parser("train", help=run_training.__doc__)
    training.add_argument(
        "config", help="a YAML file such as configs/bcmf_varsize.yaml"
    )
    training.add_argument("settings", nargs="*", help="such as model.layers=6")
    training.add_argument("--run-dir", type=Path, help="default: runs/<config>[-N]")
    training.add_argument(
        "--resume",
        action="store_true",
        help="go on from the last checkpoint of --run-dir, or of the newest run",
    )
    training.add_argument(
        "--dry-run", action="store_true", help="print what would be trained, and stop"
    )
    training.set_defaults(run=run_training)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("model", help="a model folder")
    shared.add_argument(
        "settings", nargs="*", help="sizes such as m=8; else the largest of training"
    )
    shared.add_argument("--problem", help="path/to/file.py:ClassName, if not built in")
    shared.add_argument("--steps", type=int, default=50, help="from noise to a sample")
    shared.add_argument("--solver", choices=get_args(Solver), default="ddpm")
    shared.add_argument(
        "--restarts",
        type=int,
        default=0,
        help="how many times to go back by two fifths of the steps and down again, "
        "which mends what does not fit together",
    )
    shared.add_argument("--seed", type=int, default=0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shared.add_argument("--device", default=device, help="default: %(default)s")

    evaluation = commands.add_parser(
        "evaluate", parents=[shared], help=run_evaluation.__doc__
    )
    evaluation.add_argument("--instances", type=int, default=64)
    evaluation.add_argument("--out", type=Path, help="write the metrics as JSON")
    evaluation.add_argument("--pictures", type=Path, help="draw answers into a folder")
    evaluation.set_defaults(run=run_evaluation)

    sampling = commands.add_parser(
        "sample", parents=[shared], help=run_sampling.__doc__
    )
    sampling.add_argument(
        "--given",
        type=Path,
        help=".npz or .json with arrays by name; NaN or null where unknown",
    )
    sampling.add_argument("--num-samples", type=int, default=1)
    sampling.add_argument("--out", type=Path, default=Path("samples.npz"))
    sampling.set_defaults(run=run_sampling)
    return parser


def _describe(config: Config, model: GSDM, largest: Problem) -> None:
    parameters = sum(p.numel() for p in model.parameters())
    print(dump_config(config))
    print(f"largest problem: {label(largest)}")
    print(graph_of(largest, model.view).summary(model.view.edges))
    print(f"{parameters:,} parameters")


def _run_dir(options: argparse.Namespace, config: Config) -> Path:
    """The folder of a new run, or of the one to resume, with the config in it."""
    stem = Path("runs") / Path(options.config).stem
    numbered = [stem, *(Path(f"{stem}-{i}") for i in range(2, 10_000))]
    if options.resume:
        existing = [d for d in numbered if d.exists()]
        run_dir = options.run_dir or (existing[-1] if existing else stem)
        _check_resumable(run_dir, config)
        print(f"resuming: {run_dir}")
        return run_dir
    run_dir = options.run_dir or next(d for d in numbered if not d.exists())
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        if run_dir.exists() and any(run_dir.iterdir()):
            raise ValueError(
                "The run folder is not empty: choose another --run-dir, or pass "
                f"--resume to go on with it (got {str(run_dir)!r})."
            )
        run_dir.mkdir(parents=True, exist_ok=True)
        _write(run_dir / "config.yaml", dump_config(config).encode())
        print(f"run folder: {run_dir}")
    return run_dir


def _check_resumable(run_dir: Path, config: Config) -> None:
    if not (run_dir / "checkpoints" / "last.ckpt").is_file():
        raise FileNotFoundError(
            "There is no checkpoint to resume from: start the run without --resume "
            f"(got {str(run_dir)!r})."
        )
    # How the run was evaluated does not matter: that may be what stopped it.
    before = load_config(run_dir / "config.yaml", ["evaluation={}"])
    for section in ("problem", "model", "data", "optimizer", "seed"):
        if getattr(before, section) != getattr(config, section):
            raise ConfigError(
                f"The run in {run_dir} has other settings in {section!r}: resume with "
                f"those, or start a new run (got {getattr(config, section)!r}, "
                f"there {getattr(before, section)!r})."
            )


def _finish(
    model: GSDM, config: Config, problems: list[Problem], run_dir: Path, steps: str
) -> None:
    """Judge the averaged weights, export the model folder and draw pictures."""
    settings = config.evaluation
    results = {}
    for problem in problems:
        result = evaluate(
            model,
            problem,
            settings.final_instances,
            settings.steps,
            settings.solver,
            seed=config.seed,
            restarts=settings.restarts,
        )
        results[problem] = result
        figures = ", ".join(f"{n} {v:.4f}" for n, v in result.metrics.items())
        print(f"{label(problem)}: {figures}")
    rows = {label(problem): result.metrics for problem, result in results.items()}
    _write(
        run_dir / "metrics.json",
        json.dumps({n: _strict(r) for n, r in rows.items()}, indent=2).encode(),
    )
    restarts = f" with restarts={settings.restarts}" if settings.restarts else ""
    details = "\n".join(
        [
            f"Trained for {steps} with seed {config.seed}.",
            "",
            f"Means over {settings.final_instances} fresh instances, averaged weights, "
            f"{settings.steps} steps of {settings.solver}{restarts}, seed "
            f"{config.seed}:",
            "",
            *(f"- {name}: {json.dumps(_strict(row))}" for name, row in rows.items()),
            "",
            "```yaml",
            dump_config(config).strip(),
            "```",
        ]
    )
    model.save_pretrained(run_dir / "model", model_card_kwargs={"details": details})
    print(f"model folder: {run_dir / 'model'}")
    if settings.pictures:
        _draw(results, settings.pictures, run_dir / "pictures", model.view)


def _draw(
    results: dict[Problem, Evaluation], count: int, folder: Path, view: GraphView
) -> None:
    """Pictures of the first answers, and the attention mask of a small problem."""
    for problem, result in results.items():
        save_pictures(problem, result, count, folder, "final")
    graphs = [graph_of(problem, view) for problem in results]
    small = [graph for graph in graphs if graph.num_nodes <= 2000]
    if small:
        mask_figure(small[0], view.edges).savefig(folder / "mask.png")


def _problem(model: GSDM, options: argparse.Namespace) -> Problem:
    name = options.problem or model.problem
    if name is None:
        raise ValueError("This model does not name its problem: pass --problem.")
    trained = {} if options.problem else model.sizes or {}
    sizes = {n: s[-1] if isinstance(s, list) else s for n, s in trained.items()}
    for text in options.settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"A size reads name=value (got {text!r}).")
        try:
            sizes[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError(f"A size reads name=value (got {text!r}).") from None
        if isinstance(sizes[key], list):
            raise ValueError(f"Here a size is one number (got {text!r}).")
    try:
        return resolve_problem(name).family(**sizes).largest()
    except TypeError as error:
        raise ValueError(
            f"Give every size of {name}, such as m=8 n=8 k=4 (got {error})."
        ) from error


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(f"The file of given arrays is missing (got {path}).")
    if path.suffix not in (".npz", ".json"):
        raise ValueError(f"--given ends in .npz or .json (got {str(path)!r}).")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        named = json.loads(path.read_text())
        return {name: np.array(v, dtype=float) for name, v in named.items()}
    except (ValueError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} holds no arrays by name (got {error}).") from error


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    if path.suffix == ".json":
        named = {name: array.tolist() for name, array in arrays.items()}
        _write(path, json.dumps(named).encode())
        return
    partial = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    np.savez_compressed(partial, **arrays)
    os.replace(partial, path)


def _strict(metrics: dict[str, float]) -> dict[str, float | None]:
    """Metrics as JSON knows them: null instead of NaN."""
    return {name: None if math.isnan(v) else v for name, v in metrics.items()}


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    os.replace(partial, path)
