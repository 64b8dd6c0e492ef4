"""Forecasts of figures: minutes and steps by the clock that limits the runs."""

from __future__ import annotations

import time

import pytest

from gsdm_pyg.doctor.forecast import Forecast
from gsdm_pyg.paper.budget import Expected, expect, hours_in_lanes
from gsdm_pyg.paper.making import jobs_of
from gsdm_pyg.paper.runs import load_runs
from tests.paper.figures import TINY, write_figure


def estimate(*settings: object, clock: object) -> Forecast:
    """A step takes half a second of the wall's, and twice that on two cores."""
    seconds = 1.0 if clock is time.process_time else 0.5
    return Forecast(100, 100, 1e12, seconds, 0.0, 0)


@pytest.mark.parametrize(("clock", "steps"), [("wall", 240), ("processor", 120)])
def test_steps_are_those_that_fit_into_the_limit_by_its_own_clock(
    tmp_path, clock, steps
):
    trainer = {"max_time": "00:00:02:00", "clock": clock, "accelerator": "cpu"}
    path = write_figure(tmp_path, base={**TINY["base"], "trainer": trainer})
    figure, runs = load_runs(path, "laptop", ["kept; 2"])
    (found,) = expect(jobs_of(figure, runs), tmp_path, estimate)
    assert (found.clock, found.steps) == (clock, steps)
    assert found.minutes == pytest.approx(2.0, abs=0.01)


def test_core_minutes_are_shared_by_all_cores_and_minutes_by_the_lanes():
    core = Expected("a", "a", 120.0, clock="processor")
    wall = Expected("b", "b", 60.0)
    unknown = Expected("c", "c", None)
    assert hours_in_lanes([core], lanes=1, cores=2) == 1.0
    assert hours_in_lanes([core, unknown], lanes=4, cores=2) == 1.0
    assert hours_in_lanes([wall], lanes=2, cores=8) == 0.5
