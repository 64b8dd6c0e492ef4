"""Blocks of code in Markdown pages, and the commands of their shell blocks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests.helpers import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("*/README.md")),
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if "_build" not in page.parts),
]
CELL = "{code-cell} python"  # executed when the site is built
PYTHON, OTHER_LIBRARY, SHELL, CONFIG = "python", "py", "bash", "yaml"
PLAIN = ("", "text", "{eval-rst}", "{toctree}", "{include}")  # nothing to execute
_FENCE = re.compile(r"^(`{3,})(.*?)\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_OURS = (("gsdm",), ("python", "-m", "gsdm_pyg"), ("python", "train.py"))


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str  # PYTHON and so on; a directive without its argument
    code: str
    line: int  # of its first line of code

    @property
    def file(self) -> str | None:
        """The file that the block is, by a comment in its first line."""
        named = re.match(r"# ([\w./-]+\.(?:py|yaml))$", self.code.partition("\n")[0])
        return named[1] if named else None


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        language, code = fence[2].strip(), fence[3]
        if language.startswith("{") and language != CELL:
            language = language.partition("}")[0] + "}"
        code = re.sub(r"\A(:.*\n)+", "", code)  # options of a directive
        found.append(Block(language, code, text[: fence.start(3)].count("\n") + 1))
    return found


def links(page: Path) -> set[Path]:
    """The files that a page links to, without those of the network."""
    targets = _LINK.findall(_FENCE.sub("", page.read_text()))
    return {(page.parent / target).resolve() for target in targets if ":" not in target}


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the shell blocks of a page, and of ours in text."""
    text = page.read_text()
    found = []
    for block in blocks(page):
        if block.language == SHELL:
            for line in block.code.replace("\\\n", " ").splitlines():
                found += [part for part in _split(line) if part]
    for span in _SPAN.findall(_FENCE.sub("", text)):
        words = span.split()
        if any(tuple(words[: len(ours)]) == ours for ours in _OURS):
            found += _split(" ".join(words))
    return found


def shell_commands(page: Path) -> list[tuple[list[str], str | None]]:
    """The commands of the shell blocks of a page, and the file that each writes to."""
    found = []
    for block in blocks(page):
        if block.language == SHELL:
            for line in block.code.replace("\\\n", " ").splitlines():
                out = re.search(r" > (\S+)", line)
                found += [(part, out and out[1]) for part in _split(line) if part]
    return found


def own_arguments(words: list[str]) -> list[str] | None:
    """What follows `gsdm` or the like; None if this is another command."""
    for ours in _OURS:
        if tuple(words[: len(ours)]) == ours:
            train = ["train"] if ours[-1] == "train.py" else []
            return train + words[len(ours) :]
    return None


def _split(line: str) -> list[list[str]]:
    """The words of a line, without comment and redirection, one list per command."""
    parts: list[list[str]] = [[]]
    for word in shlex.split(line, comments=True):
        if word in ("&&", "|"):
            parts.append([])
        elif word == ">":
            break
        else:
            parts[-1].append(word)
    return parts
