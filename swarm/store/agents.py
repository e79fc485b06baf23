"""Agents and jobs as Redis keeps them: every change is one atomic step, every answer a value.

Guarantees: a terminal state is never overwritten; a write by a segment that lost its claim raises `NotOwner` and changes
nothing; whatever is put on the queue is in the outbox until somebody claims it, so a caller that dies before publishing loses
nothing.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import redis
from pydantic import BaseModel, ConfigDict, Field

from swarm.agent.entries import Condition, Entry, Finished, Mail, Spawned, Started, decode_entry, encode_entry
from swarm.agent.spec import TERMINAL_STATES, AgentSpec, Limits
from swarm.errors import (
    AgentCancelled,
    JournalError,
    MailboxFull,
    MessageRefused,
    NotOwner,
    ReceiverEnded,
    StaleRequest,
    SwarmError,
    UnknownAgent,
    UnknownReceiver,
)
from swarm.mailbox import MAX_UNREAD, Directory, Kind, Message, Receiver, read_mail
from swarm.store.prefixes import Prefixes
from swarm.store.scripts import Scripts

NANO = 1_000_000_000
"""Money is counted in whole nano-dollars, so that sums are exact."""
JOURNAL_PAGE = 500
"""Entries fetched at a time."""


@dataclass(frozen=True)
class Claim:
    """The right to run one segment of an agent."""

    agent_id: str
    generation: int
    spec: AgentSpec
    deadline: float | None
    """When the job must be over (Unix seconds), if it has a limit."""
    unread: int = 0
    """Messages in its mailbox beyond the journal's cursor."""
    length: int | None = None
    """How many entries its journal had then."""


@dataclass(frozen=True)
class Hint:
    """What a wake-up says of an agent, from its record and its job's."""

    state: str
    job: str
    parent: str | None
    depth: int
    generation: int
    yielded: bool
    """It gave its turn up to others, so it queues behind them."""
    definition: str
    label: str
    max_depth: int


@dataclass(frozen=True)
class Refused:
    """The agent is not to be run now; `why` is its state, `capped` or `unknown`."""

    why: str


@dataclass(frozen=True)
class Counters:
    """What a step adds to the agent's and the job's sums."""

    turns: int = 0
    tools: int = 0
    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    cost: int = 0
    """Nano-dollars."""

    def changed(self) -> dict[str, int]:
        """The ones that are not zero."""
        return {name: value for name, value in vars(self).items() if value}


@dataclass(frozen=True)
class Continuation:
    """More work for a child that exists: with its whole context, under its id."""

    agent_id: str
    prompt: str
    background: bool


class Letter(BaseModel):
    """A message about to be sent; who it is from is written here by the runtime, never by the sender."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    job: str
    sender: str = Field(serialization_alias="from")
    name: str
    kind: Kind
    body: str
    reply_to: str = ""
    request: str = ""
    """The id of the request that it opens …"""
    expires: float = 0.0
    """… which can be answered for so many seconds."""
    approve: bool = False
    live_only: bool = False
    """Do not resume a receiver that has ended."""
    token: str = ""
    """From outside: what tells a repeat of this letter, sent again after a broken connection, from another one."""
    max_unread: int = MAX_UNREAD
    to: Sequence[str] = ()
    """The ids of its receivers."""
    entry: str = ""
    """From an agent: the result of its call, as its journal keeps it."""


@dataclass(frozen=True)
class Effect:
    """What the caller must tell the fleet after a step: whom to publish, whom to stop."""

    publish: Sequence[str] = ()
    kill: Sequence[str] = ()


@dataclass(frozen=True)
class Sent:
    """Messages were delivered."""

    effect: Effect
    unread: int | None
    """How many messages the sender itself has not read; None when it was not looked up."""
    count: int
    """How many, from the first on."""
    ids: Sequence[str] = ()
    """The last one's ids in the mailboxes, in the order of its receivers."""
    refusal: MessageRefused | None = None
    """Why the next one was not, if there is one. A step that was repeated does not know."""


