"""What the report computes: slopes, recoveries, what it says when a promise was broken. Pure.

Tests of tests/chaos/report.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chaos.memory import LONG_ENOUGH_SECONDS, Slope
from tests.chaos.plan import Plan, Tree
from tests.chaos.recovery import Blow, ExternalEvent, recoveries
from tests.chaos.report import Report
from tests.chaos.section import FIGURES, Section


def test_a_slope_is_that_of_the_line_once_everything_has_settled() -> None:
    settling = [(float(at), 50.0 + at) for at in range(0, 200, 10)]
    steady = [(float(at), 300.0 + at / 3600 + (0.5 if at % 20 else -0.5)) for at in range(200, 1001, 10)]
    slope = Slope.through([*settling, *steady])
    assert slope is not None and slope.samples == len(steady)
    assert slope.mib_per_hour == pytest.approx(1.0, abs=2 * slope.error)
    assert Slope.through([(0.0, 1.0), (LONG_ENOUGH_SECONDS / 2, 2.0)]) is None, "that is too short to tell"


def test_recovery_is_counted_from_the_blow_to_when_the_agent_runs_again() -> None:
    blows = [Blow("child", 10.0, 7, 10.0), Blow("redis", 20.0, None, 22.0), Blow("drain", 30.0, 7, 30.0)]
    external_events = [
        ExternalEvent(9.0, "running", "a", 7),
        ExternalEvent(11.0, "rescued", "a", 7),
        ExternalEvent(12.5, "running", "a", 7),
        ExternalEvent(22.5, "progress", "a", None),
        ExternalEvent(31.0, "handed_over", "a", None),
        ExternalEvent(34.0, "running", "a", 8),
    ]
    assert recoveries(blows, external_events) == {"child": [2.5], "redis": [0.5], "drain": [3.0]}


def test_a_report_adds_its_sections_up_and_says_what_was_broken(tmp_path: Path) -> None:
    report = Report(tmp_path / "chaos.json", seed=3, minutes=1.0, lacking={"tls": "no redis-server on the PATH"})
    verdict = {
        **dict.fromkeys(FIGURES, 1),
        "lost": 0,
        "doubled": 0,
        "reordered": 0,
        "failed": [],
        "faults": [],
        "waived": [],
    }
    fault = {"kind": "lost", "about": "message", "where": "a → b", "what": "sent, and not read", "count": 2}
    for name, found in (("fleet", {}), ("talk", {"lost": 2, "faults": [fault]})):
        section = Section(Plan(name, "something", (Tree(1, 1),)), blows=[Blow("cut", 1.0, None, 1.0)])
        section.add({**verdict, **found})
        report.add(section)
    written = json.loads((tmp_path / "chaos.json").read_text())
    assert (written["held"], written["lost"], written["agents"], written["blows"]) == (False, 2, 2, {"cut": 2})
    assert [section["held"] for section in written["sections"]] == [True, False]
    text = (tmp_path / "chaos.md").read_text()
    assert (
        "did NOT hold" in text and "`lost:message` a → b: sent, and not read" in text and "`tls` was not played" in text
    )
