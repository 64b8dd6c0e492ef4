"""Claims are judged by the interval of the advantage, on records of known answers."""

from __future__ import annotations

import pytest

from gsdm_pyg.paper.claims import judge
from gsdm_pyg.paper.data import Data
from gsdm_pyg.paper.figure_file import Claim
from tests.paper.figures import data_of

ROWS = {"kept": 0.2, "dropped": 0.5}


def verdict(data, **changes):
    claim = {"says": "Kept is best.", "row": "kept", "than": "dropped", **changes}
    return judge(Claim.parse(claim), data)


def spread(mean: float, width: float = 0.01, count: int = 20) -> list[float]:
    return [mean + width * (i % 5 - 2) for i in range(count)]


@pytest.fixture
def data() -> Data:
    return data_of({("3", row): [spread(mean)] for row, mean in ROWS.items()})


def test_nearer_to_the_best_value_is_better(data):
    found = verdict(data)
    assert found.answer == "holds"
    assert found.advantage.mean == pytest.approx(0.3)
    assert "It holds here: kept is better than dropped by 0.3 [0.3, 0.3]" in str(found)


def test_claim_the_other_way_does_not_hold(data):
    found = verdict(data, row="dropped", than="kept")
    assert found.answer == "does not hold"
    assert "dropped is worse than kept by 0.3 [0.3, 0.3]" in str(found)


def test_instances_are_compared_one_by_one():
    """Instances differ by much more than the rows do, but alike for both."""
    hard = spread(1.0, width=0.4)
    easier = [score - 0.01 for score in hard]
    data = data_of({("3", "kept"): [easier], ("3", "dropped"): [hard]})
    found = verdict(data)
    assert found.answer == "holds"
    assert found.advantage.low == pytest.approx(0.01)
    shuffled = data_of({("3", "kept"): [easier[::-1]], ("3", "dropped"): [hard]})
    assert verdict(shuffled).answer == "open"


def test_seeds_are_compared_by_their_number():
    data = data_of({("3", "kept"): [[0.2], [0.4]], ("3", "dropped"): [[0.3]]})
    found = verdict(data)
    assert found.advantage.mean == pytest.approx(0.1)
    assert found.answer == "open"  # one number tells nothing of others


def test_answer_is_open_if_the_interval_leaves_both_possible():
    values = spread(0.3, 0.2)
    data = data_of(
        {("3", "kept"): [values], ("3", "dropped"): [values[2:] + values[:2]]}
    )
    found = verdict(data)
    assert found.answer == "open"
    assert "leaves both possible" in str(found)


def test_comparison_with_chance_and_with_a_number(data):
    assert verdict(data, than="chance").advantage.mean == pytest.approx(0.8)
    found = verdict(data, than=0.25)
    assert (found.answer, round(found.advantage.mean, 6)) == ("holds", 0.05)


@pytest.mark.parametrize(
    ("how", "margin", "answer"),
    [
        ("no worse", 0.4, "holds"),
        ("no worse", 0.1, "does not hold"),
        ("alike", 0.4, "holds"),
        ("alike", 0.1, "does not hold"),
    ],
)
def test_margins(data, how, margin, answer):
    found = verdict(data, row="dropped", than="kept", how=how, margin=margin)
    assert found.answer == answer


def test_share_of_instances_that_are_near_the_best_value():
    scores = [0.1, 0.1, 0.1, 5.0] * 10
    data = data_of({("3", "kept"): [scores], ("3", "dropped"): [[0.3] * 40]})
    assert verdict(data, than=0.5).answer == "does not hold"  # the mean is 1.3
    found = verdict(data, than=0.5, within=0.2)
    assert found.answer == "holds"
    assert found.advantage.mean == pytest.approx(0.75 - 0.5)
    assert verdict(data, within=0.2).advantage.mean == pytest.approx(0.75)


def test_points_count_alone_and_on_average():
    scores = {("2", "kept"): [spread(0.1)], ("2", "dropped"): [spread(0.9)]}
    scores |= {("3", "kept"): [spread(0.3)], ("3", "dropped"): [spread(0.2)]}
    found = verdict(data_of(scores))
    assert (found.answer, found.places) == ("holds", (1, 2))
    assert found.advantage.mean == pytest.approx((0.8 - 0.1) / 2)
    assert verdict(data_of(scores), points=[3]).answer == "does not hold"


