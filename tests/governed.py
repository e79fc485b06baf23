"""A fleet under the limits of one model's server: jobs of siblings that always want to ask, and what became of their requests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarm import Job, Limits
from swarm.agent.entries import Assistant, ModelFailed
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer

_FILLER = "All that is said here is worth caching. " * 450
"""Makes what a definition's requests begin with some 5 000 tokens long."""


@dataclass(frozen=True)
class Load:
    """What is asked of the server, and what it grants."""

    jobs: int
    siblings: int
    """Agents of each job, beside its root."""
    weights: Sequence[int]
    """Of the jobs, taken in turns."""
    requests: int
    """A minute; the same for tokens."""
    input_tokens: int
    output_tokens: int
    reply_tokens: int = 700
    reply_seconds: float = 1.5
    stated: bool = True
    overloaded: float = 0.005
    """The share of requests that are answered 529 at any time …"""
    storm: tuple[float, float] | None = None
    """… and between these seconds `STORM_SHARE` of them."""
    turns: int = 100_000

    @property
    def limit(self) -> float:
        """How many turns a minute the limits allow at most."""
        return min(self.requests, self.output_tokens / self.reply_tokens)


STORM_SHARE = 0.6


def scenario(load: Load) -> str:
    """Of each job the root starts its siblings, which list a folder again and again; each job's begin with a text of their own."""
    rules = []
    for number in range(load.jobs):
        calls = ", ".join(
            f'{{name: Agent, input: {{description: "sibling {n}", prompt: "go {n}", subagent_type: kind-{number}}}}}'
            for n in range(load.siblings)
        )
        rules.append(f"  - {{when: {{prompt: 'JOB {number};', turn: 0}}, reply: {{tools: [{calls}]}}}}")
    storms = f"  - {{kind: 529, probability: {load.overloaded}}}\n" if load.overloaded else ""
    if load.storm:
        storms += f"  - {{kind: 529, probability: {STORM_SHARE}, between: [{load.storm[0]}, {load.storm[1]}]}}\n"
    spent = f"usage: {{output_tokens: {load.reply_tokens}}}"
    return f"""
name: governed
latency_seconds: {load.reply_seconds}
cache_minimum_tokens: 1024
rate_limits:
  enforce: true
  refusals_count: true
  stated: {str(load.stated).lower()}
  requests: {load.requests}
  input_tokens: {load.input_tokens}
  output_tokens: {load.output_tokens}
{f"faults:{chr(10)}{storms}" if storms else ""}rules:
{chr(10).join(rules)}
  - {{when: {{prompt: 'JOB '}}, reply: {{text: ALL}}}}
  - when: {{turn: "0-{load.turns - 1}"}}
    reply: {{tools: [{{name: LS, input: {{path: "."}}}}], {spent}}}
  - reply: {{text: DONE, {spent}}}
"""


@dataclass
class Told:
    """What the journals and the server tell, between two times."""

    seconds: float
    turns: Counter[int] = field(default_factory=Counter)
    """Of each job."""
    refused: Counter[str] = field(default_factory=Counter)
    cold: Counter[int] = field(default_factory=Counter)
    """Of each job, the siblings that wrote what all of them begin with, since the beginning."""
    times: list[float] = field(default_factory=list)
    """When replies came."""
    failed: int = 0

    @property
    def wasted(self) -> float:
        """The share of requests that were refused."""
        refused = sum(self.refused.values())
        return refused / max(1, refused + sum(self.turns.values()))

    @property
    def per_minute(self) -> float:
        return sum(self.turns.values()) * 60 / self.seconds

    def unfairness(self, weights: Sequence[int]) -> float:
        """How far a job's turns are from its share of all, at most: 0.1 is a tenth."""
        part = sum(self.turns.values()) / sum(weights)
        return max(abs(self.turns[job] / (part * weight) - 1) for job, weight in enumerate(weights))


class Governed:
    """The jobs, at work."""

    def __init__(self, fleet: Fleet, load: Load) -> None:
        self.fleet, self.load = fleet, load
        folder = fleet.workspace / ".swarm" / "agents"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(load.jobs):
            text = f"---\nname: kind-{number}\ndescription: One of job {number}.\n---\nYou are of kind {number}. {_FILLER}\n"
            (folder / f"kind-{number}.md").write_text(text)
        self.server: RehearsalServer = fleet.rehearse(scenario(load))
        self.weights = [load.weights[number % len(load.weights)] for number in range(load.jobs)]
        self.jobs: list[Job] = []

    def submit(self) -> None:
        """Begin all of them."""
        limits = Limits(max_depth=2, max_agents=10_000, max_running=1_000, max_turns=100_000)
        self.jobs = [
            self.fleet.swarm.submit(
                f"JOB {number};",
                agent="general-purpose",
                workspace=self.fleet.workspace,
                base_url=self.server.url,
                limits=limits,
                priority=weight,
            )
            for number, weight in enumerate(self.weights)
        ]

    def read(self, since: float, until: float) -> Told:
        """What happened between these times, Unix seconds."""
        told = Told(until - since)
        store = self.fleet.swarm.store
        for number, job in enumerate(self.jobs):
            for agent in job.agents():
                told.failed += agent.state == "failed"
                first = True
                for entry in store.journals.read(agent.id):
                    if isinstance(entry, Assistant):
                        if agent.parent_id and first and not entry.usage.cache_read_input_tokens:
                            told.cold[number] += 1
                        first = False
                    if not since <= entry.at < until:
                        continue
                    if isinstance(entry, Assistant):
                        told.turns[number] += 1
                        told.times.append(entry.at)
                    elif isinstance(entry, ModelFailed):
                        told.refused[entry.error_kind] += 1
        told.times.sort()
        return told

    def cancel(self) -> None:
        for job in self.jobs:
            job.cancel()


def recovery_seconds(times: Sequence[float], end: float, per_second: float, window: float = 10.0) -> float:
    """After how many seconds from `end` on so many replies a second came again, over a window of some seconds."""
    step = 0.5
    moment = end
    while moment < times[-1] - window:
        if sum(moment <= at < moment + window for at in times) >= per_second * window:
            return moment - end
        moment += step
    return float("inf")


def now() -> float:
    """The clock of this machine, on which all of the fleet is."""
    return time.time()
