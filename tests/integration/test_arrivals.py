"""What comes home from a copy: links that lead out and what programs obey are named first, and left out where nobody says yes.

Tests of swarm/client/work.py, swarm/permissions/arrivals.py, swarm/runtime/isolation.py, swarm/workspace/changes_applied.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swarm.client.work import Work
from swarm.permissions.arrivals import find_arrivals, spread
from swarm.workspace.changes_applied import LINK, Change
from tests.fleet import Fleet
from tests.integration.test_isolation import agent, doing, results, rule, scenario

MAKE = (
    "echo new > plain; mkdir -p sub e; echo obey > AGENTS.md; echo obey > sub/CLAUDE.md; ln -s plain fine; ln -s ../plain sub/up; "
    "ln -s /etc outside; ln -s ../../x sub/above; ln -s .git g; ln -s .git/hooks h; ln -s / e/root; ln -s sub/../.. odd"
)
LED_OUT = {"outside", "sub/above", "g", "h", "e/root", "odd"}
TAKEN = {"plain": "A", "fine": "A", "sub/up": "A"}


@pytest.fixture
def work(at_work: Fleet) -> Work:
    job = at_work.swarm.submit(
        "make",
        agent="general-purpose",
        workspace=at_work.workspace,
        base_url=at_work.rehearse(
            scenario(rule("make", 0, {"name": "Bash", "input": {"command": MAKE}}), rule("make", 1))
        ).url,
        isolation="worktree",
        mode="bypassPermissions",
    )
    assert job.wait(60).state == "completed"
    return job.work()


def test_what_is_obeyed_or_leads_out_is_left_out_and_named_and_the_rest_comes_home(work: Work) -> None:
    folder = work.folder
    for dry_run in (True, False):
        applied = work.apply(dry_run=dry_run)
        assert set(applied.left_out) == LED_OUT | {"AGENTS.md", "sub/CLAUDE.md"}
        assert applied.left_out["outside"] == "a link to /etc" and "obey" in applied.left_out["AGENTS.md"]
        assert applied.changed == TAKEN
    assert not any(os.path.lexists(folder / path) for path in applied.left_out)
    assert (folder / "fine").read_text() == "new\n" == (folder / "sub/up").read_text()
    again = work.apply()
    assert (again.changed, set(again.left_out)) == ({}, set(applied.left_out))


def test_the_person_is_asked_before_anything_is_written_and_a_yes_brings_all(work: Work) -> None:
    asked: list[set[str]] = []

    def accept(found: object) -> bool:
        assert not list(work.folder.iterdir())
        asked.append(set(found))  # type: ignore[call-overload]
        return True

    applied = work.apply(accept=accept)
    assert asked == [LED_OUT | {"AGENTS.md", "sub/CLAUDE.md"}] and not applied.left_out
    assert os.readlink(work.folder / "outside") == "/etc" and (work.folder / "AGENTS.md").read_text() == "obey\n"
    assert not work.apply().changed


def test_what_was_left_out_can_be_taken_over_later(work: Work) -> None:
    work.apply()
    (work.folder / "plain").write_text("mine\n")
    applied = work.apply("ours", accept=lambda _: True)
    assert set(applied.changed) == LED_OUT | {"AGENTS.md", "sub/CLAUDE.md"} and not applied.left_out
    assert (work.folder / "plain").read_text() == "mine\n" and os.readlink(work.folder / "g") == ".git"


def test_a_copys_links_that_lead_out_are_not_merged_by_a_parent_and_told(at_work: Fleet) -> None:
    server = at_work.rehearse(scenario(rule("go", 0, agent("make")), *doing("make", MAKE), rule("go", 1)))
    job = at_work.submit("go", server, mode="bypassPermissions")
    assert job.wait(60).state == "completed"
    [told] = results(at_work, job)
    assert "[Left out because it leads out of your folder:" in told and "outside (a link to /etc)" in told
    assert not any(os.path.lexists(at_work.workspace / path) for path in LED_OUT)
    assert (at_work.workspace / "fine").read_text() == "new\n" and (at_work.workspace / "AGENTS.md").exists()
    assert "\nA plain" in told and "\nA outside" not in told


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("a", "b", False),
        ("a", ".", False),
        ("sub/a", "..", False),
        ("sub/a", "../b/c", False),
        ("a", "/etc/passwd", True),
        ("a", "..", True),
        ("sub/a", "../..", True),
        ("a", "b/../../x", True),
        ("a", "b/../c", True),
        ("a", ".git", True),
        ("a", ".GIT/hooks", True),
        ("sub/a", "../.git/config", True),
        ("a", ".vscode/tasks.json", True),
        ("a", "theirs/x", True),
        ("a", "theirs", True),
    ],
)
def test_a_link_is_judged_by_where_it_would_lead(tmp_path: Path, path: str, target: str, out: bool) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "theirs").symlink_to("/tmp")
    found = find_arrivals([Change(path, "", LINK, "1")], folder, lambda _: target.encode())
    assert bool(found) == out


def test_what_stands_in_the_way_of_what_is_left_out_stays_too(tmp_path: Path) -> None:
    changes = [Change(".envrc", "100644", ""), Change(".envrc/x", "", "100644"), Change("y", "", "100644")]
    found = spread(find_arrivals(changes, tmp_path, lambda _: b""), changes)
    assert set(found) == {".envrc", ".envrc/x"}
