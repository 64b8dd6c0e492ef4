"""Arrays by name in files: .npz, or .json with null where a value is unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from torch import Tensor

from gsdm_pyg.files import atomic_writer

SUFFIXES = (".npz", ".json")


def read_arrays(path: Path, name: str) -> dict[str, np.ndarray]:
    """The arrays of a file that an argument `name` of the command line names."""
    if not path.is_file():
        raise FileNotFoundError(f"The file of given arrays is missing (got {path}).")
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{name} ends in .npz or .json (got {str(path)!r}).")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        named = json.loads(path.read_text())
        return {name: np.array(v, dtype=float) for name, v in named.items()}
    except (ValueError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} holds no arrays by name (got {error}).") from error


def write_arrays(path: Path, arrays: Mapping[str, Tensor]) -> None:
    """Write arrays by name, whole or not at all."""
    with atomic_writer(path) as file:
        if path.suffix == ".npz":
            values = {name: array.numpy() for name, array in arrays.items()}
            np.savez_compressed(file, **values)  # type: ignore[arg-type]
        else:
            named = {name: array.tolist() for name, array in arrays.items()}
            file.write(json.dumps(named).encode())
