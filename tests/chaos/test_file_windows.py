"""The process dies between a call, its snapshot, the push and the entry: the files are those of the last entry, whoever goes on.

Tests of swarm/runtime/workspace_sync.py, swarm/workspace/checkouts.py, swarm/workspace/repository.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm.agent.entries import ToolFinished
from swarm.agent.notes import UNDONE
from swarm.workspace.checkouts import job_url
from swarm.workspace.repository import Repository
from tests.chaos.crashing_worker import Order
from tests.chaos.test_crash_windows import Line
from tests.needs import need_program
from tests.waiting import wait_for

SCENARIO = """
name: files
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'echo one >> a.txt; echo x > only-one'}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: 'echo two >> a.txt'}}]}
  - when: {turn: 2}
    reply: {tools: [{name: Bash, input: {command: 'cat a.txt; ls'}}]}
  - reply: {text: '{last_result}'}
"""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    need_program("git")
    folder = tmp_path_factory.mktemp("carried")
    line = Line(hub=str(folder / "hub"), checkouts=folder / "checkouts")
    yield line
    line.fleet.close()


@dataclass(frozen=True)
class Window:
    """Where to die at the first call, and whether it counts then."""

    name: str
    order: Order
    counts: bool = True


WINDOWS = [
    Window("the files are brought", Order("become", "after")),
    Window("the call has run, no snapshot", Order("snapshot", "before"), counts=False),
    Window("a snapshot is made, not pushed", Order("snapshot", "after"), counts=False),
    Window("it is pushed, no entry", Order("push", "after"), counts=False),
    Window("it is pushed, the whole worker dies", Order("push", "after", whole=True), counts=False),
    Window("the entry is written", Order("append", "after", kind="tool_finished")),
]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.name)
def test_files_are_those_of_the_last_entry_wherever_one_dies(line: Line, window: Window, tmp_path: Path) -> None:
    line.man()
    [done] = line.order(window.order)
    job = line.fleet.submit("go", line.fleet.rehearse(SCENARIO))

    def has_ended() -> bool:
        line.man()
        return job.view().ended

    wait_for("the job ends", has_ended, 60)
    assert done.exists(), "it died there"
    entries = [one for one in line.fleet.swarm.journal(job.view().root_id) if isinstance(one, ToolFinished)]
    said = ["one", "two", "a.txt", "only-one"] if window.counts else ["two", "a.txt"]
    assert entries[-1].text.split() == said
    assert (entries[0].text == UNDONE) is not window.counts
    # And whoever has but the hub and the journal finds the same.
    there, hub = Repository.make(tmp_path / "x.git", tmp_path / "x"), str(line.fleet.settings.hub)
    commit = [one.commit for one in entries if one.commit][-1]
    there.fetch(job_url(hub, job.id, "sha1"), commit)
    there.become(commit)
    assert (there.tree / "a.txt").read_text().split() == [word for word in said if word in ("one", "two")]
