"""The problems of the paper, each in one file that a user could have written."""

from problems.bcmf import BCMF

__all__ = ["BCMF"]
