"""`swarm triggers`: applied from files, listed, shown, fired, replayed, paused and deleted.

Tests of swarm/cli/triggers.py, swarm/client/trigger_acts.py, swarm/client/trigger_reads.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from swarm import Swarm
from swarm.cli.triggers import group
from swarm.core.errors import ConfigurationError, UnknownTrigger
from swarm.core.settings import load_settings
from tests.fleet import Fleet
from tests.job_world import open_store

Run = Callable[..., Result]
NIGHTLY = (
    "---\nname: nightly\ndescription: Tests at night.\nschedule: 0 3 * * 1-5\ntimezone: Europe/Berlin\n---\nTest it.\n"
)
ISSUES = "---\nname: issues\nwebhook: github\nsecret: HOOK_SECRET\ntitle: event.title\n---\nSolve it.\n"


@pytest.fixture
def run(unmanned: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in a workspace with two triggers, in a swarm of its own."""
    monkeypatch.setenv("SWARM_REDIS_URL", unmanned.url)
    monkeypatch.setenv("SWARM_KEY_PREFIX", open_store(unmanned).keyspace.prefix)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".swarm" / "triggers"
    folder.mkdir(parents=True)
    (folder / "nightly.md").write_text(NIGHTLY)
    (folder / "issues.md").write_text(ISSUES)

    def command(*words: str, given: str | None = None) -> Result:
        return CliRunner().invoke(group, words, input=given, catch_exceptions=False)

    return command


def test_triggers_are_applied_from_files_and_listed(run: Run, tmp_path: Path) -> None:
    assert "there are no triggers" in run().output
    assert run("apply").stdout.splitlines() == ["issues: new", "nightly: new"]
    assert run("apply", ".swarm/triggers/nightly.md").stdout == "nightly: same\n"
    (tmp_path / ".swarm/triggers/nightly.md").write_text(NIGHTLY.replace("0 3", "0 4"))
    assert run("apply").stdout.splitlines() == ["issues: same", "nightly: changed"]
    listed = run().stdout
    assert "0 4 * * 1-5 Europe/Berlin" in listed and "webhook github" in listed and "Tests at night." in listed
    rows = {one["name"]: one for one in json.loads(run("--json").stdout)}
    assert rows["nightly"]["next_at"] > 0 and rows["issues"]["next_at"] is None
    with pytest.raises(ConfigurationError, match=r"bad\.md: the schedule '0 0 30 2 \*' never comes|is no schedule"):
        (tmp_path / "bad.md").write_text(NIGHTLY.replace("0 3 * * 1-5", "0 0 30 2 *"))
        run("apply", "bad.md")
    with pytest.raises(ConfigurationError, match="has no triggers"):
        (tmp_path / "empty").mkdir()
        run("apply", "empty")


def test_an_event_by_hand_is_shown_replayed_and_survives_a_pause(run: Run, tmp_path: Path) -> None:
    run("apply")
    (tmp_path / "event.json").write_text('{"title": "It breaks"}')
    job = run("fire", "issues", "--event", "event.json", "--id", "e-1").stdout.strip()
    again = run("fire", "issues", "--event", "-", "--id", "e-1", given='{"title": "Other"}')
    assert again.stdout.strip() == job and "it has had this event already" in again.stderr
    assert "paused; `swarm triggers resume issues` goes on" in run("pause", "issues").stderr
    assert "paused" in run().stdout
    other = run("replay", "issues", "e-1").stdout.strip()
    assert other != job and "waiting" in run("resume", "issues").stderr
    shown = run("show", "issues").stdout
    assert job in shown and other in shown and "put by" in shown
    newest = json.loads(run("show", "issues", "--json", "--count", "1").stdout)["newest"]
    assert [(one["job"], one["state"]) for one in newest] == [(other, "waiting")]
    # Whoever works starts them.
    assert "started 2 jobs" in run("start-due").stderr
    assert {one["state"] for one in json.loads(run("show", "issues", "--json").stdout)["newest"]} == {"started"}
    with Swarm(load_settings()) as swarm:
        assert {one.title for one in swarm.jobs()} == {"It breaks"}
    assert "deleted" in run("delete", "issues").stderr
    for words in (("show", "issues"), ("fire", "issues"), ("pause", "issues"), ("delete", "issues")):
        with pytest.raises(UnknownTrigger):
            run(*words)
    with pytest.raises(ConfigurationError, match="the trigger nightly has no event 'none'"):
        run("replay", "nightly", "none")
    with pytest.raises(ConfigurationError, match="it is no JSON"):
        run("fire", "nightly", "--event", "-", given="{")
