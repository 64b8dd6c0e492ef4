"""`sample`: a model folder and given arrays -> arrays of samples."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gsdm_pyg.cli.arguments import (
    add_model_arguments,
    add_overwrite_argument,
    check_out,
    load_model,
    sampler_arguments,
)
from gsdm_pyg.files import atomic_writer
from gsdm_pyg.posterior import SamplingInterrupted

_SUFFIXES = (".npz", ".json")


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
    check_out(options, *_SUFFIXES)
    given = _read_arrays(options.given) if options.given else None
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
    _write_arrays(options.out, {name: v.numpy() for name, v in samples.items()})
    shapes = ", ".join(f"{name} {list(v.shape)}" for name, v in samples.items())
    print(f"{options.out}: {shapes}")
    if interrupted:
        raise KeyboardInterrupt


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(f"The file of given arrays is missing (got {path}).")
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"--given ends in .npz or .json (got {str(path)!r}).")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        named = json.loads(path.read_text())
        return {name: np.array(v, dtype=float) for name, v in named.items()}
    except (ValueError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} holds no arrays by name (got {error}).") from error


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with atomic_writer(path) as file:
        if path.suffix == ".npz":
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        else:
            named = {name: array.tolist() for name, array in arrays.items()}
            file.write(json.dumps(named).encode())
