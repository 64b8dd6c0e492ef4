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
        if self.claim.within is not None:
            better = (
                f"{better}, in the share of instances within {self.claim.within:g},"
            )
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
    own = _gains(claim, data, panel, point, claim.row)
    if isinstance(claim.than, str):
        other = _gains(claim, data, panel, point, claim.than)
    else:
        best = 1.0 if claim.within is not None else _best(claim, data, panel)
        gain = -_distance(torch.tensor(claim.than, dtype=torch.double), best)
        other = {seed: gain.expand(len(gains)) for seed, gains in own.items()}
    pairs = [(other[seed], own[seed]) for seed in own if seed in other]
    if not pairs or len({len(gains) for pair in pairs for gains in pair}) > 1:
        return None
    return torch.stack([mine - theirs for theirs, mine in pairs])


def _gains(
    claim: Claim, data: Data, panel: str, point: str, row: str
) -> dict[int, Tensor]:
    """How good a row is on each instance, by seed: minus the distance to the best.

    Where the claim is about shares, 1 for the instances that are near enough.
    """
    found = {}
    for seed, scores in data.scores(panel, point, row, claim.metric).items():
        distance = _distance(scores, _best(claim, data, panel))
        if claim.within is None:
            found[seed] = -distance
        else:
            near = (distance <= claim.within).double() - 1
            found[seed] = near.where(~distance.isnan(), torch.nan)
    return found


def _best(claim: Claim, data: Data, panel: str) -> float:
    return data.best_value(panel, claim.metric)


def _distance(scores: Tensor, best: float) -> Tensor:
    """How far scores are from the best value; without an end, how far back."""
    if math.isinf(best):
        return -scores if best > 0 else scores
    return (scores - best).abs()
