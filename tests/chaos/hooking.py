"""Hooks of both kinds run while processes and workers are killed: `python -m tests.chaos.hooking`.

A program writes down each event that it begins with and each that it has done, and an address each that it is asked about. In the end no
event may be there twice, whoever died; every event that the journal says was heard must be there; the rest must be told as interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

from swarm import Job
from swarm.agent.entries import Hooked
from tests.fleet import Fleet

_SCRIPT = """
name: hooking
rules:
  - when: {turn: '0-3'}
    reply: {tools: [{name: Bash, input: {command: "echo {turn}"}}, {name: Glob, input: {pattern: '*'}}]}
  - reply: {text: done}
"""
_RECORD = """
import json, os, sys, time
event = json.load(sys.stdin)["event_id"]
log = os.open("told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, f"begin {event}\\n".encode())
time.sleep(0.05)
os.write(log, f"end {event}\\n".encode())
"""


@dataclass
class Findings:
    """What has become of it."""

    events: int = 0
    interrupted: int = 0
    cut_off: int = 0
    """Programs that began and did not come to their end."""
    seconds: float = 0.0
    blows: Counter[str] = field(default_factory=Counter)
    doubled: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        """Whether nothing is lost, doubled or wrong."""
        return not (self.lost or self.doubled or self.complaints)


class _Site(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append(told["event_id"])  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _asking(home: Path) -> Iterator[list[str]]:
    """A person whose hooks of both kinds are on all events of these lives; what the address was told of."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        site.told = []  # type: ignore[attr-defined]
        threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True).start()
        both = [
            {"type": "command", "command": sys.executable, "args": ["-c", _RECORD]},
            {"type": "http", "url": f"http://127.0.0.1:{site.server_address[1]}/"},
        ]
        events = (
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "Stop",
            "SessionEnd",
        )
        (home / ".claude").mkdir()
        table = {"hooks": {event: [{"hooks": both}] for event in events}}
        (home / ".claude" / "settings.json").write_text(json.dumps(table))
        kept, os.environ["HOME"] = os.environ.get("HOME", "/"), str(home)
        try:
            yield site.told  # type: ignore[attr-defined]
        finally:
            os.environ["HOME"] = kept
            site.shutdown()


def play(jobs: int, *, blows: int = 40, seed: int = 1, every_seconds: float = 0.5, processes: int = 3) -> Findings:
    """Run them on a fleet of two workers, of which something dies every so often."""
    found, chance = Findings(), random.Random(seed)
    with (
        tempfile.TemporaryDirectory() as home,
        closing(Fleet(user_hooks="host")) as fleet,
        _asking(Path(home)) as asked,
    ):
        for _ in range(2):
            fleet.start_worker(processes)
        server = fleet.rehearse(_SCRIPT)
        given = [fleet.submit(f"job {number}", server, max_turns=20) for number in range(jobs)]
        began = time.monotonic()
        while sum(found.blows.values()) < blows and not all(job.view().ended for job in given):
            time.sleep(every_seconds)
            _blow(fleet, chance, processes, found)
        for job in given:
            view = job.wait(240)
            if (view.state, view.text) != ("completed", "done"):
                found.complaints.append(f"{job.id} is {view.state}: {view.reason or view.text}")
        found.seconds = time.monotonic() - began
        told = Counter((fleet.workspace / "told").read_text().splitlines())
        _judge(fleet, given, told, Counter(asked), found)
    return found


def _blow(fleet: Fleet, chance: random.Random, processes: int, found: Findings) -> None:
    ready = [each for each in fleet.workers if each.process.poll() is None and each.ready]
    if sum(found.blows.values()) % 6 == 5 and ready:
        chance.choice(ready).kill()
        fleet.begin_worker(processes)
        found.blows["worker"] += 1
    elif children := [child for worker in ready for child in worker.children()]:
        try:
            chance.choice(children).kill()
            found.blows["child"] += 1
        except psutil.NoSuchProcess:
            pass


def _judge(fleet: Fleet, jobs: list[Job], told: Counter[str], asked: Counter[str], found: Findings) -> None:
    found.doubled += [event for event, times in (told + asked).items() if max(told[event], asked[event]) > 1]
    found.cut_off = sum(
        told[line] and not told[f"end{line.removeprefix('begin')}"] for line in told if line.startswith("begin")
    )
    for job in jobs:
        agent_id = job.view().root_id
        heard = [entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, Hooked)]
        found.events += len(heard)
        found.doubled += [event for event, times in Counter(one.event for one in heard).items() if times > 1]
        for one in heard:
            outcomes = {run.outcome for run in one.runs}
            found.interrupted += outcomes == {"interrupted"}
            event = f"{agent_id}/{one.event}"
            if outcomes == {"ok"} and not (told[f"end {event}"] and asked[event]):
                found.lost.append(event)
            elif outcomes not in ({"ok"}, {"interrupted"}):
                found.complaints.append(f"{event}: {one.runs}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--blows", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    found = play(chosen.jobs, blows=chosen.blows, seed=chosen.seed)
    print(found)
    return 0 if found.held else 1


if __name__ == "__main__":
    sys.exit(main())
