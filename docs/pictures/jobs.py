"""Real jobs for the pictures, on a fleet with rehearsed models, each at a moment worth showing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from swarm import Job, Limits, rehearsal
from swarm.rehearsal.demo import prepare_demo
from tests.fleet import Fleet
from tests.mcp_world import find_server
from tests.waiting import wait_for

HERE = Path(__file__).parent
_BENCH = "import time\nwhile True:\n    time.sleep(1)\n"
_PROGRAM = """
import json, sys
json.loads(sys.stdin.readline())
print(json.dumps({"type": "say", "text": "reading prices.csv"}), flush=True)
print(json.dumps({"type": "result", "text": "there is no prices.csv yet, so nothing to check"}), flush=True)
"""
_WRITER_PAUSES = """
faults:
  - {kind: hang, when: {prompt: "the team's writer", last_result: 'Task 3 is yours'}}
"""
_HOOK = """grep -q 'git push' && { echo 'pushes are made by the release job alone' >&2; exit 2; }; true"""


class Jobs:
    """A fleet, and the jobs on it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        demo = prepare_demo(fleet.folder / "till")
        self.workspace = demo.workspace
        self._prepare_workspace()
        self.vat = self._start(demo.prompt, "demo", mode="bypassPermissions", title="Correct the rounding of VAT")
        team = (Path(rehearsal.__file__).parent / "scenarios" / "team.yaml").read_text() + _WRITER_PAUSES
        self.team = self._start("Describe this workspace in a short report", team)
        self.guarded = self._start(
            "Write the price list with VAT",
            str(HERE / "guarded.yaml"),
            mode="auto",
            network=True,
            allow=["Bash(python3 price_check.py)"],
            check="test -s prices.csv",
            rubric="Every product has a price with VAT.",
        )
        for job in (self.vat, self.guarded):
            job.wait(120)
        self.plan = self._start("Greet whoever comes in", "ask", mode="plan")
        self.release = self._start(
            "Prepare the release 1.4",
            str(HERE / "release.yaml"),
            ask=["Write(CHANGELOG.md)"],
            limits=Limits(budget_usd=2),
        )
        wait_for("the writer has her task", self._has_half_a_board)
        for job in (self.plan, self.release):
            wait_for("it asks", lambda job=job: fleet.swarm.questions.open(job.id))
        wait_for("the release is at work", self._is_at_work)

    def agent(self, job: Job, label: str) -> str:
        """The job's agent whose label contains this text."""
        return next(agent.id for agent in job.agents() if label in agent.label)

    def _start(self, prompt: str, scenario: str, **given: Any) -> Job:
        server = self.fleet.rehearse(scenario)
        return self.fleet.swarm.submit(
            prompt, agent="build", workspace=self.workspace, base_url=server.url, **{"ask_seconds": 3_600, **given}
        )

    def _prepare_workspace(self) -> None:
        (self.workspace / "till" / "bench.py").write_text(_BENCH)
        (self.workspace / "price_check.py").write_text(_PROGRAM)
        agents = self.workspace / ".swarm" / "agents"
        agents.mkdir(parents=True)
        head = "name: price-check\ndescription: Checks a price list.\ncommand: [python3, price_check.py]"
        (agents / "price-check.md").write_text(f"---\n{head}\n---\n")

    def _has_half_a_board(self) -> bool:
        states = [task.state for task in self.team.board()]
        return sorted(states) == ["completed", "completed", "in_progress", "pending"]

    def _is_at_work(self) -> bool:
        states = [agent.state for agent in self.release.agents()]
        return len(states) == 9 and states.count("running") == 3 and "failed" in states


@contextmanager
def jobs_at_work() -> Iterator[Jobs]:
    """A fleet with all the jobs; their submitter has a home with hooks and MCP servers."""
    with closing(Fleet()) as fleet:
        home = fleet.folder / "home"
        hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": _HOOK}]}
        servers = {name: {"command": Path(find_server(name)).name} for name in ("git", "time")}
        for name, content in {
            ".claude/settings.json": {"hooks": {"PreToolUse": [hook]}},
            ".config/swarm/mcp.json": {"mcpServers": servers},
        }.items():
            (home / name).parent.mkdir(parents=True)
            (home / name).write_text(json.dumps(content))
        os.environ.update(HOME=str(home), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        fleet.start_worker(6)
        yield Jobs(fleet)