@dataclass(frozen=True)
class Rescue(Effect):
    """What a sweep found."""

    rescued: Sequence[str] = ()
    quarantined: Sequence[str] = ()


@dataclass(frozen=True)
class GoOn:
    """What an agent wanted to park for holds already."""

    why: Literal["children", "tasks", "time", "mail", "answer", "nothing"]
    """`nothing`: it wanted to rest, and nobody is at work for it any more."""


@dataclass(frozen=True)
class NotSpawned:
    """No child was made, because of this; the caller may ask again for fewer."""

    why: Literal["limit", "depth", "name", "resume", "team"]
    child: str = ""
    """The child whose name is taken, that cannot go on, or that would need a team."""
    detail: str = ""
    """The name that is taken; the state of the child that cannot go on, empty when it is nobody's or another's."""
    room: int = 0
    """How many more agents the job may have."""


@dataclass(frozen=True)
class OutOfBudget:
    """A reservation that does not fit. Amounts are tokens, or nano-dollars for `budget`."""

    name: Literal["tokens", "budget"]
    limit: int
    used: int


class Store:
    """The swarm's state in one Redis."""

    def __init__(self, client: redis.Redis, prefix: str = "swarm") -> None:
        # The stubs do not know that `decode_responses` makes every answer text.
        self.client: Any = client
        self.prefix = prefix
        self._scripts = Scripts(client, prefix)
        self._prefixes = Prefixes()

    def key(self, *parts: str) -> str:
        """A key under this swarm's prefix."""
        return ":".join((self.prefix, *parts))

    def now(self) -> float:
        """The server's clock, Unix seconds."""
        seconds, micro = self.client.time()
        return float(seconds) + float(micro) / 1e6

    # -- jobs ----------------------------------------------------------------------------------------------

    def run(self, script: str, *arguments: str | int | float) -> Any:
        """Run one of the atomic steps."""
        return self._scripts.run(script, *arguments)

    def submit(
        self, spec: AgentSpec, *, catalogue: str, retention_seconds: float, rules: str = "", ask_seconds: float = 0.0
    ) -> Effect:
        """Make the job and its root agent; the same ids again change nothing."""
        limits = spec.limits
        job: dict[str, Any] = {
            "title": spec.description,
            "workspace": spec.workspace,
            "catalogue": catalogue,
            "rules": rules,
            "ask_seconds": ask_seconds,
            "limits": limits.model_dump_json(),
            "retention": int(retention_seconds),
            "max_depth": limits.max_depth,
            "max_agents": limits.max_agents,
            "max_running": limits.max_running,
        }
        if limits.max_tokens is not None:
            job["max_tokens"] = limits.max_tokens
        if limits.budget_usd is not None:
            job["max_cost"] = round(limits.budget_usd * NANO)
        answer = self._scripts.run(
            "submit",
            spec.job_id,
            spec.agent_id,
            json.dumps(job),
            json.dumps(_agent_fields(spec)),
            "" if limits.timeout_seconds is None else limits.timeout_seconds,
        )
        return Effect(publish=answer[1])

    def job(self, job_id: str) -> dict[str, str]:
        """The job's record. Raises `UnknownAgent`."""
        record = self.client.hgetall(self.key("job", job_id))
        if not record:
            raise UnknownAgent(f"no job {job_id}; `swarm jobs` lists those that exist")
        return dict(record)

    def jobs(self, count: int = 50) -> list[tuple[str, dict[str, str]]]:
        """The newest jobs, newest first; expired ones are forgotten on the way."""
        found: list[tuple[str, dict[str, str]]] = []
        for job_id in self.client.zrevrange(self.key("jobs"), 0, count - 1):
            record = self.client.hgetall(self.key("job", job_id))
            if record:
                found.append((job_id, dict(record)))
            else:
                self.client.zrem(self.key("jobs"), job_id)
        return found

    def permissions(self, job_id: str) -> tuple[str, list[str], float]:
        """The job's rules as JSON, those that approvals have added since, and for how long its questions can be answered."""
        rules, seconds = self.client.hmget(self.key("job", job_id), "rules", "ask_seconds")
        added = list(self.client.lrange(self.key("job", job_id, "rules"), 0, -1))
        return rules or "", added, float(seconds or 0)

    def catalogue(self, job_id: str) -> str:
        """The definitions that travelled with the job, as JSON."""
        return str(self.client.hget(self.key("job", job_id), "catalogue") or "{}")

    def agents_of(self, job_id: str) -> list[tuple[str, dict[str, str]]]:
        """The job's agents with their records (without the spec), oldest first."""
        ids = self.client.zrange(self.key("job", job_id, "agents"), 0, -1)
        pipeline = self.client.pipeline(transaction=False)
        for agent_id in ids:
            pipeline.hgetall(self.key("agent", agent_id))
        records = pipeline.execute() if ids else []
        return [
            (agent_id, {k: v for k, v in record.items() if k != "spec"})
            for agent_id, record in zip(ids, records, strict=True)
        ]

    # -- one agent -----------------------------------------------------------------------------------------

    def agent(self, agent_id: str) -> dict[str, str]:
        """The agent's record. Raises `UnknownAgent`."""
        record = self.client.hgetall(self.key("agent", agent_id))
        if not record:
            raise UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")
        return dict(record)

    def fields(self, agent_ids: Sequence[str], *names: str) -> list[list[str | None]]:
        """Some fields of several agents, in one round trip."""
        if not agent_ids:
            return []
        pipeline = self.client.pipeline(transaction=False)
        for agent_id in agent_ids:
            pipeline.hmget(self.key("agent", agent_id), *names)
        return list(pipeline.execute())

    def children(self, agent_id: str) -> set[str]:
        """The ids of the agents it started."""
        return set(self.client.smembers(self.key("children", agent_id)))

    def hints(self, agent_ids: Sequence[str]) -> list[Hint | None]:
        """What a wake-up says of each of these agents; None for one that does not exist. One round trip."""
        answers = self._scripts.run("hint", *agent_ids) if agent_ids else []
        return [
            Hint(
                state,
                job,
                parent or None,
                int(depth),
                int(generation),
                bool(yielded),
                definition,
                label,
                int(max_depth),
            )
            if job is not None and max_depth is not None
            else None
            for state, job, parent, depth, generation, yielded, definition, label, max_depth in answers
        ]

    def ended(self, agent_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The records of those that have ended."""
        found = {}
        for agent_id, values in zip(agent_ids, self.fields(agent_ids, *_RESULT_FIELDS), strict=True):
            if values[0] in TERMINAL_STATES:
                found[agent_id] = {name: value or "" for name, value in zip(_RESULT_FIELDS, values, strict=True)}
        return found

    def journal(self, agent_id: str, after: int = 0) -> Iterator[Entry]:
        """The journal's entries after number `after`, in order.

        Raises `JournalError` for an entry that cannot be read, or a gap in the numbers.
        """
        while True:
            page = self.client.xrange(
                self.key("journal", agent_id), f"({after}-0" if after else "-", "+", count=JOURNAL_PAGE
            )
            for entry_id, fields in page:
                number = int(entry_id.split("-", 1)[0])
                if number != after + 1:
                    raise JournalError(f"agent {agent_id}: journal entry {after + 1} is missing")
                entry = decode_entry(fields["e"], agent_id=agent_id, number=number)
                yield self._prefixes.put_back(entry, self._prefix) if isinstance(entry, Started) else entry
                after = number
            if len(page) < JOURNAL_PAGE:
                return

    def _prefix(self, job_id: str, digest: str) -> str | None:
        found = self.client.hget(self.key("job", job_id, "prefixes"), digest)
        return None if found is None else str(found)

    # -- the steps of a segment ----------------------------------------------------------------------------

    def claim(self, agent_id: str, worker: str, lease_seconds: float) -> Claim | Refused:
        """Take the right to run the agent's next segment."""
        answer = self._scripts.run("claim", agent_id, worker, lease_seconds, secrets.token_hex(8))
        match answer[0]:
            case "ok":
                deadline = float(answer[3]) if answer[3] else None
                spec = AgentSpec.model_validate_json(answer[2])
                return Claim(agent_id, int(answer[1]), spec, deadline, answer[4], answer[5])
            case "refused":
                return Refused(answer[1])
            case why:
                return Refused(why)

    def append(
        self,
        claim: Claim,
        number: int,
        entries: Sequence[Entry],
        *,
        activity: str = "",
        counters: Counters | None = None,
        settle: bool = False,
    ) -> int | None:
        """Append entries, the first as number `number`; answers how many messages are unread, if it was not done already.

        Raises `NotOwner` or `AgentCancelled`, having changed nothing.
        """
        documents, digest, prefix = [], "", ""
        for entry in entries:
            if isinstance(entry, Started):
                entry, digest, prefix = self._prefixes.take_out(entry)
            documents.append(encode_entry(entry))
        changed = json.dumps(counters.changed() if counters else {})
        answer = self._scripts.run(
            "append",
            *(claim.agent_id, claim.generation, number, activity, changed, int(settle), digest, prefix),
            *documents,
        )
        self._check(answer, claim)
        return int(answer[1]) if answer[0] == "ok" else None

    def reserve(self, claim: Claim, tokens: int, cost: int) -> float | OutOfBudget:
        """Set tokens and nano-dollars aside; answers the share of the tightest limit that is used, or what does not fit."""
        answer = self._scripts.run("reserve", claim.agent_id, claim.generation, tokens, cost)
        if answer[0] == "limit":
            return OutOfBudget(answer[1], int(answer[2]), int(float(answer[3])))
        self._check(answer, claim)
        return float(answer[1])

    def spawn(
        self, claim: Claim, number: int, entry: Spawned, children: Sequence[AgentSpec | Continuation]
    ) -> Effect | NotSpawned:
        """Make all the children, or have them go on, or none."""
        documents = [json.dumps(_child_fields(child)) for child in children]
        answer = self._scripts.run("spawn", claim.agent_id, claim.generation, number, encode_entry(entry), *documents)
        match answer[0]:
            case "limit":
                return NotSpawned("limit", room=max(0, int(answer[1])))
            case "depth":
                return NotSpawned("depth")
            case "name" | "resume" as why:
                return NotSpawned(why, child=answer[1], detail=answer[2])
            case "team":
                return NotSpawned("team", child=answer[1])
        return self._effect(answer, claim)

    def park(
        self,
        claim: Claim,
        number: int,
        entry: Entry,
        condition: Condition,
        *,
        said: str = "",
        ask: Mapping[str, Any] | None = None,
    ) -> Effect | GoOn:
        """Park until the condition holds.

        `said` is what a teammate that goes idle tells its lead; `ask` the question that is asked in the same step.
        """
        wanted = condition.model_dump(exclude_defaults=True)
        if condition.rest:
            wanted["said"] = said
        if ask is not None:
            wanted["ask"] = ask
        answer = self._scripts.run(
            "park", claim.agent_id, claim.generation, number, encode_entry(entry), json.dumps(wanted)
        )
        if answer[0] == "go on":
            return GoOn(answer[1])
        return self._effect(answer, claim)

    def hand_over(self, claim: Claim, why: str, *, last: bool = False) -> Effect:
        """Put the agent back on the queue, `last` of all if others come first; costs no attempt."""
        answer = self._scripts.run("handover", claim.agent_id, claim.generation, why, int(last))
        return self._effect(answer, claim)

    def finish(self, claim: Claim, number: int, entry: Finished, *, unless_mail: bool = False) -> Effect | GoOn:
        """End the agent; its parent is told in the same step. With `unless_mail`, a message that it has not read forbids it."""
        answer = self._scripts.run(
            "finish",
            claim.agent_id,
            claim.generation,
            number,
            encode_entry(entry),
            entry.state,
            entry.text,
            entry.reason,
            int(unless_mail),
            "" if entry.data is None else json.dumps(entry.data),
        )
        if answer[0] == "mail":
            return GoOn("mail")
        return self._effect(answer, claim)

    def _effect(self, answer: list[Any], claim: Claim) -> Effect:
        self._check(answer, claim)
        # A repeated step has no effects left to carry out but what the outbox holds.
        return Effect(*answer[1:])

    def _check(self, answer: list[Any], claim: Claim) -> None:
        match answer[0]:
            case "cancelled":
                raise AgentCancelled(claim.agent_id)
            case "stale":
                raise NotOwner(claim.agent_id, claim.generation)

    # -- mail ----------------------------------------------------------------------------------------------

    def directory(self, job_id: str) -> Directory:
        """Who can be written to in a job."""
        return Directory(self.client, self.prefix, job_id)

    def mail(self, owner: str, after: str = "0-0", **limits: int) -> list[Message]:
        """The first messages after a cursor in the mailbox of an agent, or of a job's person."""
        return read_mail(self.client, self.key("mail", owner), after, **limits)

    def all_mail(self, owner: str, after: str = "0-0") -> Iterator[Message]:
        """Every message after a cursor, in order."""
        while page := self.mail(owner, after):
            yield from page
            after = page[-1].id

    def mark_read(self, job_id: str, up_to: str) -> int:
        """The person has read the job's mailbox up to this message; answers how many are left. Raises `UnknownAgent`."""
        answer = self._scripts.run("mark", job_id, up_to)
        if answer[0] == "unknown":
            raise UnknownAgent(f"no job {job_id}; `swarm jobs` lists those that exist")
        return int(answer[1])

    def take_mail(self, claim: Claim, number: int, entry: Mail, messages: Sequence[Message]) -> int | None:
        """Append the entry that holds these messages; answers how many are left unread, if it was not done already."""
        notices = sum(message.kind == "notification" for message in messages)
        answer = self._scripts.run(
            "take", claim.agent_id, claim.generation, number, encode_entry(entry), len(messages), notices
        )
        self._check(answer, claim)
        return int(answer[1]) if answer[0] == "ok" else None

    def send(self, letter: Letter, receivers: Sequence[Receiver]) -> Sent:
        """Send one letter from outside to all of these, or to none.

        Raises `UnknownReceiver`, `ReceiverEnded`, `MailboxFull`, `StaleRequest`.
        """
        addressed = letter.model_copy(update={"to": [receiver.id for receiver in receivers]})
        sent = self._send([addressed], {receiver.id: receiver.name for receiver in receivers}, None, 0)
        if sent.refusal is not None:
            raise sent.refusal
        return sent

    def send_from(self, claim: Claim, number: int, letters: Sequence[Letter], names: Mapping[str, str]) -> Sent:
        """Send an agent's letters in order, up to the first that is refused. The `entry` of each enters the journal in the same
        step, from `number` on; `names` are the receivers' names by their ids.

        Raises `NotOwner` or `AgentCancelled`, having changed nothing.
        """
        return self._send(letters, names, claim, number)

    def _send(self, letters: Sequence[Letter], names: Mapping[str, str], claim: Claim | None, number: int) -> Sent:
        step: dict[str, Any] = {}
        if claim is not None:
            step = {"agent": claim.agent_id, "generation": claim.generation, "number": number}
        documents = [letter.model_dump_json(by_alias=True) for letter in letters]
        answer = self._scripts.run("send", json.dumps(step), *documents)
        if claim is not None:
            self._check(answer, claim)
        if answer[0] == "repeat":
            return Sent(Effect(), None, int(answer[1]))
        _, publish, unread, count, ids, *why = answer
        refusal = _refusal(why, letters[count], names) if why else None
        return Sent(Effect(publish=publish), int(unread), int(count), ids, refusal)

    # -- from outside --------------------------------------------------------------------------------------

    def cancel(self, agent_id: str, reason: str) -> Effect:
        """Cancel an agent and all below it. Raises `UnknownAgent`; one that has ended stays as it is."""
        answer = self._scripts.run("cancel", agent_id, reason)
        if answer[0] == "unknown":
            raise UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")
        return Effect(publish=answer[1], kill=answer[2])

    def renew(self, worker: str, agent_ids: Sequence[str], lease_seconds: float) -> list[str]:
        """Prolong leases; answers the agents this worker must stop."""
        if not agent_ids:
            return []
        return list(self._scripts.run("renew", worker, lease_seconds, *agent_ids))

    def held_by(self, worker: str) -> list[str]:
        """The agents a worker holds a lease on."""
        leased = list(self.client.zrange(self.key("leases"), 0, -1))
        return [
            agent_id
            for agent_id, (owner,) in zip(leased, self.fields(leased, "worker"), strict=True)
            if owner == worker
        ]

    def rescue(
        self,
        *,
        max_deaths: int,
        outbox_age_seconds: float,
        batch: int = 200,
        quiet: Sequence[bool] = (True, True, True, True),
        dead: Sequence[tuple[str, str]] = (),
    ) -> Rescue:
        """Put back what fell. `dead` are (agent, worker) whose process is known to be gone; `batch=0` looks at those only.

        `quiet` says whose messages cannot be queued, so that an old entry of the outbox means a lost one: those of agents that
        were woken, and of fresh ones at depth 0, at 1, at 2 and below.
        """
        digits = "".join(str(int(one)) for one in quiet)
        answer = self._scripts.run(
            "rescue", max_deaths, outbox_age_seconds, batch, digits, *(part for pair in dead for part in pair)
        )
        return Rescue(publish=answer[0], kill=answer[1], rescued=answer[2], quarantined=answer[3])

    # -- outputs -------------------------------------------------------------------------------------------

    def keep_output(self, agent_id: str, key: str, text: str) -> None:
        """Keep a text that is too long for the conversation; it lives as long as the agent's record."""
        self.client.hset(self.key("outputs", agent_id), key, text)

    def load_output(self, agent_id: str, key: str) -> str | None:
        """A kept text."""
        value = self.client.hget(self.key("outputs", agent_id), key)
        return None if value is None else str(value)


_RESULT_FIELDS = (
    "state",
    "text",
    "reason",
    "label",
    "tools",
    "turns",
    "created",
    "ended",
    *(
        f"{below}{name}"
        for below in ("", "below_")
        for name in ("input", "output", "cache_write", "cache_read", "cost")
    ),
)


def _agent_fields(spec: AgentSpec) -> dict[str, str]:
    fields = {"spec": spec.model_dump_json(), "label": spec.label, "definition": spec.definition.name}
    if spec.name is not None:
        fields["name"] = spec.name
    if spec.role:
        fields["role"] = normal_role(spec.role)
    return fields | {flag: "1" for flag in ("background", "teammate") if getattr(spec, flag)}


def normal_role(role: str) -> str:
    """A role as it is compared: `Test Writer` and `test writer` are one."""
    return " ".join(role.split()).lower()


def _refusal(why: list[str], letter: Letter, names: Mapping[str, str]) -> MessageRefused:
    match why:
        case ["unknown", receiver]:
            return UnknownReceiver(f"there is no agent {names[receiver]} in this job")
        case ["ended", receiver, state]:
            return ReceiverEnded(f"{names[receiver]} is {state}: it reads no more messages", names[receiver])
        case ["full", receiver]:
            return MailboxFull(names[receiver], letter.max_unread)
        case ["over"]:
            return ReceiverEnded("the job is over: only its first agent can be written to, which continues it")
        case ["request", reason]:
            return StaleRequest(f"the request {letter.reply_to!r} cannot be answered: {reason}")
    raise AssertionError(f"an answer of send.lua that is not known: {why}")


def _child_fields(child: AgentSpec | Continuation) -> dict[str, str]:
    if isinstance(child, Continuation):
        return {"id": child.agent_id, "resume": child.prompt, "background": str(int(child.background))}
    return {"id": child.agent_id, **_agent_fields(child)}


def limits_of(record: dict[str, str]) -> Limits:
    """The limits in a job's record."""
    try:
        return Limits.model_validate_json(record["limits"])
    except (KeyError, ValueError) as error:
        raise SwarmError(f"a job's limits cannot be read: {error}") from error
