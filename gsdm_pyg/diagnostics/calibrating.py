"""`calibrate`: draw instances and samples of a model, and test what was drawn.

Instances are drawn from the problem itself, so the truth is one more exact posterior
sample: simulation-based calibration compares it with the model's samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from tqdm import tqdm

from gsdm_pyg.checks import check_choice, whole_number
from gsdm_pyg.choices import Observe
from gsdm_pyg.diagnostics.calibration import Calibration, Key, judge
from gsdm_pyg.diagnostics.chunks import ChunkFolder, fingerprint
from gsdm_pyg.diagnostics.drawing import Chunk, Function, Sampler, Setting
from gsdm_pyg.diagnostics.quantity import Quantity
from gsdm_pyg.diagnostics.tarp import JOINT
from gsdm_pyg.evaluation import label
from gsdm_pyg.model import GSDM
from gsdm_pyg.problem import Problem, check_problem_argument
from gsdm_pyg.settings import GraphOptions

NUM_INSTANCES, NUM_SAMPLES = 600, 30  # find a spread that is 15% too narrow
CHUNK_NODES = 50_000  # nodes of all samples of one chunk of instances


def calibrate(
    model: Sampler,
    problems: Problem | Sequence[Problem],
    *,
    num_instances: int = NUM_INSTANCES,
    num_samples: int = NUM_SAMPLES,
    patterns: Sequence[Observe] | None = None,
    functions: Mapping[str, Function] | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    folder: str | Path | None = None,
    name: str | None = None,
    **sampler: Any,
) -> Calibration:
    """Test whether samples come from the posterior, for every variable and pattern.

    An exact sampler passes with probability 1 - alpha, whatever the number of checks.
    Ctrl-C between chunks of instances loses nothing if there is a folder.

    Args:
        model: A model, or anything with such a `sample`.
        problems: One problem, or several: of other sizes, such as ones that training
            never saw.
        num_instances: Instances of each problem and pattern.
        num_samples: Posterior samples of each instance.
        patterns: What is known: "roles", "mixed" or both, see `Problem.observe`. By
            default what the model was trained for: both if it was on "mixed".
        functions: Further quantities by name: each gets arrays [S, *shape] by name and
            returns [S] numbers.
        alpha: The probability that an exact sampler fails any check.
        seed: Chooses instances, patterns and samples.
        folder: Keeps finished chunks; a run that was interrupted goes on from them.
        name: Required with a folder if the model is not a `GSDM`: what the folder
            knows the sampler by, such as "gibbs, 500 steps".
        sampler: Such as `steps=50`, as for `GSDM.sample`.
    """
    counts = {"num_instances": num_instances, "num_samples": num_samples}
    for key, count in counts.items():
        found = whole_number(count)
        if found is None or found < 2:
            raise ValueError(f"{key} is a whole number of at least 2 (got {count!r}).")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is a number between 0 and 1 (got {alpha!r}).")
    settings = _settings(
        model, problems, patterns, dict(functions or {}), num_samples, seed
    )
    kept = None
    if folder is not None:
        described = {
            "model": fingerprint(model, name),
            "problems": list(dict.fromkeys(label(s.problem) for s in settings)),
            "patterns": list(dict.fromkeys(s.pattern for s in settings)),
            "functions": sorted(functions or {}),
            **counts,
            "seed": seed,
            "sampler": _sampler_text(model, sampler),
        }
        kept = ChunkFolder(Path(folder), described)
    chosen: Sampler = _WithSettings(model, sampler) if sampler else model
    drawn: dict[Key, list[Quantity]] = {}
    with _progress_bar(num_instances * len(settings)) as bar:
        for number, setting in enumerate(settings):
            chunks = []
            for index, num in enumerate(_chunk_sizes(setting, num_instances)):
                chunk = kept.read(number, index) if kept else None
                if chunk is None:
                    chunk = setting.draw(chosen, num, index)
                    if kept:
                        kept.write(number, index, chunk)
                chunks.append(chunk)
                bar.update(num)
            where = (label(setting.problem), setting.pattern)
            drawn[where] = list(_quantities(setting, chunks))
    return judge(drawn, alpha)


def default_patterns(model: Sampler) -> tuple[Observe, ...]:
    """What a model was trained for: roles, and mixed patterns if it saw such."""
    mixed = isinstance(model, GSDM) and model.settings.observe == "mixed"
    return ("roles", "mixed") if mixed else ("roles",)


def _settings(
    model: Sampler,
    problems: Problem | Sequence[Problem],
    patterns: Sequence[Observe] | None,
    functions: dict[str, Function],
    num_samples: int,
    seed: int,
) -> list[Setting]:
    """Every problem under every pattern, checked."""
    several = [problems] if isinstance(problems, Problem) else list(problems)
    if not several:
        raise ValueError("calibrate needs at least one problem (got none).")
    options = model.settings.graph if isinstance(model, GSDM) else GraphOptions()
    chosen = default_patterns(model) if patterns is None else tuple(patterns)
    if isinstance(patterns, str) or not chosen:
        raise ValueError(
            f"patterns is a sequence of {' and '.join(get_args(Observe))} "
            f"(got {patterns!r})."
        )
    for pattern in chosen:
        check_choice("pattern", pattern, Observe)
    settings: list[Setting] = []
    for problem in dict.fromkeys(map(check_problem_argument, several)):
        if isinstance(model, GSDM):
            model.check_problem(problem)
        for pattern in dict.fromkeys(chosen):
            key = (seed, len(settings))
            setting = Setting(problem, pattern, options, num_samples, functions, key)
            settings.append(setting)
            for name in functions:
                if name in setting.variables or name == JOINT:
                    raise ValueError(
                        f"A function needs a name that no variable has (got {name!r})."
                    )
    return settings


def _chunk_sizes(setting: Setting, num_instances: int) -> list[int]:
    """The instances of each chunk; they depend on nothing of the machine."""
    size = CHUNK_NODES // (setting.graph.num_nodes * setting.num_samples)
    size = min(max(size, 1), num_instances)
    full, rest = divmod(num_instances, size)
    return [size] * full + [rest] * (rest > 0)


def _quantities(setting: Setting, chunks: Sequence[Chunk]) -> Iterator[Quantity]:
    """The quantities of all chunks, of instances where they were unknown."""
    for number, name in enumerate(chunks[0]):
        draws = torch.cat([chunk[name][0] for chunk in chunks])
        features = torch.cat([chunk[name][1] for chunk in chunks])
        counts = ~draws.isnan().any(1)
        if counts.any():
            yield Quantity(
                name,
                draws[counts],
                features[counts],
                setting.num_classes(name),
                key=(*setting.key, number),
            )


class _WithSettings:
    """A model with some settings of its sampler chosen."""

    def __init__(self, model: Sampler, settings: Mapping[str, Any]) -> None:
        self._model, self._settings = model, dict(settings)

    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        *,
        generator: torch.Generator | int | None = None,
    ) -> dict[str, torch.Tensor]:
        return self._model.sample(
            problem, given, num_samples, generator=generator, **self._settings
        )


def _sampler_text(model: Sampler, changes: Mapping[str, Any]) -> str:
    if isinstance(model, GSDM):
        return str(model.sampler.updated(changes))
    return ", ".join(f"{name}={value}" for name, value in sorted(changes.items()))


def _progress_bar(num_instances: int) -> tqdm:
    return tqdm(
        total=num_instances,
        desc="calibrating",
        unit="instance",
        delay=1,
        leave=False,
        disable=None,  # unless stderr is a terminal
    )
