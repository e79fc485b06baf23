"""One campaign: a tree of agents runs on a fleet while random parts of the fleet are killed, stopped and cut off."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from swarm import Job
from swarm.local.redis_server import find_redis
from swarm.rehearsal.tree import tree_size
from tests.chaos import verify
from tests.chaos.evidence import collect, describe, processes_in
from tests.chaos.recovery import Blow, Happening, percentile, read_happenings, recoveries
from tests.fleet import Fleet, Worker
from tests.waiting import wait_for

KINDS = ("child", "worker", "stop", "redis", "cut")
"""SIGKILL a pool process; SIGKILL a worker and start another; SIGSTOP a worker past its lease, then SIGCONT; SIGKILL
Redis and start it again; close every connection to Redis."""


@dataclass(frozen=True)
class Plan:
    """What runs, on what, and how it is hit. The same seed plans the same blows, at times of their own."""

    depth: int
    fanout: int
    steps: int = 2
    think_ms: int = 200
    workers: int = 3
    processes: int = 3
    seed: int = 1
    blows: Sequence[str] = ()
    """The kinds to begin with, in a random order …"""
    kinds: Sequence[str] = KINDS
    """Those that come after them by chance."""
    rest_seconds: tuple[float, float] = (0.3, 1.5)
    """… and how long to rest before each."""
    until_seconds: float = 0.0
    """After the planned ones, random ones go on until this long after the start."""
    deadline_seconds: float = 120.0

    @property
    def agents(self) -> int:
        """How many agents the tree has."""
        return tree_size(self.depth, self.fanout)

    @property
    def scenario(self) -> str:
        """What is played."""
        return "tree"

    @property
    def prompt(self) -> str:
        """The order to the root."""
        return f"TREE depth={self.depth} fanout={self.fanout} steps={self.steps} write=1 think={self.think_ms}"


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    broken: list[str] = field(default_factory=list)
    """Every broken promise; must be empty."""
    blows: list[Blow] = field(default_factory=list)
    seconds: float = 0.0
    agents: int = 0
    lost: int = 0
    doubled: int = 0
    interrupted: int = 0
    rescued: int = 0
    recovery: dict[str, list[float]] = field(default_factory=dict)

    def figures(self) -> str:
        """The figures, to be printed."""
        counts = Counter(blow.kind for blow in self.blows)
        lines = [
            f"chaos: {self.agents} agents, {self.plan.workers} workers x {self.plan.processes} processes, "
            f"{self.seconds:.0f} s, seed {self.plan.seed}",
            f"  blows {len(self.blows)}: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS),
            f"  lost {self.lost}, doubled {self.doubled}, rescued {self.rescued}, interrupted calls {self.interrupted}",
        ]
        for kind in KINDS:
            if values := self.recovery.get(kind):
                lines.append(
                    f"  recovery after {kind:<6} p50 {percentile(values, 0.5):5.2f} s  "
                    f"p99 {percentile(values, 0.99):5.2f} s  of {len(values)}"
                )
        return "\n".join(lines)


class Campaign:
    """Runs one plan on a fleet of its own making. Not reusable."""

    def __init__(self, fleet: Fleet, plan: Plan) -> None:
        self.fleet, self.plan = fleet, plan
        self.report = Report(plan)
        self._random = random.Random(plan.seed)
        self._stopped: dict[Worker, float] = {}
        self._killed: set[Worker] = set()
        self._happenings: list[Happening] = []
        self._seen = "-"

    def run(self) -> Report:
        """Run to the job's end, check what is left, close the fleet."""
        plan, report = self.plan, self.report
        for _ in range(plan.workers):
            self.fleet.start_worker(plan.processes)
        # No limit is reached: that of tokens is there so that they are reserved and settled under fire, too.
        server = self.fleet.rehearse(plan.scenario)
        job = self.fleet.submit(plan.prompt, server, max_tokens=10**12, max_turns=100_000)
        began = time.monotonic()
        self._fight(job, began)
        report.seconds = time.monotonic() - began
        self._resume(force=True)
        if not job.view().ended:
            report.broken.append(f"the job has not ended within {plan.deadline_seconds} s: {self._standing(job)}")
        self._examine(job)
        self._leave()
        return report

    # -- the blows -----------------------------------------------------------------------------------------

    def _fight(self, job: Job, began: float) -> None:
        planned = list(self.plan.blows)
        self._random.shuffle(planned)
        next_at = began + 1.0
        while not job.view().ended and time.monotonic() - began < self.plan.deadline_seconds:
            self._resume()
            self._note_deaths()
            self._listen(job)
            now = time.monotonic()
            if now >= next_at and (planned or now - began < self.plan.until_seconds):
                self._strike(planned.pop() if planned else self._random.choice(self.plan.kinds))
                next_at = time.monotonic() + self._random.uniform(*self.plan.rest_seconds)
            time.sleep(0.05)

    def _strike(self, kind: str) -> None:
        at = time.time()
        worker = self._random.choice(self._standing_workers()) if kind in ("child", "worker", "stop") else None
        match kind:
            case "child":
                assert worker is not None
                victims = worker.children()
                if victims:
                    self._random.choice(victims).kill()
            case "worker":
                assert worker is not None
                self._killed.add(worker)
                worker.kill()
                self.fleet.start_worker(self.plan.processes)
            case "stop":
                assert worker is not None
                if len(self._standing_workers()) == 1:
                    return
                os.killpg(worker.process.pid, signal.SIGSTOP)
                self._stopped[worker] = time.monotonic() + self.fleet.settings.lease_seconds + 1.5
            case "redis":
                server = find_redis(self.fleet.settings)
                assert server is not None, "the fleet's Redis runs"
                server.kill()
                wait_for("Redis is dead", lambda: find_redis(self.fleet.settings) is None)
                time.sleep(self._random.uniform(0.0, 1.0))
                self.fleet.restart_redis()
            case "cut":
                self.fleet.swarm.store.client.client_kill_filter(_type="normal", skipme=True)
        over_at = time.time() if kind == "redis" else at
        self.report.blows.append(Blow(kind, at, worker.process.pid if worker else None, over_at))

    def _standing_workers(self) -> list[Worker]:
        return [w for w in self.fleet.workers if w not in self._killed and w not in self._stopped]

    def _resume(self, *, force: bool = False) -> None:
        for worker, until in list(self._stopped.items()):
            if force or time.monotonic() >= until:
                os.killpg(worker.process.pid, signal.SIGCONT)
                del self._stopped[worker]

    def _note_deaths(self) -> None:
        for worker in self._standing_workers():
            if worker.process.poll() is not None:
                self._killed.add(worker)
                code, log = worker.process.returncode, worker.text()[-1500:]
                self.report.broken.append(f"a worker that nobody killed ended with code {code}:\n{log}")
                self.fleet.start_worker(self.plan.processes)

    def _listen(self, job: Job) -> None:
        # The stream of a long job is trimmed before its end. Messages are many, and no sign of life.
        store = self.fleet.swarm.store
        while rows := store.client.xrange(store.key("events", job.id), self._seen, count=1000):
            self._seen = f"({rows[-1][0]}"
            self._happenings += read_happenings([row for row in rows if row[1]["kind"] != "message"])

    # -- afterwards ----------------------------------------------------------------------------------------

    def _examine(self, job: Job) -> None:
        report = self.report
        # A worker that was stopped in the middle of a call may only now let its shell finish.
        wait_for("no shell runs", lambda: not processes_in(self.fleet.workspace))
        evidence = collect(self.fleet, job)
        report.broken += verify.check(evidence)
        report.agents = len(evidence.agents)
        if report.agents != self.plan.agents:
            report.broken.append(f"the tree has {report.agents} agents instead of {self.plan.agents}")
        report.lost, report.doubled = verify.lost(evidence), verify.doubled(evidence)
        report.interrupted = verify.interrupted(evidence)
        self._tell_recoveries(job)

    def _tell_recoveries(self, job: Job) -> None:
        self._listen(job)
        self.report.rescued = sum(event.kind == "rescued" for event in self._happenings)
        self.report.recovery = recoveries(self.report.blows, self._happenings)

    def _leave(self) -> None:
        for worker in self._standing_workers():
            code = worker.stop(signal.SIGTERM)
            if code != 0:
                self.report.broken.append(f"a worker left with code {code}:\n{worker.text()[-1500:]}")
        self.fleet.close()
        # What dies with its parent may need a moment to be collected.
        _, alive = psutil.wait_procs(processes_in(self.fleet.folder), timeout=3)
        if alive:
            self.report.broken.append(f"processes are left over: {describe(alive)}")

    def _standing(self, job: Job) -> str:
        agents = job.agents()
        open_ones = [(a.id, a.state, a.activity, a.deaths) for a in agents if a.ended_at is None][:10]
        return f"{Counter(agent.state for agent in agents)}, {open_ones}"
