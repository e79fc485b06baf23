"""Agents' records and state changes: every change is one atomic step, every answer a value.

Guarantees: a terminal state is never overwritten. A write by a segment that lost its claim raises `NotOwner` and changes nothing. An
agent on the queue stays in the outbox until a worker claims it, so a caller that dies before publishing loses nothing.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from swarm.agent.entries import Entry, Finished, Grading, Spawned, encode_entry
from swarm.agent.journaled import Condition
from swarm.agent.needs import Needs, raise_format
from swarm.agent.spec import AgentSpec
from swarm.core.errors import AgentCancelled, NotOwner
from swarm.core.formats import read_document
from swarm.core.log import EventLog
from swarm.core.plain import clean, clean_text
from swarm.core.records import AGENT_FIELDS, TERMINAL_STATES, AgentView, read_agent
from swarm.core.usage import Charge
from swarm.mailbox import USER
from swarm.store.documents import read_record
from swarm.store.fields import child_fields
from swarm.store.keyspace import Keyspace, check_claim, effect_of, no_agent
from swarm.store.slots import read_held
from swarm.store.values import (
    Busy,
    Claim,
    Continuation,
    GoOn,
    Granted,
    Hint,
    JobPermissions,
    NotSpawned,
    OutOfBudget,
    Refused,
    Reservation,
    Signals,
)

log = EventLog("swarm.store")
_ALWAYS_TOLD = 17
"""Length of the answer of a claim of an agent for which no person chose a model."""
_FEW = 20
"""Number of agents above which only the records of those that have ended are read."""
_PAGE = 500
"""Records fetched at a time, so that the server answers other clients in between."""


class AgentStore:
    """The agents of a swarm."""

    def __init__(self, keyspace: Keyspace, recall: Callable[[str], bool] = lambda agent_id: False) -> None:
        self._keyspace, self._recall = keyspace, recall

    def get(self, agent_id: str) -> AgentView:
        """The agent's record, recalled with its job if that is archived. Raises `UnknownAgent`, and as `Archive.recall`."""
        [record] = self.find([agent_id])
        if record is not None:
            return record
        if self._recall(agent_id):
            return self.get(agent_id)
        raise no_agent(agent_id)

    def find(self, agent_ids: Sequence[str]) -> list[AgentView | None]:
        """The records of these agents, None for a missing one; one round trip."""
        found = self._keyspace.fetch("agent", agent_ids, AGENT_FIELDS)
        return [
            None if record["state"] is None else read_agent(agent_id, record)
            for agent_id, record in zip(agent_ids, found, strict=True)
        ]

    def of(self, job_id: str, *, answers: bool = True) -> list[AgentView]:
        """The job's agents, oldest first; without `answers`, their texts and data, which may be long, are omitted."""
        names = AGENT_FIELDS if answers else [name for name in AGENT_FIELDS if name not in ("text", "data")]
        agent_ids = self.ids([job_id])
        found = zip(agent_ids, self.records(agent_ids, names), strict=True)
        return [read_agent(agent_id, record) for agent_id, record in found if record["state"] is not None]

    def ids(self, job_ids: Sequence[str]) -> list[str]:
        """The ids of all agents of these jobs, oldest first in each job."""
        found = self._keyspace.each("zrange", (self._keyspace.key("job", job, "agents") for job in job_ids), 0, -1)
        return [agent_id for part in found for agent_id in part]

    def exists(self, agent_id: str) -> bool:
        """Whether the agent exists."""
        return bool(self._keyspace.client.exists(self._keyspace.key("agent", agent_id)))

    def records(self, agent_ids: Sequence[str], names: Sequence[str]) -> Iterator[dict[str, str | None]]:
        """Yield some fields of each agent, read in parts."""
        for first in range(0, len(agent_ids), _PAGE):
            yield from self._keyspace.fetch("agent", agent_ids[first : first + _PAGE], names)

    def children(self, agent_id: str) -> set[str]:
        """The ids of the agent's children."""
        return set(self._keyspace.client.smembers(self._keyspace.key("children", agent_id)))

    def hints(self, agent_ids: Sequence[str]) -> list[Hint | None]:
        """Wake-up data of each agent; None for a missing one. One round trip."""
        return [Hint.read(answer) for answer in self._keyspace.run("wakeup", *agent_ids)] if agent_ids else []

    def ended(self, agent_ids: Sequence[str]) -> dict[str, AgentView]:
        """The records of ended agents, with the answers that their parents asked for; later runs for others are not included."""
        if len(agent_ids) > _FEW:
            agent_ids = self._keyspace.run("ended_among", *agent_ids)
        found = {}
        names = (*AGENT_FIELDS, "earlier", "earlier_reason", "earlier_ended")
        for agent_id, fields in zip(agent_ids, self._keyspace.fetch("agent", agent_ids, names), strict=True):
            if fields["earlier_ended"]:
                earlier = {
                    "text": fields["earlier"],
                    "reason": fields["earlier_reason"],
                    "ended": fields["earlier_ended"],
                    "run": None,
                }
                found[agent_id] = read_agent(agent_id, {**fields, **earlier, "state": "completed"})
            elif fields["state"] in TERMINAL_STATES:
                found[agent_id] = read_agent(agent_id, fields)
        return found

    def spec(self, agent_id: str) -> AgentSpec:
        """An agent's specification. Raises `UnknownAgent`, `UnreadableRecord`."""
        document = self._keyspace.client.hget(self._keyspace.key("agent", agent_id), "spec")
        if document is None:
            if self._recall(agent_id):
                return self.spec(agent_id)
            raise no_agent(agent_id)
        return read_record(AgentSpec, document, f"the specification of {agent_id}")

    def claim(self, agent_id: str, worker: str, lease_seconds: float, told: Sequence[str] = ()) -> Claim | Refused:
        """Take the right to run the agent's next segment.

        `told` is the message's data: job, parent or nothing, depth, definition, the job's maximum depth. If the record differs, the claim
        is refused (`contradicted`).
        """
        answer = self._keyspace.run("claim", agent_id, worker, lease_seconds, secrets.token_hex(8), *told)
        match answer[0]:
            case "ok":
                generation, clock = int(answer[1]), _clock_from(float(answer[6]))
                try:
                    spec = read_document(AgentSpec.model_validate_json, "AgentSpec", answer[2])
                except ValueError as error:
                    # Back to the queue, but unpublished: the outbox offers it again later, perhaps to a newer worker.
                    self._keyspace.run("hand_over", agent_id, generation, "unreadable", 0)
                    log.error("agent.unreadable", agent_id=agent_id, error=str(error).splitlines()[0])
                    return Refused("unreadable")
                claim = Claim(
                    agent_id,
                    generation,
                    spec,
                    deadline=float(answer[3]) if answer[3] else None,
                    unread=answer[4],
                    length=answer[5],
                    clock=clock,
                    definitions=answer[7],
                    permissions=JobPermissions(answer[8], answer[10], float(answer[9])),
                    began_at=float(answer[11]),
                    opens=answer[12],
                    documents=json.loads(answer[13] or "{}"),
                    slot=read_held(answer[14], answer[12]),
                    wanted=answer[15],
                    chosen=answer[17] if len(answer) > _ALWAYS_TOLD else "",
                )
                if older := answer[16]:
                    # Before an entry of today's format, which older workers cannot read.
                    try:
                        self.need(claim, raise_format(older))
                    except (AgentCancelled, NotOwner) as error:
                        return Refused(str(error))
                return claim
            case "refused":
                return Refused(answer[1])
            case why:
                return Refused(why)

    def need(self, claim: Claim, needs: Needs) -> None:
        """Restrict the agent to workers with these capabilities. Raises as `append`."""
        wanted = (needs.model_dump_json(), " ".join(needs.wants))
        check_claim(self._keyspace.run("need", claim.agent_id, claim.generation, *wanted), claim)

    def reserve(self, claim: Claim, reservation: Reservation, *, final: bool = False) -> Granted | Busy | OutOfBudget:
        """Reserve a model call's tokens and money; `final` marks the last call."""
        wanted = (
            reservation.tokens,
            reservation.cost,
            reservation.spare_tokens,
            reservation.spare_cost,
            reservation.closing_tokens,
            reservation.closing_cost,
        )
        answer = self._keyspace.run("reserve", claim.agent_id, claim.generation, *wanted, int(final))
        match answer[0]:
            case "limit":
                return OutOfBudget(answer[1], int(answer[2]), int(answer[3]))
            case "wait":
                return Busy(int(answer[1]), int(answer[2]))
        check_claim(answer, claim)
        return Granted(float(answer[1]), float(answer[2]))

    def note_side_call(self, claim: Claim, call: str, use: Charge) -> None:
        """Note the use of a call's side requests so far: it is charged if the agent loses its process before an entry reports it.

        Raises `NotOwner` or `AgentCancelled`.
        """
        changed = {**use.counters().changed(), "model": use.model or "unknown"}
        check_claim(
            self._keyspace.run("note_side_call", claim.agent_id, claim.generation, call, json.dumps(changed)), claim
        )

    def spawn(
        self,
        claim: Claim,
        number: int,
        entry: Spawned | Grading,
        children: Sequence[AgentSpec | Continuation],
        *,
        closing: tuple[int, int] = (0, 0),
        beside: Mapping[str, Mapping[str, str]] | None = None,
        tools: Sequence[str] = (),
    ) -> Signals | NotSpawned:
        """Start or continue all the children, or none. `closing` is kept for the parent's last reply from now on.

        `tools` are the parent's tools, which a fork begins with.

        `beside` has further fields of children: `phase`, and `prefix`, that of its requests: one child of each starts first.
        """
        further = beside or {}
        documents = [
            json.dumps(child_fields(child, tools) | dict(further.get(child.agent_id, {}))) for child in children
        ]
        answer = self._keyspace.run(
            "spawn", claim.agent_id, claim.generation, number, encode_entry(entry), *closing, *documents
        )
        match answer[0]:
            case "limit" | "children" as why:
                return NotSpawned(why, room=max(0, int(answer[1])))
            case "depth" | "full" as why:
                return NotSpawned(why)
            case "name" | "resume" as why:
                return NotSpawned(why, child=answer[1], detail=answer[2])
            case "team":
                return NotSpawned("team", child=answer[1])
        return effect_of(answer, claim)

    def park(
        self,
        claim: Claim,
        number: int,
        entry: Entry,
        condition: Condition,
        *,
        said: str = "",
        chosen: str = "",
        ask: Mapping[str, Any] | None = None,
        further: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Signals | GoOn:
        """Park until the condition holds.

        `said` is an idle teammate's message to its lead; `ask` is the question asked in the same step, `further` are more by their ids.
        `chosen` is the id of the last choice of a model that the caller knows: a later one ends a wait for the model.
        """
        wanted = condition.model_dump(exclude_defaults=True)
        if condition.rest:
            wanted["said"] = clean_text(said)
        if condition.model or condition.slot:
            wanted["chosen"] = chosen
        if ask is not None:
            wanted["ask"] = clean(dict(ask))
        if further:
            wanted["further"] = [{"question": one, "ask": clean(dict(asked))} for one, asked in further.items()]
        answer = self._keyspace.run(
            "park", claim.agent_id, claim.generation, number, encode_entry(entry), json.dumps(wanted)
        )
        if answer[0] == "go on":
            return GoOn(*answer[1:])
        return effect_of(answer, claim)

    def hand_over(self, claim: Claim, why: str, *, last: bool = False) -> Signals:
        """Put the agent back on the queue, at the end of the line if `last`; costs no attempt."""
        answer = self._keyspace.run("hand_over", claim.agent_id, claim.generation, why, int(last))
        return effect_of(answer, claim)

    def finish(
        self,
        claim: Claim,
        number: int,
        entry: Finished,
        *,
        unless_mail: bool = False,
        rejection: str = "It was not read.",
    ) -> Signals | GoOn:
        """End the agent and notify its parent in the same step.

        With `unless_mail`, an unread message prevents the end; otherwise its sender gets `rejection`.
        """
        answer = self._keyspace.run(
            "finish",
            claim.agent_id,
            claim.generation,
            number,
            encode_entry(entry),
            entry.state,
            clean_text(entry.text),
            clean_text(entry.reason),
            int(unless_mail),
            "" if entry.data is None else json.dumps(entry.data),
            rejection,
            entry.stopped_at,
        )
        if answer[0] == "mail":
            return GoOn("mail")
        return effect_of(answer, claim)

    def cancel(self, agent_id: str, reason: str, *, by: tuple[str, int] = (USER, 0)) -> Signals:
        """Cancel an agent and all below it; `by` is the cancelling agent and its generation, or a person's name and 0.

        Raises `UnknownAgent`, and `NotOwner` if that generation is stale. An ended agent is left unchanged.
        """
        answer = self._keyspace.run("cancel", agent_id, reason, *by)
        if answer[0] == "unknown":
            if self._recall(agent_id):
                return self.cancel(agent_id, reason, by=by)
            raise no_agent(agent_id)
        if answer[0] == "refused":
            raise AgentCancelled(by[0])
        return Signals(*answer[1:])

    def want(
        self, agent_id: str, what: Literal["summary", "model"], wanted: str, *, instead: tuple[str, Needs] | None = None
    ) -> tuple[str, Signals]:
        """Record a person's request for a summary or another model, `wanted` as JSON.

        With `instead`, an agent that does not run and has this document of needs has these needs from now on.
        Returns the agent's state before it. Raises `UnknownAgent`, `AgentCancelled`.
        """
        other = ("", "", "")
        if instead is not None:
            other = (instead[0], instead[1].model_dump_json(), " ".join(instead[1].wants))
        answer = self._keyspace.run(f"want_{what}", agent_id, wanted, *(other if what == "model" else ()))
        if answer[0] == "unknown":
            raise no_agent(agent_id)
        if answer[0] == "cancelled":
            raise AgentCancelled(agent_id)
        return str(answer[1]), Signals(*answer[2:])


def _clock_from(now: float) -> Callable[[], float]:
    """A clock that starts at `now` and ignores later changes of this machine's clock."""
    began = time.monotonic()
    return lambda: now + time.monotonic() - began
