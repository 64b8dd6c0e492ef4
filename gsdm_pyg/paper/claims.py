"""Claims of the paper: whether they hold in the records of a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import Claim
from gsdm_pyg.paper.statistics import Interval, mean_interval

Answer = Literal["holds", "does not hold", "open", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """What the records say about a claim.

    `advantage` is how much nearer to its best value the metric of the row is, a mean
    over panels and points; `places` are the points at which the claim holds by itself,
    and all of them.
    """

    claim: Claim
    answer: Answer
    advantage: Interval | None = None
    places: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        """One sentence."""
        if self.advantage is None:
            return f"{self.claim.says} Not measured here."
        words = {
            "holds": "It holds here",
            "does not hold": "It does not hold here",
            "open": "Open here, as the interval leaves both possible",
        }[self.answer]
        than, gain = self.claim.than, self.advantage
        than = f"{than:g}" if isinstance(than, float) else than
        better = "better"
        if gain.mean < 0:
            better, gain = "worse", Interval(-gain.mean, -gain.high, -gain.low)
        holding, all_ = self.places
        at = f"; it holds at {holding} of {all_} points by themselves" * (all_ > 1)
        return (
            f"{self.claim.says} {words}: {self.claim.row} is {better} than {than} by "
            f"{gain}{at}."
        )


def judge(claim: Claim, data: Data) -> Verdict:
    """Whether a claim holds, by the interval of the advantage."""
    strata = []
    for panel in claim.panels or data.panels:
        points = data.points(panel)
        for point in [p for p in points if not claim.points or p in claim.points]:
            advantage = _advantage(claim, data, panel, point)
            if advantage is not None:
                strata.append(advantage)
    if not strata:
        return Verdict(claim, "not measured")
    found = mean_interval(strata)
    if math.isnan(found.mean):
        return Verdict(claim, "not measured")
    alone = [_answer(claim, mean_interval([scores])) for scores in strata]
    places = alone.count("holds"), len(strata)
    return Verdict(claim, _answer(claim, found), found, places)


def _answer(claim: Claim, advantage: Interval) -> Answer:
    """What an interval says: it lies inside of what is claimed, outside, or in both."""
    least = -claim.margin
    most = claim.margin if claim.how == "alike" else math.inf
    if least < advantage.low and advantage.high < most:
        return "holds"
    if advantage.high < least or advantage.low > most:
        return "does not hold"
    return "open"


def _advantage(claim: Claim, data: Data, panel: str, point: str) -> Tensor | None:
    """How much nearer to the best value the row is, [S, n].

    Rows with the same seeds saw the same instances and are compared one by one.
    """
    own = data.scores(panel, point, claim.row, claim.metric)
    best = data.best_value(panel, claim.metric) if own else 0.0
    if isinstance(claim.than, str):
        other = data.scores(panel, point, claim.than, claim.metric)
    else:
        other = {s: torch.full_like(v, claim.than) for s, v in own.items()}
    pairs = [(other[seed], own[seed]) for seed in own if seed in other]
    if not pairs or len({len(scores) for pair in pairs for scores in pair}) > 1:
        return None
    return torch.stack([_distance(o, best) - _distance(s, best) for o, s in pairs])


def _distance(scores: Tensor, best: float) -> Tensor:
    """How far scores are from the best value; without an end, how far back."""
    if math.isinf(best):
        return -scores if best > 0 else scores
    return (scores - best).abs()
