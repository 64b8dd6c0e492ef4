"""Model folders: config.json, model.safetensors and a card; nothing is unpickled.

Format version 2 has the sections `problem`, `model` and `sampler`. Version 1 had the
arguments of a model side by side, and no sampler.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from gsdm_pyg.files import write_file, write_folder
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import ModelSettings, SamplerSettings

FORMAT_VERSION = 2
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

_CARD = """---
library_name: gsdm_pyg
---

# Graphically structured diffusion model

Load with `GSDM.from_pretrained` of `gsdm_pyg` and draw with `.sample`.

{details}
"""

# What a folder means where it says nothing: the defaults when it was written.
_OLDER = {
    "method": "diffusion",
    "embedding": "exchangeable",
    "edges": "structured",
    "edge_kinds": "ignored",
    "intermediates": "keep",
    "schedule": "cosine",
    "continuous_loss": "x0",
    "scales": "linear",
    "discrete_scale": 1.0,
    "self_conditioning": False,
    "observe": "roles",
}
# Choices that were dropped, and the nearest that there are.
_NEAREST = {"solver": ("unipc", "dpm++"), "spacing": ("karras", "logsnr")}
_OLDER_SAMPLER = {"steps": 50, "solver": "ddpm", "spacing": "time"}


def save_model_folder(
    folder: Path,
    spec: ProblemSpec,
    settings: ModelSettings,
    sampler: SamplerSettings,
    weights: dict[str, Tensor],
    details: str = "",
) -> None:
    """Write a model folder; a failure leaves an older one as it was."""
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise ValueError(
                "Weights that are not finite are not saved: train again with a lower "
                f"learning rate (got {name})."
            )
    tensors = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
    contents = {
        CONFIG: _config_file(spec, settings, sampler),
        WEIGHTS: save(tensors, metadata={"format": "pt"}),
        CARD: _CARD.format(details=details).encode(),
    }
    write_folder(folder, contents)


def store_sampler(folder: Path, sampler: SamplerSettings) -> None:
    """Make a sampler the default of a model folder; its weights stay as they are."""
    spec, settings, _ = load_config(folder)
    write_file(folder / CONFIG, _config_file(spec, settings, sampler))


def find(
    folder: str | Path, revision: str | None = None, token: str | None = None
) -> Path:
    """A model folder on this machine, downloaded if it is the id of a Hub model."""
    path = Path(folder)
    if path.exists():
        return path
    missing = FileNotFoundError(
        "There is no model folder of that name here, nor a model on the Hub that could "
        f"be downloaded (got {str(folder)!r})."
    )
    if len(path.parts) != 2 or path.is_absolute() or path.parent.is_dir():
        raise missing  # not the id of a Hub model
    from huggingface_hub import snapshot_download

    try:
        names = [CONFIG, WEIGHTS, CARD]
        return Path(
            snapshot_download(
                str(folder), revision=revision, token=token, allow_patterns=names
            )
        )
    except (OSError, ValueError) as error:
        raise missing from error


def push(folder: Path, repo_id: str, private: bool | None = None) -> str:
    """Upload a model folder to the Hugging Face Hub; returns its address."""
    from huggingface_hub import HfApi

    hub = HfApi()
    hub.create_repo(repo_id, private=private, exist_ok=True)
    return str(hub.upload_folder(repo_id=repo_id, folder_path=folder))


def load_config(
    folder: Path,
) -> tuple[ProblemSpec, ModelSettings, SamplerSettings]:
    """Problem, model and sampler of a model folder of any version."""
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"A model folder holds {CONFIG} and {WEIGHTS}; {name} is missing: "
                f"export the model again (got {str(folder)!r})."
            )
    try:
        config = json.loads((folder / CONFIG).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{folder / CONFIG} is not valid JSON: export the model again "
            f"(got {error})."
        ) from error
    sections = _sections(folder / CONFIG, config)
    try:
        return (
            ProblemSpec.parse(sections["problem"]),
            ModelSettings.parse(sections["model"]),
            SamplerSettings.parse(sections["sampler"]),
        )
    except (ValueError, TypeError) as error:
        raise damaged(folder, error) from error


def load_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a model folder by name."""
    try:
        weights = load_file(folder / WEIGHTS, device="cpu")
    except SafetensorError as error:
        raise damaged(folder, error) from error
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise damaged(folder, ValueError(f"{name} is not finite"))
    return weights


def damaged(folder: Path, error: Exception) -> ValueError:
    """What to raise where the contents of a folder do not fit together."""
    return ValueError(
        "The model folder is damaged or of another version: copy or export it again "
        f"(got {str(folder)!r}: {' '.join(str(error).split())[:200]})."
    )


def _config_file(
    spec: ProblemSpec, settings: ModelSettings, sampler: SamplerSettings
) -> bytes:
    """The contents of config.json."""
    config = {
        "format_version": FORMAT_VERSION,
        "problem": spec.model_dump(mode="json"),
        "model": settings.model_dump(mode="json"),
        "sampler": sampler.model_dump(mode="json"),
    }
    return json.dumps(config, indent=2).encode() + b"\n"


def _sections(file: Path, config: Any) -> dict[str, Any]:
    """The sections of a config, from whichever version wrote it."""
    version = config.get("format_version", 1) if isinstance(config, dict) else 1
    if version not in range(1, FORMAT_VERSION + 1):
        raise ValueError(
            f"{file} was written by a newer gsdm_pyg: upgrade, or export the model "
            f"with this one (got format_version {version!r}, known: 1 to "
            f"{FORMAT_VERSION})."
        )
    needed = {"variables", "loc", "scale"} if version == 1 else {"problem", "model"}
    missing = needed - set(config) if isinstance(config, dict) else needed
    if missing:
        raise ValueError(
            f"{file} is not the config of a GSDM model "
            f"(got no {', '.join(sorted(missing))})."
        )
    sections = _from_version_1(file, config) if version == 1 else config
    model = sections["model"]
    if isinstance(model, dict):
        model = {**_OLDER, **model}
    sampler = sections.get("sampler", {})
    if isinstance(sampler, dict):
        sampler = {**_OLDER_SAMPLER, **sampler}
        for setting, (former, nearest) in _NEAREST.items():
            if sampler[setting] == former:
                sampler[setting] = nearest
    return {**sections, "model": model, "sampler": sampler}


def _from_version_1(file: Path, config: dict[str, Any]) -> dict[str, Any]:
    """A flat config as sections; `backend` described a machine and is dropped."""
    try:
        columns = zip(config["variables"], config["loc"], config["scale"], strict=True)
        variables = [{**v, "loc": loc, "scale": scale} for v, loc, scale in columns]
    except (TypeError, ValueError) as error:
        raise damaged(file.parent, error) from error
    problem = {
        "variables": variables,
        "name": config.get("problem"),
        "sizes": config.get("sizes"),
        "shapes": config.get("shapes"),
    }
    known = {key: config[key] for key in ModelSettings.model_fields if key in config}
    return {"problem": problem, "model": known}
