"""The result of a calibration: one check per quantity, a verdict over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gsdm_pyg.diagnostics.holm import holm
from gsdm_pyg.diagnostics.quantity import NUM_RESAMPLES, Quantity

FEWEST = 20  # instances that a check needs
_TELLING = ("bias", "spread", "confidence", "reliability", "evidence")
Key = tuple[str, str]  # problem at its size, pattern


@dataclass(frozen=True)
class Check:
    """One quantity of one problem under one pattern, with its p-values."""

    problem: str
    pattern: str
    quantity: Quantity
    pvalues: dict[str, float]  # by test
    pvalue: float  # of all tests of this quantity together, by Bonferroni
    adjusted: float  # for the number of quantities, by Holm
    passed: bool

    @property
    def name(self) -> str:
        return self.quantity.name

    @property
    def reason(self) -> str:
        """What is wrong, or nothing if the check passed.

        Of the tests that are significant for this quantity, those that say most.
        """
        if self.passed:
            return ""
        smallest = min(self.pvalues.values())
        limit = max(smallest, 0.01 / len(self.pvalues))
        telling = [t for t in _TELLING if self.pvalues.get(t, 1.0) <= limit]
        if "bias" in telling and "spread" in telling:
            telling.remove("spread")  # a bias makes samples look too narrow
        generic = [t for t in ("coverage", "ranks") if self.pvalues.get(t, 1) <= limit]
        return ", ".join(map(self.quantity.describe, telling or generic[:1]))

    def __str__(self) -> str:
        where = f"{self.name} of {self.problem}, pattern {self.pattern}"
        return where if self.passed else f"{where} ({self.reason})"

    def to_dict(self) -> dict[str, Any]:
        """As JSON writes it."""
        return {
            "problem": self.problem,
            "pattern": self.pattern,
            "quantity": self.name,
            "instances": self.quantity.num_instances,
            "passed": self.passed,
            "reason": self.reason,
            "adjusted_pvalue": self.adjusted,
            "pvalue": self.pvalue,
            "pvalues": self.pvalues,
            "coverage": {
                f"{level:.0%}": share
                for level, share in self.quantity.coverage().items()
            },
            "spread": self.quantity.spread(),
        }


@dataclass(frozen=True)
class Calibration:
    """What a calibration found; `print` it for the verdict and a table."""

    checks: list[Check]
    too_few: list[str]  # quantities with fewer than `FEWEST` instances, not checked
    alpha: float

    @property
    def failed(self) -> list[Check]:
        """The checks that an exact sampler would not fail, the clearest first."""
        failed = [check for check in self.checks if not check.passed]
        return sorted(failed, key=lambda check: check.pvalue)

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.checks:
            return "Nothing could be checked: no quantity was unknown often enough."
        num, failed = len(self.checks), self.failed
        share = f"{self.alpha:.2g}"
        instances = max(check.quantity.num_instances for check in self.checks)
        if not failed:
            return (
                f"Calibrated as far as {instances} instances can tell: {num} of {num} "
                f"checks pass at a family-wise level of {share}."
            )
        fail = "fails" if len(failed) == 1 else "fail"
        worst = "; ".join(map(str, failed[:3]))
        more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
        return (
            f"Not calibrated: {len(failed)} of {num} checks {fail} at a family-wise "
            f"level of {share}: {worst}{more}."
        )

    def table(self) -> list[dict[str, str]]:
        """One row of texts per check, those that fail first."""
        order = sorted(self.checks, key=lambda check: check.passed)
        return [_row(check) for check in order]

    def to_dict(self) -> dict[str, Any]:
        """As JSON writes it."""
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "alpha": self.alpha,
            "checks": [check.to_dict() for check in self.checks],
            "too_few": self.too_few,
        }

    def __str__(self) -> str:
        rows = self.table()
        lines = [self.verdict]
        if rows:
            texts = [list(rows[0]), *(list(row.values()) for row in rows)]
            widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
            lines.append("")
            for row in texts:
                cells = zip(row, widths, strict=True)
                lines.append("  ".join(t.ljust(w) for t, w in cells).rstrip())
        if self.too_few:
            lines += ["", f"Too few instances to check: {', '.join(self.too_few)}."]
        return "\n".join(lines)


def judge(
    quantities: Mapping[Key, Sequence[Quantity]],
    alpha: float = 0.05,
    num_resamples: int = NUM_RESAMPLES,
) -> Calibration:
    """Test all quantities, so that an exact sampler passes with probability 1 - alpha.

    Args:
        quantities: Those of each problem and pattern.
        alpha: The probability that an exact sampler fails any check.
        num_resamples: See `Quantity.pvalues`; raised if there are many quantities.
    """
    all_of_them = [(key, q) for key, group in quantities.items() for q in group]
    found = [(key, q) for key, q in all_of_them if q.num_instances >= FEWEST]
    # Twice as many as are needed for one failure among all these to be significant.
    num_resamples = max(num_resamples, int(4 * 5 * len(found) / alpha))
    pvalues = [quantity.pvalues(num_resamples) for _, quantity in found]
    smallest = [min(1.0, len(p) * min(p.values())) for p in pvalues]
    checks = [
        Check(*key, quantity, tests, pvalue, adjusted, adjusted > alpha)
        for (key, quantity), tests, pvalue, adjusted in zip(
            found, pvalues, smallest, holm(smallest), strict=True
        )
    ]
    too_few = [
        f"{q.name} of {key[0]}, pattern {key[1]} ({q.num_instances})"
        for key, q in all_of_them
        if q.num_instances < FEWEST
    ]
    return Calibration(checks, too_few, alpha)


def _row(check: Check) -> dict[str, str]:
    spread = check.quantity.spread()
    coverage = check.quantity.coverage()
    return {
        "problem": check.problem,
        "pattern": check.pattern,
        "quantity": check.name,
        "instances": str(check.quantity.num_instances),
        **{f"in {level:.0%}": f"{share:.1%}" for level, share in coverage.items()},
        "spread": "" if spread is None else f"{spread:.2f}",
        "p": f"{check.adjusted:.2g}",
        "result": "pass" if check.passed else f"FAIL: {check.reason}",
    }
