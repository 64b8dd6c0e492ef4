"""Settings that all methods on programs share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from gsdm_pyg.baselines.baseline import Baseline
from gsdm_pyg.baselines.density import Softness, check_program
from gsdm_pyg.problem import Problem


class ProgramBaseline(Baseline):
    """A method that runs the program of a problem, see `Problem.program`."""

    chains: PositiveInt = 4
    """Chains of each instance, no more than its samples."""
    noise: PositiveFloat = 0.01
    """Standard deviation of a given real number that others determine, such as BCMF's
    E around A R."""
    certainty: Annotated[float, Field(gt=0.5, lt=1)] = 0.9999
    """Probability that a condition of `factor` holds, and that a given class which
    others determine is the right one."""

    @property
    def softness(self) -> Softness:
        return Softness(self.noise, self.certainty)

    def check(self, problem: Problem) -> None:
        """Raise a ValueError unless the problem has a program with a density."""
        if type(problem).program is Problem.program:
            raise ValueError(
                f"{self.name} runs the program of a problem: define program(self) in "
                f"{type(problem).__name__}, with the statements sample, let, observe "
                "and factor (got none)."
            )
        check_program(problem)
