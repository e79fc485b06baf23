"""Messages: send → awake and reading on an idle fleet, sends a second against raw XADD, one message to 200 idle teammates."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing

from bench.lives import WIDE, claim_root
from bench.lives import submit as submit_plain
from bench.measure import Report, alternate, spread
from bench.served import serve
from swarm import Job
from swarm.agent.entries import Assistant, Mail, Spawned, Started
from swarm.agent.spec import AgentSpec
from swarm.core.ids import child_agent_id
from swarm.models import Block, Usage
from swarm.runtime.messenger import Messenger
from swarm.store.values import OutgoingMessage, Signals
from tests.fleet import Fleet
from tests.segments import make_segment
from tests.waiting import wait_for

TEAM = 200
PROCESSES = 4
SENDS = 100
BROADCASTS = 3
MESSAGES = 2_000
BATCH = 20
ROUNDS = 5
BODY = "word " * 20
_SCENARIO = """
name: idle team
rules:
  - when: {{prompt: '^stay'}}
    reply: {{text: here}}
  - when: {{turn: 0}}
    reply:
      tools: [{{name: TeamCreate, input: {{name: crew}}}}, {{name: BoardAdd, input: {{subject: the end, role: nobody}}}}, {members}]
  - reply: {{tools: [{{name: BoardWait, input: {{task_ids: [1], timeout_seconds: 3600}}}}]}}
