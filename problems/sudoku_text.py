"""Sudokus as text: a line of N^2 characters, or a grid of N lines of N characters."""

import numpy as np

SYMBOLS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BLANK = ".0_*"
FRAME = "|+-= \t"  # between blocks, and between cells


def read_puzzles(text: str, n: int) -> np.ndarray:
    """The puzzles of a text, [B, N, N] of digits 0..N-1, NaN where a cell is blank.

    Puzzles are lines of N^2 characters, or grids of N lines, one after another. Blank
    cells are dots, zeros, underscores or asterisks; lines and spaces that frame blocks
    are skipped, and so are empty lines and what follows a #.

    Args:
        text: The text.
        n: N, the number of digits.
    """
    if n > len(SYMBOLS):
        raise ValueError(f"Texts have up to {len(SYMBOLS)} digits (got {n}).")
    digits = {symbol: float(k) for k, symbol in enumerate(SYMBOLS[:n])}
    values = digits | dict.fromkeys(BLANK, np.nan)
    cells: list[float] = []
    for number, line in enumerate(text.splitlines(), 1):
        row = [c for c in line.partition("#")[0].upper() if c not in FRAME]
        wrong = [c for c in row if c not in values]
        if wrong:
            raise ValueError(
                f"A puzzle has digits {SYMBOLS[0]} to {SYMBOLS[n - 1]} and dots for "
                f"blank cells (got {wrong[0]!r} in line {number})."
            )
        if len(row) not in (0, n, n * n):
            raise ValueError(
                f"A line of a puzzle has {n} cells, or all {n * n} "
                f"(got {len(row)} in line {number})."
            )
        if len(row) == n * n and len(cells) % (n * n):
            raise ValueError(
                f"A grid has {n} lines (got {len(cells) % (n * n) // n} before line "
                f"{number})."
            )
        cells += [values[c] for c in row]
    if not cells or len(cells) % (n * n):
        raise ValueError(
            f"A grid has {n} lines (got {len(cells) % (n * n) // n} at the end)."
        )
    return np.array(cells).reshape(-1, n, n)


def write_grid(cells: np.ndarray) -> str:
    """A complete grid [N, N] as N lines of N characters."""
    return "\n".join(" ".join(SYMBOLS[digit] for digit in row) for row in cells)
