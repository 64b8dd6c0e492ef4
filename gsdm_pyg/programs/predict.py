"""Run a program with some of its variables given: data anew from posterior samples."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gsdm_pyg.programs.draw import Values, draw

logger = logging.getLogger("gsdm_pyg")

ROUNDS = 100  # draws per given sample, after which a condition of factor() is left


def draw_given(
    program: Callable[[], object], given: Values, vectorized: bool
) -> Values:
    """The variables that follow given ones: an array [S, *shape] per variable.

    Where a condition of `factor` is false, what is not given is drawn again. Draws
    without a name are always new.

    Args:
        program: The program at one size.
        given: S samples of some variables, [S, *shape].
        vectorized: Whether to run the program once for all of them.
    """
    num = len(next(iter(given.values())))
    values, accepted = draw(program, num, vectorized, given=given)
    if accepted is None:
        return values
    rows = (~accepted).nonzero()[:, 0]  # whose conditions do not hold yet
    for _ in range(ROUNDS):
        if not len(rows):
            break
        own = {name: value[rows] for name, value in given.items()}
        drawn, accepted = draw(program, len(rows), vectorized, given=own)
        values = {n: v.index_copy(0, rows, drawn[n]) for n, v in values.items()}
        assert accepted is not None  # as before
        rows = rows[~accepted]
    if len(rows):
        logger.warning(
            "No draw satisfied the conditions of factor() for %s of %s samples: these "
            "samples themselves may contradict them. Their last draws are kept.",
            len(rows),
            num,
        )
    return values
