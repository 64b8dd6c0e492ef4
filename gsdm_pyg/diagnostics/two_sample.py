"""Classifier two-sample test (C2ST): can a network distinguish two sets of samples?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg.checks import whole_number
from gsdm_pyg.diagnostics.entries import as_samples, is_discrete

Samples = Mapping[str, Any] | Any  # arrays [S, *shape] by name, or one array


def c2st(
    samples: Samples, reference: Samples, *, seed: int = 1, folds: int = 5
) -> float:
    """The accuracy of a classifier of samples against reference samples.

    0.5 if nothing distinguishes them, 1 if everything does. The same number as
    `sbibm.metrics.c2st(reference, samples)` (Lueckmann et al., 2021): standardized by
    the reference, a perceptron with two hidden layers of 10 units per dimension, mean
    accuracy of cross-validation.

    Integers and booleans are classes, compared by their one-hot codes. Convert counts
    to real numbers first. Of unequal numbers of samples, as many are taken of the
    larger set, at random, as the smaller one has.

    Args:
        samples: An array [S, *shape], or such arrays by name; variables that the
            reference does not have are left out.
        reference: Likewise, from the distribution to compare with.
        seed: Chooses the folds and the classifiers' first weights.
        folds: How many parts cross-validation has.
    """
    classifiers, selection = _sklearn()
    x, y = _columns(samples, reference)
    size = min(len(x), len(y))
    found = whole_number(folds)
    if found is None or not 2 <= found <= size:
        raise ValueError(
            "folds must be a whole number from 2 to the number of samples, here "
            f"{size} (got {folds!r})."
        )
    random = np.random.default_rng(seed)
    x, y = (_subset(values, size, random) for values in (x, y))
    spread = y.std(0)
    scale = torch.where(spread > 0, spread, torch.ones_like(spread))
    center = y.mean(0)
    data = torch.cat([(y - center) / scale, (x - center) / scale]).numpy()
    target = np.repeat([0.0, 1.0], size)
    hidden = 10 * data.shape[1]
    classifier = classifiers.MLPClassifier(
        hidden_layer_sizes=(hidden, hidden),
        activation="relu",
        solver="adam",
        max_iter=10_000,
        random_state=seed,
    )
    parts = selection.KFold(n_splits=found, shuffle=True, random_state=seed)
    scores = selection.cross_val_score(
        classifier, data, target, cv=parts, scoring="accuracy"
    )
    return float(scores.mean())


def _columns(samples: Samples, reference: Samples) -> tuple[Tensor, Tensor]:
    """Both as matrices [S, dim] of one dtype, classes by one-hot codes."""
    if isinstance(samples, Mapping) != isinstance(reference, Mapping):
        raise TypeError(
            "samples and reference must both be arrays, or both hold arrays by name "
            f"(got {type(samples).__name__} and {type(reference).__name__})."
        )
    if not isinstance(samples, Mapping):
        samples, reference = {"values": samples}, {"values": reference}
    first = as_samples("samples", samples)
    second = as_samples("reference", reference)
    missing = [name for name in second if name not in first]
    if missing:
        raise ValueError(
            f"samples must have the variables of the reference, {', '.join(second)} "
            f"(got none of {', '.join(missing)})."
        )
    parts = [_pair(name, first[name], second[name]) for name in second]
    x, y = (torch.cat(columns, 1) for columns in zip(*parts, strict=True))
    dtype = torch.promote_types(x.dtype, y.dtype)
    return x.to(dtype), y.to(dtype)


def _pair(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if x.shape[1:] != y.shape[1:]:
        raise ValueError(
            f"Samples and reference samples of {name!r} must have the same shape after "
            f"the first dimension (got {tuple(x.shape)} and {tuple(y.shape)})."
        )
    x, y = x.reshape(len(x), -1), y.reshape(len(y), -1)
    if is_discrete(x) or is_discrete(y):
        classes = torch.cat([x.reshape(-1), y.reshape(-1)]).unique()
        x, y = ((v[..., None] == classes).flatten(1).float() for v in (x, y))
    for values in (x, y):
        if not values.isfinite().all():
            wrong = values[~values.isfinite()][0].item()
            raise ValueError(f"Samples of {name!r} must be finite (got {wrong}).")
    return x, y


def _subset(values: Tensor, size: int, random: np.random.Generator) -> Tensor:
    """`size` of the rows, at random; all of them, in order, if there are no more."""
    if len(values) == size:
        return values
    return values[torch.from_numpy(random.permutation(len(values))[:size])]


def _sklearn() -> tuple[Any, Any]:
    """The modules of classifiers and of cross-validation."""
    try:
        from sklearn import model_selection, neural_network
    except ModuleNotFoundError as failure:
        raise ModuleNotFoundError(
            "c2st needs scikit-learn: install it by `pip install scikit-learn`.",
            name=failure.name,
        ) from failure
    return neural_network, model_selection
