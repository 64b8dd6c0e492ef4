"""One quantity under all tests that fit it: draws -> p-values and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gsdm_pyg.diagnostics.exchange import (
    dependence_pvalue,
    standard_scores,
    sum_pvalue,
)
from gsdm_pyg.diagnostics.ranks import (
    coverage_pvalue,
    expected_coverage,
    ranks,
    ranks_pvalue,
    uniform_from_ranks,
)
from gsdm_pyg.diagnostics.reliability import (
    confidence_pvalue,
    confidence_scores,
    reliability_pvalue,
)
from gsdm_pyg.diagnostics.tarp import JOINT
from gsdm_pyg.seeding import keyed_generator

LEVELS = (0.5, 0.9)  # of the central intervals in tables
NUM_RESAMPLES = 9_999  # the smallest two-sided p-value is then 0.0002


@dataclass(frozen=True)
class Quantity:
    """The truth and S samples of one number per instance, of N instances.

    Args:
        name: What the number is.
        draws: [N, S + 1], the truth first.
        features: Functions of what is known of each instance, [N, F].
        num_classes: K of a discrete quantity, None of a continuous one.
        key: Of the random streams that decide ties and picks.
    """

    name: str
    draws: Tensor
    features: Tensor
    num_classes: int | None = None
    key: tuple[int, ...] = ()

    @property
    def num_instances(self) -> int:
        return len(self.draws)

    @property
    def num_samples(self) -> int:
        return self.draws.size(1) - 1

    @cached_property
    def ranks(self) -> Tensor:
        """The rank of each truth among its samples, ties at random, [N]."""
        return ranks(self.draws, keyed_generator("calibrate ties", *self.key))

    @cached_property
    def u(self) -> Tensor:
        """The ranks as numbers in [0, 1), uniform if the sampler is exact, [N]."""
        generator = keyed_generator("calibrate fractions", *self.key)
        return uniform_from_ranks(self.ranks, self.num_samples, generator)

    def pvalues(self, num_resamples: int = NUM_RESAMPLES) -> dict[str, float]:
        """A p-value per test; each is exact or conservative for an exact sampler.

        - ranks: their ECDF, by simultaneous bands
        - coverage: central intervals at all levels, by simultaneous bands
        - bias, spread: the truth's distance and squared distance from the mean
        - reliability, confidence: class probabilities, of discrete quantities
        - evidence: whether what is known predicts where the truth is among the samples

        Args:
            num_resamples: How many random picks make the distribution of a statistic;
                no p-value of those tests is below 2 / (1 + num_resamples).
        """
        generator = keyed_generator("calibrate picks", *self.key)
        picks = (num_resamples, generator)
        scores = standard_scores(self.draws)
        found = {"ranks": ranks_pvalue(self.ranks, self.num_samples)}
        if self.num_classes is None:
            found["coverage"] = coverage_pvalue(self.u)
            found["bias"] = sum_pvalue(scores, *picks)
            found["spread"] = sum_pvalue(scores.square(), *picks)
        else:
            discrete = (self.draws, self.num_classes)
            found["reliability"] = reliability_pvalue(*discrete, *picks)
            found["confidence"] = confidence_pvalue(*discrete, *picks)
        found["evidence"] = dependence_pvalue(scores, self.features, *picks)
        return found

    def coverage(self) -> dict[float, float]:
        """The share of truths in the central intervals of `LEVELS`."""
        found = expected_coverage(self.u, torch.tensor(LEVELS, dtype=torch.double))
        return dict(zip(LEVELS, found.tolist(), strict=True))

    def spread(self) -> float | None:
        """The samples' standard deviation over the right one, if that has a meaning.

        The square of (truth - mean) / std of S Gaussian samples has the mean
        (S + 1) (S - 1) / (S (S - 3)) if their spread is right.
        """
        num = self.num_samples
        samples = self.draws[:, 1:]
        variance = samples.var(1)
        if self.num_classes is not None or self.name == JOINT or num < 4:
            return None
        if not (variance > 0).all():
            return None
        squared = (self.draws[:, 0] - samples.mean(1)).square() / variance
        right = (num + 1) * (num - 1) / (num * (num - 3))
        return float((right / squared.mean()).sqrt())

    def describe(self, test: str) -> str:
        """What a failed test says is wrong, in a few words."""
        if self.name == JOINT and test != "evidence":
            return "regions with wrong coverage"
        scores = standard_scores(self.draws)[:, 0]
        if test == "bias":
            return "samples too low" if scores.sum() > 0 else "samples too high"
        if test == "spread":
            narrow = scores.square().mean() > 1
            ratio = self.spread()
            right = "" if ratio is None else f", {ratio:.2f} of the right spread"
            return f"samples too {'narrow' if narrow else 'wide'}{right}"
        if test == "confidence":
            assert self.num_classes is not None
            support = confidence_scores(self.draws, self.num_classes)[:, 0].sum()
            return "overconfident" if support < 0 else "underconfident"
        return {
            "ranks": "ranks not uniform",
            "coverage": "intervals with wrong coverage",
            "reliability": "probabilities off",
            "evidence": "evidence ignored or misused",
        }[test]
