"""One page of a calibration: verdict, table and figures in a single HTML file."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from html import escape
from typing import Any

from gsdm_pyg.diagnostics.calibration import Calibration, Check
from gsdm_pyg.diagnostics.calibration_figures import check_figure

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64em; margin: 2em auto;
       padding: 0 1em; color: #222; }
.verdict { font-size: 1.15em; padding: .8em 1em; border-left: .4em solid; }
.pass { border-color: #2a7; background: #eefaf3; }
.fail { border-color: #c33; background: #fdf0f0; }
table { border-collapse: collapse; margin: 1em 0; font-size: .92em; }
th, td { text-align: left; padding: .25em .8em; border-bottom: 1px solid #ddd; }
tr.failed td { background: #fdf0f0; }
img { max-width: 100%; }
small, .notes { color: #555; }
"""

_NOTES = """
<p><b>How to read it.</b> Each instance is drawn from the problem, so its true value is
one more draw from the exact posterior: among the S samples its rank is uniform if they
are right. Of a variable, each instance contributes one unknown entry, chosen at random,
so that instances are independent. Gray bands contain the curve of an exact sampler at
all places at once in 95% of figures: one figure in 20 leaves them by chance. In the
histogram they hold for each bar alone. The verdict corrects for the number of checks
(Holm) and of tests within a check (Bonferroni), and p is the p-value after that.</p>
<p>A &cap; of the ranks means samples that are too wide, a &cup; too narrow, a slope a
bias. <b>in 50%</b> and <b>in 90%</b> is the share of truths in those central
intervals. <b>spread</b> is the samples' standard deviation over the right one.
<b>all (TARP)</b> ranks the distance of all unknown entries jointly to a random
reference point. <b>evidence</b> asks whether what is known predicts where the truth is
among the samples, which it cannot if the samples use it well. <b>mixed</b> patterns
give random entries of any variables.</p>
"""


def calibration_page(result: Calibration, settings: Mapping[str, Any]) -> str:
    """The page as HTML that needs no other file.

    Args:
        result: What the calibration found.
        settings: What it was made with, by name.
    """
    rows = result.table()
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0]) if rows else ""
    body = "".join(_table_row(row) for row in rows)
    order = [*result.failed, *(check for check in result.checks if check.passed)]
    figures = "".join(map(_section, order))
    few = escape(", ".join(result.too_few))
    made_with = escape(", ".join(f"{name}: {v}" for name, v in settings.items()))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Calibration</title>
<style>{_STYLE}</style></head><body>
<h1>Calibration</h1>
<p class="verdict {"pass" if result.passed else "fail"}">{escape(result.verdict)}</p>
<table><tr>{head}</tr>{body}</table>
{f"<p>Too few instances to check: {few}.</p>" if few else ""}
<div class="notes">{_NOTES}</div>
{figures}
<p><small>{made_with}</small></p>
</body></html>
"""


def _table_row(row: Mapping[str, str]) -> str:
    cells = "".join(f"<td>{escape(text)}</td>" for text in row.values())
    kind = "passed" if row["result"] == "pass" else "failed"
    return f'<tr class="{kind}">{cells}</tr>'


def _section(check: Check) -> str:
    """The figure of a check and its p-values."""
    title = f"{check.name} of {check.problem}, pattern {check.pattern}"
    result = "passes" if check.passed else f"fails: {check.reason}"
    values = ", ".join(f"{test} {p:.2g}" for test, p in check.pvalues.items())
    file = io.BytesIO()
    check_figure(check).savefig(file, format="png", dpi=110)
    picture = base64.b64encode(file.getvalue()).decode()
    return (
        f"<h2>{escape(title)}</h2>\n"
        f"<p>It {escape(result)}. p-values by test, uncorrected: {escape(values)}.</p>"
        f'\n<img alt="{escape(title)}" src="data:image/png;base64,{picture}">\n'
    )
