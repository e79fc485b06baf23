"""One campaign: jobs run on a fleet while random parts of the fleet are killed, stopped and cut off, and are judged when they are over."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import redis

from swarm import Job
from swarm.core.errors import SwarmError
from tests import releases
from tests.chaos import blows, leftovers
from tests.chaos.check import dump
from tests.chaos.crashing_worker import CrashingWorker, orders_folder
from tests.chaos.ledger import Charges, check_ledger, count_repeats
from tests.chaos.memory import Sampler
from tests.chaos.plan import Plan, Talk, Tree
from tests.chaos.recovery import ExternalEvent, read_external_events, recoveries
from tests.chaos.section import Section
from tests.chaos.storming import Storm, answer_waits, check_storm
from tests.fleet import Fleet, Worker
from tests.redis_servers import Group, OwnServer
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

_REPOSITORY = Path(__file__).parents[2]
_ATTEMPTS = 60
"""To submit a job while Redis is being hit."""
_SAMPLES = 400
"""Of memory, at least in a long campaign; never more often than once a second."""
Work = Tree | Talk | Charges | Storm


class Campaign:
    """Runs one plan on a fleet of its own making, and keeps what was left of each job in `folder`. Not reusable."""

    def __init__(self, plan: Plan, folder: Path, server: OwnServer | Group | None = None) -> None:
        self.plan, self._folder = plan, folder
        if server is None:
            self.fleet = Fleet(**plan.settings)
        else:
            self.fleet = Fleet(redis_url=server.url, **plan.settings)
        self.section = Section(plan)
        self._chance = random.Random(plan.seed)
        hit = server or blows.LocalServer(self.fleet)
        self._blows = blows.Blows(self.fleet, hit, self._chance, self._hire, spare_one=plan.spare_one)
        self._client = server.client if server else lambda: self.fleet.swarm.store.keyspace.client
        self._planned: list[str] = []
        self._next_at = 0.0
        self._external_events: list[ExternalEvent] = []
        self._seen = "-"

    def run(self) -> Section:
        """Run its jobs to their ends, have each judged, close the fleet."""
        plan, section = self.plan, self.section
        self._folder.mkdir(parents=True, exist_ok=True)
        spared = self.fleet.workers if plan.spare_one else ()
        sampler = Sampler(self._blows.heartbeat, spared, self._client, max(1.0, plan.seconds / _SAMPLES))
        try:
            if plan.poison is not None:
                plan.poison.give(orders_folder(self.fleet))
            for worker in [self._hire() for _ in range(plan.workers)]:
                worker.wait_ready()
            section.redis = self._describe_redis()
            self._planned = list(plan.first)
            self._chance.shuffle(self._planned)
            section.began_at, began = time.time(), time.monotonic()
            self._next_at = began + 1.0
            sampler.start()
            try:
                self._play(began)
            except Exception:
                # The sections after this one are played all the same.
                section.complaints.append(f"it broke off:\n{traceback.format_exc()[-3000:]}")
            section.seconds = time.monotonic() - began
            sampler.stop()
            self._leave()
        finally:
            self.fleet.close()
        section.slopes, section.samples = sampler.slopes(), sampler.series
        # What dies with its parent may need a moment to be collected.
        _, alive = psutil.wait_procs(leftovers.processes_in(self.fleet.folder), timeout=3)
        if alive:
            section.complaints.append(f"processes are left over: {leftovers.describe(alive)}")
        return section

    def _hire(self) -> Worker:
        if self.plan.poison is not None:
            return CrashingWorker(self.fleet, self.plan.processes, wait=False)
        tree = self._release_of(len(self.fleet.workers))
        variables = {**self.plan.environment, **(releases.environment(tree) if tree else {})}
        return self.fleet.begin_worker(self.plan.processes, pool=self.plan.pool, **variables)

    def _release_of(self, number: int) -> Path | None:
        return self.plan.releases[number % len(self.plan.releases)]

    def _describe_redis(self) -> str:
        info = self._client().info("server")
        name, version = (
            ("Valkey", info["valkey_version"]) if "valkey_version" in info else ("Redis", info["redis_version"])
        )
        return f"{name} {version}, {(self.fleet.settings.redis_url or 'unix:').partition(':')[0]}"

    # -- the jobs and the blows ----------------------------------------------------------------------------

    def _play(self, began: float) -> None:
        until = began + self.plan.seconds
        played = 0
        while played < len(self.plan.works) or self._planned or time.monotonic() < until:
            self._play_job(self.plan.works[played % len(self.plan.works)], played + 1, until)
            played += 1
            if self.section.complaints:
                return

    def _play_job(self, work: Work, number: int, until: float) -> None:
        self.fleet.workspace = self.fleet.folder / f"work-{number}"
        self.fleet.workspace.mkdir()
        self._external_events, self._seen, first = [], "-", len(self._blows.dealt)
        # No limit is reached: that of tokens is there so that they are reserved and settled under fire, too.
        server = self.fleet.rehearse(work.scenario)
        job = self._submit(work, server)
        give_up = time.monotonic() + self.plan.job_seconds
        while not job.view().ended and time.monotonic() < give_up:
            self._blows.tend()
            self._listen(job)
            if isinstance(work, Storm):
                with contextlib.suppress(redis.RedisError, SwarmError):
                    answer_waits(self.fleet, job)
            self._strike(until)
            time.sleep(0.05)
        if not job.view().ended:
            self.section.complaints.append(
                f"job {number} has not ended within {self.plan.job_seconds} s: {_heartbeat(job)}"
            )
            return
        self._blows.tend()
        self._have_judged(job, work, number, server)
        self._listen(job)
        self._tell_recoveries(first)
        server.close()

    def _submit(self, work: Work, server: RehearsalServer) -> Job:
        # A client that submits does not wait for a Redis that is away; whoever submits decides.
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(redis.RedisError, SwarmError):
                if isinstance(work, Storm):
                    return work.submit(self.fleet, server)
                return self.fleet.submit(
                    work.prompt,
                    server,
                    mode="bypassPermissions" if isinstance(work, Charges) else None,
                    max_tokens=10**12,
                    max_turns=100_000,
                    max_resumes=100_000,
                )
            time.sleep(1.0)
        raise AssertionError(f"no job could be submitted in {_ATTEMPTS} attempts")

    def _strike(self, until: float) -> None:
        now = time.monotonic()
        if now < self._next_at or (now >= until and not self._planned):
            return
        kind = self._planned[-1] if self._planned else self._chance.choice(self.plan.kinds)
        if self._blows.can_strike(kind) and self._blows.strike(kind):
            self._planned = self._planned[:-1]
        self._next_at = time.monotonic() + self._chance.uniform(*self.plan.rest_seconds)

    def _listen(self, job: Job) -> None:
        # The stream of a long job is trimmed before its end. Messages are many, and no sign of life.
        store = self.fleet.swarm.store
        while rows := store.keyspace.client.xrange(store.keyspace.key("events", job.id), self._seen, count=1000):
            self._seen = f"({rows[-1][0]}"
            self._external_events += read_external_events([row for row in rows if row[1]["kind"] != "message"])

    # -- afterwards ----------------------------------------------------------------------------------------

    def _have_judged(self, job: Job, work: Work, number: int, server: RehearsalServer) -> None:
        """Write down what the job has left, and add what the checker, in a process of its own, makes of that."""
        # A worker that was stopped in the middle of a call may only now let its shell finish.
        wait_for("no shell runs", lambda: not leftovers.processes_in(self.fleet.workspace))
        log = self.fleet.workspace / "effects.log"
        effects = log.read_text().splitlines() if log.exists() else []
        path = self._folder / f"{self.plan.name}-{number}.jsonl.gz"
        left = dump.take(self.fleet.swarm.store.keyspace.client, job.id, effects=effects)
        dump.write(path, [left])
        verdict = run_checker(path, expect_failed=1 if self.plan.poison else 0, waive=self.plan.waive)
        self.section.add(verdict)
        if isinstance(work, Charges):
            book = self.fleet.folder / "ledger.db"
            self.section.complaints += check_ledger(work, left, book)
            self.section.figures["charges"] += work.calls
            self.section.figures["repeats"] = count_repeats(book)  # of all jobs so far
        if isinstance(work, Storm):
            self.section.complaints += check_storm(work, left, server)
        elif len(left.lives) != work.agents:
            self.section.complaints.append(f"job {number} has {len(left.lives)} agents instead of {work.agents}")

    def _tell_recoveries(self, first: int) -> None:
        section, external_events = self.section, self._external_events
        section.rescued += sum(event.kind == "rescued" for event in external_events)
        section.handed_over += sum(event.kind == "handed_over" for event in external_events)
        section.add_recoveries(recoveries(self._blows.dealt[first:], external_events))

    def _leave(self) -> None:
        self._blows.finish()
        section = self.section
        section.blows, section.drains = self._blows.dealt, self._blows.drains
        section.complaints += self._blows.complaints
        section.errors = leftovers.errors_of(self.fleet.workers)
        busy = (number for number, worker in enumerate(self.fleet.workers) if "agent.running" in worker.text())
        section.served = set(map(self._release_of, busy))
        section.complaints += [f"a worker's own fault: {text}" for text in leftovers.broke(section.errors)]


def run_checker(path: Path, *, expect_failed: int, waive: Sequence[str] = ()) -> dict[str, Any]:
    """The verdict of `python -m tests.chaos.check` on a file."""
    command = [sys.executable, "-m", "tests.chaos.check", str(path.absolute()), "--json"]
    command += ["--expect-failed", str(expect_failed), *(word for sort in waive for word in ("--waive", sort))]
    ran = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True)
    assert ran.returncode in (0, 1) and ran.stdout, ran.stderr
    return dict(json.loads(ran.stdout))


def _heartbeat(job: Job) -> str:
    agents = job.agents()
    return f"{[(a.id, a.state, a.activity, a.deaths) for a in agents if a.ended_at is None][:10]} of {len(agents)}"
