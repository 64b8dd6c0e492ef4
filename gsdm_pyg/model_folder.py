"""Model folders: config.json, model.safetensors and a card; nothing is unpickled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
from huggingface_hub.constants import SAFETENSORS_SINGLE_FILE
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

CARD = """---
{{ card_data }}
---

# Graphically structured diffusion model

Load with `GSDM.from_pretrained` of `gsdm_pyg` and draw with `.sample`.

{{ details | default("", true) }}
"""


class ModelFolder(nn.Module, PyTorchModelHubMixin):
    """Saving to and loading from a folder or the Hugging Face Hub."""

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, folder: str | Path, **arguments: Any
    ) -> Self:
        """Load a model folder (`config.json` and `model.safetensors`) or a Hub id."""
        path = Path(folder)
        if path.exists():
            _check_folder(path)
        elif len(path.parts) != 2 or path.parent.is_dir():  # not the id of a Hub model
            raise FileNotFoundError(
                f"There is no model folder of that name (got {str(folder)!r})."
            )
        try:
            return super().from_pretrained(str(folder), **arguments).eval()
        except (
            SafetensorError,
            RuntimeError,
            TypeError,
            LookupError,
            ValueError,
            ArithmeticError,
        ) as error:
            raise ValueError(
                f"The model folder is damaged or of another version: copy or export it "
                f"again (got {str(folder)!r}: {' '.join(str(error).split())[:200]})."
            ) from error
        except OSError as error:
            raise FileNotFoundError(
                "There is no model folder of that name here, nor could it be had from "
                f"the Hub (got {str(folder)!r})."
            ) from error

    def save_pretrained(  # type: ignore[override]
        self,
        save_directory: str | Path,
        *,
        config: dict[str, Any] | None = None,
        model_card_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Write a model folder: config.json, model.safetensors and a card.

        Each file is replaced whole, so that an interruption leaves no half-written
        one.

        Args:
            save_directory: The folder, made if need be.
            config: Other contents for config.json than the model's own arguments.
            model_card_kwargs: `{"details": text}` puts a text into the card.
        """
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as partial:
            super().save_pretrained(
                partial, config=config, model_card_kwargs=model_card_kwargs
            )
            files = sorted(Path(partial).iterdir())
            old = {f: f.read_bytes() for f in folder.iterdir() if f.is_file()}
            try:
                for file in files:
                    os.replace(file, folder / file.name)
            except OSError:
                for file, content in old.items():
                    file.write_bytes(content)
                raise

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        map_location: str = "cpu",
        strict: bool = True,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        token: str | bool | None = None,
        **settings: Any,
    ) -> Self:
        """Load safetensors only: a pickle is never opened."""
        file = str(Path(model_id) / SAFETENSORS_SINGLE_FILE)
        if not Path(model_id).is_dir():
            file = hf_hub_download(
                model_id,
                SAFETENSORS_SINGLE_FILE,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
            )
        model = cls(**settings)
        model.load_state_dict(load_file(file, device=map_location), strict=strict)
        return model.to(map_location)


def _check_folder(path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        if not (path / name).is_file():
            raise FileNotFoundError(
                f"A model folder holds config.json and model.safetensors; {name} is "
                f"missing: export the model again (got {str(path)!r})."
            )
    try:
        config = json.loads((path / "config.json").read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path / 'config.json'} is not valid JSON: export the model again "
            f"(got {error})."
        ) from error
    needed = {"variables", "loc", "scale"}
    missing = needed - set(config) if isinstance(config, dict) else needed
    if missing:
        raise ValueError(
            f"{path / 'config.json'} is not the config of a GSDM model "
            f"(got no {', '.join(sorted(missing))})."
        )
