"""Workflows under fire: each child made and paid once, the right value, and no process held while nothing is left but to wait."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm import Job, Limits
from tests.chaos.check.dump import Job as Left
from tests.chaos.check.lives import end_of, entries_of, prompt_of
from tests.fleet import Fleet
from tests.outside import storms
from tests.rehearsal import RehearsalServer

MODULE = "tests.outside.storms"


@dataclass(frozen=True)
class Storm:
    """One workflow of about so many agents, with loops in loops, failures, a late agent, a question, an event and moments."""

    size: int = 40
    seed: int = 1
    scenario = storms.SCENARIO

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return storms.expected(self.size, self.seed)[1]

    @property
    def prompt(self) -> str:
        """The workflow's task."""
        return json.dumps({"agents": self.size, "seed": self.seed})

    def submit(self, fleet: Fleet, server: RehearsalServer) -> Job:
        """Start it, with the inner workflows in its workspace."""
        for place, text in storms.scripts():
            path = Path(fleet.workspace, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        limits = Limits(max_depth=8, max_agents=10_000, max_running=1_000, max_tokens=10**12, max_turns=100_000)
        return fleet.swarm.submit(
            self.prompt,
            agent="storm",
            allow=["add"],
            workspace=fleet.workspace,
            base_url=server.url,
            ask_seconds=3_600,
            limits=limits,
        )


def answer_waits(fleet: Fleet, job: Job) -> bool:
    """Answer what the job's workflow waits for, but only once it holds no process. Returns whether something was answered."""
    for question in fleet.swarm.questions.open(job.id):
        if fleet.swarm.agent(question.agent_id).state != "parked":
            continue
        if question.kind == "event":
            fleet.swarm.event(question.title, "now", by="chaos")
        else:
            fleet.swarm.questions.answer(question.id, "yes", by="chaos")
        return True
    return False


def check_storm(work: Storm, left: Left, server: RehearsalServer) -> list[str]:
    """Return what is wrong with a storm's value, its agents, or what they cost."""
    value, count = storms.expected(work.size, work.seed)
    root = left.lives[left.record["root"]]
    end: dict[str, Any] = end_of(root) or {}
    complaints = [] if end.get("data") == value else [f"it returned {end.get('data')} {end.get('reason')}, not {value}"]
    if len(left.lives) != count:
        complaints.append(f"it has {len(left.lives)} agents instead of {count}")
    paid, claims = 0, 0
    prompts: Counter[str] = Counter()
    for history in left.lives.values():
        prompt = prompt_of(history)
        if entries_of(history, "advanced"):
            calls = [call["id"] for entry in entries_of(history, "advanced") for call in entry["calls"]]
            complaints += [f"{history.id} asked twice for {one}" for one, n in Counter(calls).items() if n > 1]
            continue
        prompts[prompt] += 1
        turns = len(entries_of(history, "assistant"))
        paid += turns
        claims += int(history.record.get("gen", 0))
        late = "SLOW" in prompt
        if turns > 1 or (turns == 0 and not late):
            complaints.append(f"{history.id} was paid {turns} times for {prompt}")
    complaints += [
        f"{n} agents were told {prompt}"
        for prompt, n in prompts.items()
        if n != (2 if prompt.startswith("FAIL") else 1)
    ]
    requests = int(server.stats()["requests"])
    # A process that died between a reply and its entry asks again: at most once for each claim of the agent beyond the first.
    if not paid <= requests <= paid + claims:
        complaints.append(f"the server counts {requests} requests, the journals {paid} replies of {claims} claims")
    return complaints
