"""Commands on a tiny model, and the one line that a wrong one ends in."""

from pathlib import Path

import pytest

from gsdm_pyg.cli import main
from problems import BCMF

PROBLEM = BCMF(m=2, n=3, k=2)
SIZES = ["m=2", "n=3", "k=2"]


def run(command: str, model: Path, *arguments: object, sizes=SIZES) -> None:
    main([command, str(model), *sizes, "--steps", "3", *map(str, arguments)])


def refusal(*arguments: object) -> str:
    """The one line that a command ends in."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    message = caught.value.code
    assert isinstance(message, str)
    assert message.startswith("error: ")
    assert len(message.splitlines()) == 1
    return message
