"""Claims of the paper: whether they hold in the records of a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import CHANCE, Claim
from gsdm_pyg.paper.statistics import Interval, mean_interval

Answer = Literal["holds", "does not hold", "open", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """What the records say about a claim.

    `advantage` is how much nearer to its best value the metric of the row is, a mean
    over panels and points; `places` are the points at which the claim holds by itself,
    and all of them. A claim is open until all of its runs are `complete`.
    """

    claim: Claim
    answer: Answer
    advantage: Interval | None = None
    places: tuple[int, int] = (0, 0)
    complete: bool = True

    def __str__(self) -> str:
        """One sentence."""
        if self.advantage is None:
            return f"{self.claim.says} Not measured here."
        words = {
            "holds": "It holds here",
            "does not hold": "It does not hold here",
            "open": "Open here, as the interval leaves both possible",
        }[self.answer]
        if not self.complete:
            words = "Open here, as some of its runs are not done"
        elif self.answer == "open" and self.claim.every:
            words = "Open here, as it holds at some points only"
        than, gain = self.claim.than, self.advantage
        than = f"{than:g}" if isinstance(than, float) else than
        better = "better"
        if gain.mean < 0:
            better, gain = "worse", Interval(-gain.mean, -gain.high, -gain.low)
        if self.claim.within is not None:
            better = (
                f"{better}, in the share of instances within {self.claim.within:g},"
            )
        if self.claim.during:
            better = f"{better}, on average over training,"
        holding, all_ = self.places
        at = f"; it holds at {holding} of {all_} points by themselves" * (all_ > 1)
        return (
            f"{self.claim.says} {words}: {self.claim.row} is {better} than {than} by "
            f"{gain}{at}."
        )


def judge(claim: Claim, data: Data) -> Verdict:
    """Whether a claim holds, by the interval of the advantage.

    Points of several panels that are the same runs count once.
    """
    strata: dict[tuple[str, ...], Tensor] = {}
    for panel in claim.panels or data.panels:
        points = data.points(panel)
        for point in [p for p in points if not claim.points or p in claim.points]:
            advantage = _advantage(claim, data, panel, point)
            if advantage is not None:
                runs = (r["key"] for r in data.of(panel, point, claim.row))
                strata.setdefault((data.metric(panel), *runs), advantage)
    found = mean_interval(list(strata.values()))
    if math.isnan(found.mean):
        return Verdict(claim, "not measured")
    alone = [_answer(claim, _interval_alone(scores)) for scores in strata.values()]
    places = alone.count("holds"), len(strata)
    complete = not any(_is_about(claim, name) for name in data.missing)
    answer = _answer(claim, found)
    if claim.every:
        answer = alone[0] if len(set(alone)) == 1 else "open"
        answer = "does not hold" if "does not hold" in alone else answer
    return Verdict(claim, answer if complete else "open", found, places, complete)


def _interval_alone(scores: Tensor) -> Interval:
    """The interval of one point; a single number, such as memory, has no spread."""
    if scores.numel() == 1:
        return Interval(*(scores.item() for _ in range(3)))
    return mean_interval([scores])


def _is_about(claim: Claim, job: str) -> bool:
    """Whether a claim needs a job, whose name begins with its row and its panel."""
    row, panel, *_ = job.split("; ")
    return row in (claim.row, claim.than) and panel in (claim.panels or [panel])


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
    found, read = {}, data.during if claim.during else data.scores
    if row == CHANCE:
        row, read = claim.row, data.chance
    for seed, scores in read(panel, point, row, claim.metric).items():
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
