"""`sample`: a model folder and given arrays -> arrays of samples."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gsdm_pyg.cli.arguments import (
    add_model_arguments,
    add_overwrite_argument,
    check_out,
    load_model,
    sampler_arguments,
)
from gsdm_pyg.cli.array_files import SUFFIXES, read_arrays, write_arrays
from gsdm_pyg.posterior import SamplingInterrupted


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("sample", help=run.__doc__)
    add_model_arguments(parser)
    parser.add_argument(
        "--given",
        type=Path,
        help=".npz or .json with arrays by name; NaN or null where unknown",
    )
    parser.add_argument("--num-samples", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("samples.npz"))
    add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write samples by name: [num_samples, *shape] arrays in .npz or .json."""
    check_out(options, *SUFFIXES)
    given = read_arrays(options.given, "--given") if options.given else None
    model, problem = load_model(options)
    interrupted = False
    try:
        samples = model.sample(
            problem,
            given=given,
            num_samples=options.num_samples,
            generator=options.seed,
            **sampler_arguments(options),
        )
    except SamplingInterrupted as partial:
        samples, interrupted = partial.samples, True
    write_arrays(options.out, samples)
    shapes = ", ".join(f"{name} {list(v.shape)}" for name, v in samples.items())
    print(f"{options.out}: {shapes}")
    if interrupted:
        raise KeyboardInterrupt
