"""A folder that keeps finished chunks, so that an interrupted run goes on from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from gsdm_pyg.diagnostics.drawing import Chunk, Sampler
from gsdm_pyg.files import atomic_writer, check_new_folder, write_file
from gsdm_pyg.model import GSDM

SETTINGS = "settings.json"  # what the chunks of a folder belong to


def fingerprint(model: Sampler, name: str | None) -> str:
    """Distinguishes models by their weights and settings; other samplers by a name."""
    if not isinstance(model, GSDM):
        if not name:
            raise ValueError(
                f"A folder cannot distinguish one {type(model).__name__} from another: "
                f"pass name=, a different one for each sampler (got name={name!r})."
            )
        return f"{type(model).__name__} {name}"
    digest = hashlib.sha256()
    digest.update(model.spec.model_dump_json().encode())
    digest.update(model.settings.model_dump_json().encode())
    for key, tensor in sorted(model.diffusion.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    found = f"{model.spec.name or 'GSDM'} {digest.hexdigest()[:16]}"
    return f"{found} {name}" if name else found


class ChunkFolder:
    """Chunks on disk by setting and number.

    Args:
        folder: A new or empty folder, or that of the same calibration.
        described: What the chunks depend on, as JSON writes it.
    """

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self._chunks = folder / "chunks"
        settings = folder / SETTINGS
        if not settings.is_file():
            check_new_folder(folder, "The calibration folder", "choose another one")
            write_file(settings, json.dumps(dict(described), indent=2).encode())
            return
        try:
            before = json.loads(settings.read_text())
            before = {name: before.get(name) for name in described}
        except (ValueError, AttributeError) as error:
            raise ValueError(
                f"{settings} is damaged: choose another folder (got {error})."
            ) from error
        for name, value in described.items():
            if before[name] != value:
                raise ValueError(
                    f"The folder {str(folder)!r} has a calibration with another "
                    f"{name!r}, {before[name]!r}: go on with that, or choose another "
                    f"folder (got {value!r})."
                )

    def read(self, setting: int, index: int) -> Chunk | None:
        """A finished chunk, None if it is missing or damaged."""
        try:
            with np.load(self._path(setting, index), allow_pickle=False) as arrays:
                names = json.loads(str(arrays["names"]))
                return {
                    name: (
                        torch.from_numpy(arrays[f"draws{i}"]),
                        torch.from_numpy(arrays[f"features{i}"]),
                    )
                    for i, name in enumerate(names)
                }
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def write(self, setting: int, index: int, chunk: Chunk) -> None:
        """Keep a chunk, whole or not at all."""
        arrays: dict[str, Any] = {"names": np.array(json.dumps(list(chunk)))}
        for i, (draws, features) in enumerate(chunk.values()):
            arrays[f"draws{i}"] = draws.numpy()
            arrays[f"features{i}"] = features.numpy()
        with atomic_writer(self._path(setting, index)) as file:
            np.savez_compressed(file, **arrays)

    def _path(self, setting: int, index: int) -> Path:
        return self._chunks / f"{setting:03d}-{index:05d}.npz"
