"""Workers of two releases serve one fleet while they are killed: the last release beside today's code, and that beside a made-up next one.

Tests of swarm/core/release.py, swarm/core/formats.py, swarm/store/lua/begin_sweep.lua.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.campaign import Campaign
from tests.chaos.plan import Plan, Talk, Tree
from tests.chaos.section import Section
from tests.releases import last_release, next_release

TWENTY = ("worker",) * 9 + ("child",) * 10 + ("drain",) * 5
"""Of these, some find nobody to hit."""
SHORT = ("worker", "worker", "child", "child", "drain")


def _play(release: Path, blows: tuple[str, ...], folder: Path) -> Section:
    """Play trees and talks on workers of today's code and of this release."""
    works = (Tree(depth=3, fanout=4, steps=2, think_ms=300), Talk(fanout=5, messages=400, batch=10, think_ms=150))
    plan = Plan("releases", "two releases", works, first=blows, workers=4, releases=(None, release), seed=11)
    section = Campaign(plan, folder).run()
    assert section.held, [*section.faults, *section.complaints]
    assert len(section.blows) >= (20 if blows is TWENTY else 4)
    assert (section.lost, section.doubled, section.reordered) == (0, 0, 0)
    assert section.figures["agents"] >= sum(work.agents for work in works)
    assert section.served == {None, release}, "both have run agents"
    return section


@pytest.mark.timeout(240)
@pytest.mark.parametrize("blows", [SHORT, pytest.param(TWENTY, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_the_last_release_beside_todays_code_loses_nothing(blows: tuple[str, ...], tmp_path: Path) -> None:
    _play(last_release(tmp_path / "last"), blows, tmp_path / "jobs")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_release_of_a_newer_format_beside_todays_code_loses_nothing(tmp_path: Path) -> None:
    section = _play(next_release(tmp_path / "next"), TWENTY, tmp_path / "jobs")
    assert not [text for text in section.errors if "unreadable" in text or "refused" in text], section.errors
