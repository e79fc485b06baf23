"""Workers of two releases serve one fleet while they are killed: the last release beside today's code, and that beside a made-up next one.

Tests of swarm/core/release.py, swarm/core/formats.py, swarm/store/lua/begin_sweep.lua.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.core.release import FORMAT
from tests.chaos.campaign import Campaign
from tests.chaos.plan import Plan, Talk, Tree
from tests.chaos.section import Section
from tests.releases import last_release, next_release

TWENTY = ("worker",) * 8 + ("child",) * 8 + ("drain",) * 4
SHORT = ("worker", "worker", "child", "child", "drain")


def _play(release: Path, blows: tuple[str, ...], folder: Path, *, newer: Path | None = None) -> Section:
    """Play trees and talks on workers of today's code and of this release; `newer` is the one of the newer format, if they differ."""
    works = (Tree(depth=3, fanout=4, steps=2, think_ms=300), Talk(fanout=5, messages=400, batch=10, think_ms=150))
    plan = Plan("releases", "two releases", works, first=blows, workers=4, releases=(None, release), seed=11)
    section = Campaign(plan, folder).run()
    assert section.held, [*section.faults, *section.complaints]
    assert len(section.blows) == len(blows)
    assert (section.lost, section.doubled, section.reordered) == (0, 0, 0)
    assert section.figures["agents"] >= sum(work.agents for work in works)
    # Where the format is the same, both run agents; what a newer one has claimed, and all below it, stays with newer ones.
    same = f"FORMAT: int = {FORMAT}\n" in (release / "swarm/core/release.py").read_text()
    assert section.served >= ({None, release} if same else {newer}), section.served
    return section


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("blows", [SHORT, pytest.param(TWENTY, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_the_last_release_beside_todays_code_loses_nothing(blows: tuple[str, ...], tmp_path: Path) -> None:
    last = last_release(tmp_path / "last")
    assert ".dev" not in (last / "swarm/core/release.py").read_text(), "it is a release"
    _play(last, blows, tmp_path / "jobs")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_release_of_a_newer_format_beside_todays_code_loses_nothing(tmp_path: Path) -> None:
    section = _play(release := next_release(tmp_path / "next"), TWENTY, tmp_path / "jobs", newer=release)
    assert not [text for text in section.errors if "unreadable" in text or "refused" in text], section.errors
