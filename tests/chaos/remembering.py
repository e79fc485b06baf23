"""Many agents write to the same pages of memory while processes and workers are killed: `python -m tests.chaos.remembering`.

Each agent puts a line at the top of its page, and another one before the page's end, where all others put theirs. In the end each line
must be there once, whoever died, and each page must have a version for each line.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

import psutil

from swarm import Job
from swarm.capabilities.memory.pages import Author, Memories
from swarm.definitions.memory_stores import find_places
from tests.fleet import Fleet

_SCRIPT = """
name: remembering
rules:
  - when: {{turn: 0, prompt: EVERYBODY}}
    reply: {{tools: [{calls}]}}
  - {{when: {{prompt: EVERYBODY}}, reply: {{text: ALL}}}}
  - when: {{turn: 0, prompt: 'scribe (?P<n>[0-9]+) on (?P<page>[0-9]+)$'}}
    reply:
      latency_seconds: [0.0, 0.2]
      tools:
        - {{name: Memory, input: {{command: insert, path: '/memories/team/page-{{page}}.md', insert_line: 0, insert_text: 'top {{n}}'}}}}
        - name: Memory
          input: {{command: str_replace, path: '/memories/team/page-{{page}}.md', old_str: END, new_str: "bottom {{n}}\\nEND"}}
  - {{reply: {{text: WRITTEN, latency_seconds: [0.0, 0.2]}}}}
"""


@dataclass
class Findings:
    """What has become of it."""

    agents: int
    pages: int
    most_blows: int
    seconds: float = 0.0
    blows: Counter[str] = field(default_factory=Counter)
    rescued: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether nothing is lost, doubled or wrong."""
        return not (self.lost or self.doubled or self.complaints)


def play(
    agents: int, pages: int, *, blows: int = 40, seed: int = 1, every_seconds: float = 1.0, processes: int = 8
) -> Findings:
    """Run them on a fleet of two workers, of which something dies every so often."""
    found, chance = Findings(agents, pages, blows), random.Random(seed)
    with closing(Fleet()) as fleet:
        definitions = fleet.workspace / ".swarm" / "agents"
        definitions.mkdir(parents=True)
        (definitions / "scribe.md").write_text(
            "---\nname: scribe\ndescription: d\ntools: Read\nmemory: team\n---\nWrite.\n"
        )
        memory_store = find_places(fleet.workspace.resolve(), fleet.settings.memory_owner).memory_store("team", "")
        memories = Memories(fleet.swarm.store.keyspace)
        for page in range(pages):
            memories.change(memory_store, "create", f"page-{page}.md", Author(), text="END\n")
        calls = ", ".join(
            f"{{name: Agent, input: {{description: scribe {n}, prompt: scribe {n} on {n % pages}, subagent_type: scribe}}}}"
            for n in range(agents)
        )
        for _ in range(2):
            fleet.start_worker(processes)
        job = fleet.submit("EVERYBODY", fleet.rehearse(_SCRIPT.format(calls=calls)), max_turns=20)
        began = time.monotonic()
        _deal_blows(fleet, job, chance, every_seconds, processes, found)
        view = job.wait(240)
        found.seconds = time.monotonic() - began
        if (view.state, view.text) != ("completed", "ALL"):
            found.complaints.append(f"the job is {view.state}: {view.reason or view.text}")
        states = Counter(agent.state for agent in job.agents())
        if states != {"completed": agents + 1}:
            found.complaints.append(f"agents are {dict(states)}")
        found.rescued = sum(event.kind == "rescued" for event in job.follow() if event is not None)
        for page in range(pages):
            _judge(memories, memory_store, page, range(page, agents, pages), found)
    return found


def _deal_blows(
    fleet: Fleet, job: Job, chance: random.Random, every_seconds: float, processes: int, found: Findings
) -> None:
    deadline = time.monotonic() + 600
    # A machine that is slow to start workers must not be kept from ever having any.
    while sum(found.blows.values()) < found.most_blows and not job.view().ended and time.monotonic() < deadline:
        time.sleep(every_seconds)
        if sum(found.blows.values()) % 6 == 5 and any(
            each.process.poll() is None and each.ready for each in fleet.workers
        ):
            worker = chance.choice([each for each in fleet.workers if each.process.poll() is None and each.ready])
            worker.kill()
            fleet.begin_worker(processes)
            found.blows["worker"] += 1
        elif children := [child for worker in fleet.workers for child in worker.children()]:
            try:
                chance.choice(children).kill()
                found.blows["child"] += 1
            except psutil.NoSuchProcess:
                pass


def _judge(memories: Memories, memory_store: object, page: int, writers: range, found: Findings) -> None:
    read = memories.read(memory_store, f"page-{page}.md")  # type: ignore[arg-type]
    lines = Counter(read[1].splitlines() if read else [])
    expected = Counter(f"{where} {n}" for n in writers for where in ("top", "bottom")) + Counter(["END"])
    found.lost += sorted((expected - lines).elements())
    found.doubled += sorted((lines - expected).elements())
    versions = memories.versions(memory_store, f"page-{page}.md")  # type: ignore[arg-type]
    written = Counter((version.agent, version.op) for version in versions if version.agent)
    if set(written.values()) > {1}:
        found.complaints.append(f"page {page} has versions that were made twice")
    if len(written) != min(2 * len(writers), 100):
        found.complaints.append(f"page {page} has {len(written)} versions of {2 * len(writers)} changes")


def main() -> int:
    """Play it; the exit code is 1 when something was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.remembering", description=__doc__)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = play(given.agents, given.pages, seed=given.seed)
    print(
        f"{found.agents} agents on {found.pages} pages in {found.seconds:.0f} s, {dict(found.blows)} killed, {found.rescued} rescued: "
        f"{len(found.lost)} lost, {len(found.doubled)} doubled"
    )
    for complaint in found.complaints:
        print(complaint)
    return 0 if found.held else 1


if __name__ == "__main__":
    sys.exit(main())
