"""C2ST on five tasks of the benchmark sbibm (Lueckmann et al., 2021), beside NPE.

    python -m benchmarks.sbibm [--task two_moons] [--minutes 15] [--out results.json]

GSDM and sbi's NPE with its defaults train on the same 30,000 simulations, one after the
other, and draw 10,000 samples given each of ten observations. sbibm's classifier learns
to distinguish them from 10,000 samples of the exact posterior; its accuracy is C2ST,
0.5 at best. The table has the mean over observations and its standard error. Times are
of the processor, over all threads, so that other work on the machine adds nothing.

An interrupted run with `--out` goes on where it stopped. Name another file once the
code has changed, since only the options of a result are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from benchmarks.sbibm_methods import (
    Sample,
    Training,
    gsdm_sampler,
    load,
    read_settings,
    save,
    split,
    train_gsdm,
    train_npe,
)
from benchmarks.sbibm_tasks import TASKS, Task, c2st, load_task
from gsdm_pyg.files import write_file
from gsdm_pyg.settings import SamplerSettings, TrainingSettings
from gsdm_pyg.training.memory import keep_freed_memory

Row = dict[str, Any]
HEADER = """\
| task | method | C2ST | training, core-min | steps | core-s per 10,000 | evaluations |
| --- | --- | ---: | ---: | ---: | ---: | ---: |"""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    keep_freed_memory()  # as the train command does
    done: list[Row] = []
    if options.out is not None and options.out.exists():
        done = json.loads(options.out.read_bytes())
    shown = []
    for name in options.task or TASKS:
        task = None
        for method in options.methods:
            key = {"task": name, "method": method, "options": used(options, method)}
            row = next((r for r in done if key.items() <= r.items()), None)
            if row is None:
                task = task or load_task(name, options.observations)
                row = {**key, **measure(task, method, options)}
                done.append(row)
                if options.out is not None:
                    write_file(options.out, json.dumps(done, indent=1).encode())
            shown.append(row)
            print(f"\n{table(shown)}", flush=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Options, checked before any work, and what `add_choices` makes of them."""
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sbibm",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--task", action="append", choices=TASKS, help="repeatable; default: all")
    add("--minutes", type=float, default=15.0, help="core-minutes of our training")
    add("--simulations", type=int, default=30_000)
    add("--observations", type=int, default=10)
    add("--samples", type=int, default=10_000, help="per observation")
    add("--seed", type=int, default=0)
    add("--steps", type=int, help="of our sampler; default: the model's own")
    add("--solver", help="of our sampler; default: the model's own")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of our model, its training or its sampler; repeatable",
    )
    add("--out", type=Path, help="a JSON file of results, to which those of a run add")
    add("--save", type=Path, metavar="FOLDER", help="keep our models, one per task")
    add("--load", type=Path, metavar="FOLDER", help="sample these instead of training")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--no-npe", action="store_true")
    which.add_argument("--npe-only", action="store_true")
    options = parser.parse_args(arguments)
    try:
        add_choices(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def add_choices(options: argparse.Namespace) -> None:
    """Add `methods`, `settings` of our model and training, and `sampler`."""
    options.methods = ["GSDM"] * (not options.npe_only) + ["NPE"] * (not options.no_npe)
    settings = read_settings(options.set)
    chosen = {"steps": options.steps, "solver": options.solver}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    for name in SamplerSettings.model_fields.keys() & settings.keys():
        chosen[name] = settings.pop(name)
    sampler = SamplerSettings().updated(chosen)
    options.sampler = sampler.model_dump(include=set(chosen))
    options.settings = settings
    _, of_fit = split(settings)
    if TrainingSettings.from_keywords(of_fit).trainer.max_time is not None:
        raise ValueError("--minutes sets max_time: leave it out (got it in --set).")
    ours = {"--set": settings, "--save": options.save}
    given = [name for name, value in ours.items() if value]
    if options.load and given:
        raise ValueError(f"--load trains nothing: leave out {given[0]} (got both).")
    if options.npe_only and (given or options.load):
        raise ValueError(
            "--npe-only trains and samples none of our models: leave out "
            f"{(given or ['--load'])[0]} (got both)."
        )


def used(options: argparse.Namespace, method: str) -> Row:
    """The options that a method's result depends on."""
    names = ["simulations", "observations", "samples", "seed"]
    if method == "GSDM":
        names += ["minutes", "settings", "sampler"]
    row = {name: getattr(options, name) for name in names}
    row["threads"] = torch.get_num_threads()
    if method == "GSDM" and options.load is not None:
        row["load"] = str(options.load)
    return row


def measure(task: Task, method: str, options: argparse.Namespace) -> Row:
    """Train, sample and score one method on one task."""
    sample, training, evaluations = trained(task, method, options)
    start = time.process_time()
    samples = torch.stack([sample(x, options.samples) for x in task.observations])
    seconds = time.process_time() - start
    return {
        "c2st": c2st(task.references[:, : options.samples], samples),
        "minutes": training.minutes,
        "steps": training.steps,
        "seconds": 10_000 * seconds / samples[..., 0].numel(),
        "evaluations": evaluations,
    }


def trained(
    task: Task, method: str, options: argparse.Namespace
) -> tuple[Sample, Training, int]:
    """How to sample, what training took, and evaluations of the network per sample."""
    simulations = task.simulations(options.simulations, options.seed)
    if method == "NPE":
        return *train_npe(task, simulations, options.seed), 1
    if options.load is not None:
        model, training = load(options.load / task.name)
    else:
        model, training = train_gsdm(
            task, simulations, options.minutes, options.settings, options.seed
        )
    if options.save is not None:
        save(model, training, options.save / task.name)
    evaluations = model.sampler.updated(options.sampler).evaluations
    sample = gsdm_sampler(model, task, options.sampler, options.seed)
    return sample, training, evaluations


def table(rows: Sequence[Row]) -> str:
    """Results as Markdown."""
    lines = [HEADER]
    for row in rows:
        cells = [
            row["task"],
            row["method"],
            with_error(row["c2st"]),
            f"{row['minutes']:.1f}",
            f"{row['steps']:,}",
            f"{row['seconds']:.1f}",
            str(row["evaluations"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_error(values: Sequence[float]) -> str:
    """The mean and its standard error; of one value the mean alone."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{mean(values):.3f} ± {stdev(values) / math.sqrt(len(values)):.3f}"


if __name__ == "__main__":
    main()