"""


def run(report: Report, chosen: Namespace) -> None:
    """The idle team lives on one worker of 4 processes; the sends run in this process, one connection, against the same Redis."""
    with closing(Fleet()) as fleet:
        measure_team(report, fleet)
    with closing(Fleet()) as fleet:
        measure_sends(report, fleet)


def measure_team(report: Report, fleet: Fleet) -> None:
    """200 teammates with nothing to do: who holds a process, how soon one reads, how soon all have read."""
    members = ", ".join(
        f"{{name: Agent, input: {{description: m{n}, prompt: stay, name: m{n}, teammate: true}}}}" for n in range(TEAM)
    )
    path = fleet.folder / "team.yaml"
    path.write_text(_SCENARIO.format(members=members))
    store = fleet.swarm.store
    with serve(str(path)) as url:
        fleet.start_worker(PROCESSES)
        began = time.monotonic()
        job = fleet.swarm.submit("go", agent="build", workspace=fleet.workspace, base_url=url, limits=WIDE)
        wait_for(
            "all are idle",
            lambda: _count_idle(job) == TEAM and not store.keyspace.client.zcard(store.keyspace.key("leases")),
            600,
        )
        held = store.keyspace.client.zcard(store.keyspace.key("leases"))
        report.note(f"{TEAM} teammates idle after {time.monotonic() - began:.1f} s; processes held: {held}")
        ids = {agent.name: agent.id for agent in job.agents()}
        reading = []
        for number in range(SENDS):
            # Different ones, so that none has a process that just read its journal.
            reading.append(_send_and_wait(fleet, job, [ids[f"m{number * 7 % TEAM}"]], f"m{number * 7 % TEAM}"))
            wait_for("it is idle again", lambda: _count_idle(job) == TEAM, 30)
        p50 = statistics.median(reading)
        report.note(f"send → awake and reading: {spread(reading, ' ms', 1e3)}")
        report.figure("messages, send → reading p50", p50 * 1e3, " ms", target=15)
        all_ids = [agent_id for name, agent_id in ids.items() if name]
        times = []
        for _ in range(BROADCASTS):
            times.append(_send_and_wait(fleet, job, all_ids, "*"))
            wait_for("all are idle again", lambda: _count_idle(job) == TEAM, 60)
        report.note(f"1 → {TEAM}: all have read it after {statistics.median(times):.2f} s")
        job.cancel()


def _count_idle(job: Job) -> int:
    return sum(agent.idle for agent in job.agents())


def _send_and_wait(fleet: Fleet, job: Job, receivers: Sequence[str], to: str) -> float:
    """From the call of `send` to the last of the journal entries that hold the message."""
    store = fleet.swarm.store
    before = {agent_id: store.agents.get(agent_id).length for agent_id in receivers}
    began = time.time()
    job.send(to, BODY)
    read: dict[str, float] = {}

    def all_have_read() -> bool:
        for agent_id in set(receivers) - read.keys():
            mail = [entry for entry in store.journals.read(agent_id, before[agent_id]) if isinstance(entry, Mail)]
            if mail:
                read[agent_id] = mail[0].at
        return len(read) == len(receivers)

    wait_for("all have read it", all_have_read, 60)
    return max(read.values()) - began


def measure_sends(report: Report, fleet: Fleet) -> None:
    """An agent with 20 others that do not run: what its `SendMessage` calls cost until their results are journaled."""
    store = fleet.swarm.store
    job = submit_plain(fleet, "http://127.0.0.1:9", "send")
    claim = claim_root(fleet, job)
    segment = make_segment(claim, store, fleet.settings)
    journal = segment.journal
    journal.append([Started(spec=claim.spec)])
    specs = [_child(claim.spec, number) for number in range(20)]
    spawned = journal.stamp(Spawned(children={spec.name or "": spec.agent_id for spec in specs}))
    assert isinstance(store.agents.spawn(claim, journal.next_number, spawned, specs), Signals)
    journal.history.apply(spawned)
    messenger = Messenger(segment)
    numbers = iter(range(10**9))

    def send_calls(batch: int) -> float:
        spent = 0.0
        for _ in range(MESSAGES // batch):
            calls = [_call(next(numbers), specs) for _ in range(batch)]
            reply = Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="bench")
            journal.append([reply])
            began = time.perf_counter()
            messenger.send(calls)
            spent += time.perf_counter() - began
            assert not journal.history.pending
        # Nobody reads them: forgotten, so that the mailboxes are as at the beginning.
        for spec in specs:
            store.keyspace.client.delete(store.keyspace.key("mail", spec.agent_id))
            store.keyspace.client.hdel(store.keyspace.key("agent", spec.agent_id), "unread")
        return MESSAGES / spent

    def send_from_outside() -> float:
        outgoing = OutgoingMessage(job=job.id, sender=job.id, name="user", kind="message", body=BODY)
        receivers = store.mail.directory(job.id).find(specs[0].agent_id, job.id)
        began = time.perf_counter()
        for number in range(MESSAGES // 4):
            store.mail.send(outgoing.model_copy(update={"token": str(number), "max_unread": 10**6}), receivers)
        spent = time.perf_counter() - began
        store.keyspace.client.delete(store.keyspace.key("mail", specs[0].agent_id))
        store.keyspace.client.hdel(store.keyspace.key("agent", specs[0].agent_id), "unread")
        for key in store.keyspace.client.scan_iter(store.keyspace.key("sent", "*"), count=1000):
            store.keyspace.client.delete(key)
        return MESSAGES // 4 / spent

    def raw() -> float:
        fields = {"from": claim.agent_id, "name": "root", "kind": "message", "body": BODY, "reply_to": ""}
        store.keyspace.client.delete("bench:raw")
        began = time.perf_counter()
        for _ in range(MESSAGES):
            store.keyspace.client.xadd("bench:raw", fields)
        return MESSAGES / (time.perf_counter() - began)

    singles, batches, outside, raws = (
        statistics.median(values)
        for values in alternate(ROUNDS, lambda: send_calls(1), lambda: send_calls(BATCH), send_from_outside, raw)
    )
    report.note(f"SendMessage, {BATCH} in a reply {batches:,.0f}/s; one in a reply {singles:,.0f}/s")
    report.note(f"from outside {outside:,.0f}/s; XADD {raws:,.0f}/s")
    report.figure(f"messages, XADD against {BATCH} in a reply", raws / batches, "×", target=2)
    report.note(f"XADD is {raws / singles:.2f}× as fast as one in a reply, {raws / outside:.2f}× as one from outside")


def _child(parent: AgentSpec, number: int) -> AgentSpec:
    name = f"m{number}"
    child = {"agent_id": child_agent_id(parent.agent_id, name), "parent_id": parent.agent_id, "depth": 1, "name": name}
    return parent.model_copy(update=child)


def _call(number: int, specs: Sequence[AgentSpec]) -> Block:
    given = {"to": specs[number % len(specs)].name, "message": BODY}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "SendMessage", "input": given}