def test_what_has_no_records_is_not_measured(data):
    assert verdict(data, points=["7"]).answer == "not measured"
    assert verdict(data, metric="nothing").answer == "not measured"
    assert str(verdict(data, points=["7"])) == "Kept is best. Not measured here."


def test_minutes_until_the_metric_is_good_enough():
    panel = {"metric": "rmse", "time_to": 0.5}
    scores = {("3", row): [spread(mean)] for row, mean in ROWS.items()}
    data = data_of(scores, panels={"BCMF": panel})
    slow = next(r for r in data.records if r["row"] == "dropped")
    slow["curve"] = {"steps": [2, 4], "minutes": [0.5, 1.0], "rmse": [0.9, 0.8]}
    slow["minutes"] = 2.5
    data.records.append({**slow, "point": "4", "key": "other", "minutes": 2.6})
    kept, dropped = (data.scores("BCMF", "3", row) for row in ROWS)
    assert (kept[0].tolist(), dropped[0].tolist()) == ([1.0], [2.6])  # the longest run
    assert verdict(data, points=["3"]).advantage.mean == pytest.approx(1.6)


def test_chance_is_that_of_the_row_s_own_instances():
    scores = {("3", row): [spread(mean)] for row, mean in ROWS.items()}
    data = data_of(scores)
    data.of("BCMF", "3", "dropped")[0]["chance"] = {"rmse": [0.4] * 20}
    found = verdict(data, row="dropped", than="chance")
    assert found.advantage.mean == pytest.approx(-0.1)


def test_a_claim_about_every_point_needs_each_of_them():
    better = {("2", "kept"): [spread(0.1)], ("2", "dropped"): [spread(0.9)]}
    worse = {("3", "kept"): [spread(0.3)], ("3", "dropped"): [spread(0.2)]}
    alike = {("3", "kept"): [spread(0.3)], ("3", "dropped"): [spread(0.3)[::-1]]}
    assert verdict(data_of(better), every=True).answer == "holds"
    assert verdict(data_of(better | worse), every=True).answer == "does not hold"
    found = verdict(data_of(better | alike), every=True)
    assert found.answer == "open" and "at some points only" in str(found)
    memory = data_of({("2", "kept"): [[3.0]], ("3", "kept"): [[60.0]]})
    assert verdict(memory, than=24.0, every=True).answer == "does not hold"
    assert verdict(memory, than=64.0, every=True).answer == "holds"


def test_a_claim_about_training_compares_whole_curves(data):
    kept, dropped = (data.of("BCMF", "3", row)[0] for row in ROWS)
    kept["curve"] = {"minutes": [1, 2], "steps": [1, 2], "rmse": [0.2, 0.2]}
    dropped["curve"] = {"minutes": [1, 2], "steps": [1, 2], "rmse": [0.8, 0.2]}
    found = verdict(data, during=True, every=True)
    assert found.advantage.mean == pytest.approx(0.3) and found.answer == "holds"
    assert "better than dropped" not in str(found) and "over training" in str(found)


def test_runs_that_several_panels_show_count_once():
    data = data_of({("3", row): [spread(mean)] for row, mean in ROWS.items()})
    again = [{**record, "point": "4"} for record in data.records]
    twice = Data(data.figure, data.scale, data.records + again, [])
    assert verdict(twice).advantage == verdict(data).advantage
    assert verdict(twice).places == (1, 1)


def test_a_claim_is_open_until_its_runs_are_done(data):
    for missing, answer in (
        ("dropped; BCMF; 4; seed 0", "open"),
        ("other; BCMF; 4; seed 0", "holds"),
        ("dropped; Sorting; 4; seed 0", "holds"),
    ):
        partial = Data(data.figure, data.scale, data.records, [missing])
        found = verdict(partial, panels=["BCMF"])
        assert found.answer == answer
        assert ("some of its runs are not done" in str(found)) == (answer == "open")
