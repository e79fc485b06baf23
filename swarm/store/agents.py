"""Agents and jobs as Redis keeps them: every change is one atomic step, every answer a value.

Guarantees: a terminal state is never overwritten; a write by a segment that lost its claim raises `NotOwner` and changes
nothing; whatever is put on the queue is in the outbox until somebody claims it, so a caller that dies before publishing loses
nothing.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from pydantic import ValidationError

from swarm.agent.entries import Entry, Finished, Grading, Spawned, Started, Verdict, encode_entry
from swarm.agent.journaled import Condition
from swarm.agent.needs import Needs
from swarm.agent.spec import AgentSpec
from swarm.core.errors import AgentCancelled, UnknownAgent, UnknownBroker, WebhookRefused
from swarm.core.log import EventLog
from swarm.core.plain import clean, clean_text
from swarm.core.records import Counters, VerdictView
from swarm.mailbox import USER
from swarm.store.fields import JobTerms, agent_fields, child_fields, job_fields
from swarm.store.governing import Governing
from swarm.store.journals import Journals
from swarm.store.prefixes import digest_of
from swarm.store.sequels import Sequels
from swarm.store.showing import Showing
from swarm.store.slots import CallEnd, SlotWish, read_held, read_slot
from swarm.store.values import (
    Appended,
    Busy,
    Claim,
    Continuation,
    GoOn,
    Granted,
    JobPermissions,
    NotSpawned,
    OutOfBudget,
    Refused,
    Signals,
    Submitted,
    Wish,
)

log = EventLog("swarm.store")


class Store(Journals, Showing, Governing):
    """The swarm's state in one Redis."""

    # -- jobs ----------------------------------------------------------------------------------------------

    def submit(
        self,
        spec: AgentSpec,
        *,
        catalogue: str,
        documents: Mapping[str, str] | None = None,
        packages: Mapping[str, str] | None = None,
        webhook: str = "",
        **terms: Unpack[JobTerms],
    ) -> Submitted:
        """Make the job and its root agent; the same ids again change nothing.

        `catalogue` and `documents` (by what they are) travel with it, and so do `packages`, by their digests; `webhook` is the address it
        brings, as JSON. Raises `UnknownBroker` for a sequel that no worker could publish, `WebhookRefused` for an address that none would
        deliver to.
        """
        spec = clean(spec)
        given = (
            spec.job_id,
            spec.agent_id,
            json.dumps(job_fields(spec, **terms)),
            json.dumps(agent_fields(spec)),
            "" if spec.limits.timeout_seconds is None else spec.limits.timeout_seconds,
            digest_of(catalogue),
        )
        carried = {name: digest_of(text) for name, text in (documents or {}).items()}
        others = packages or {}
        names = json.dumps({name: [digest, ""] for name, digest in carried.items()})
        answer = self.run("submit", *given, "", names, json.dumps([[digest, ""] for digest in others]), webhook)
        if answer[0] == "document":
            texts = json.dumps({name: [digest, (documents or {})[name]] for name, digest in carried.items()})
            answer = self.run("submit", *given, catalogue, texts, json.dumps(list(others.items())), webhook)
        if answer[0] == "broker" and (sequel := terms.get("sequel")) is not None:
            raise UnknownBroker(sequel.broker, Sequels(self).known())
        if answer[0] == "webhook":
            raise WebhookRefused()
        new = answer[0] == "ok"
        return Submitted(new, terms.get("order", "") if new else answer[2], Signals(publish=answer[1]))

    def carried(self, job_id: str) -> dict[str, str]:
        """The digests of what travels with the job besides its definitions, by what it is."""
        told: dict[str, str] = json.loads(self.client.hget(self.key("job", job_id), "carried") or "{}")
        return told

    def has_job(self, job_id: str) -> bool:
        """Whether there is such a job."""
        return bool(self.client.exists(self.key("job", job_id)))

    def wait_events(self, job_id: str, after: str, seconds: float) -> list[tuple[str, dict[str, str]]]:
        """The job's events after that one, which are waited for for so long: the id and the fields of each."""
        return self.wait_entries("events", job_id, after, seconds)

    # -- one agent -----------------------------------------------------------------------------------------

    def claim(self, agent_id: str, worker: str, lease_seconds: float, told: Sequence[str] = ()) -> Claim | Refused:
        """Take the right to run the agent's next segment.

        `told` is what a message says of it: job, parent or nothing, depth, definition, the job's depth at most. Where the record says
        something else, nothing is claimed (`contradicted`).
        """
        answer = self.run("claim", agent_id, worker, lease_seconds, secrets.token_hex(8), *told)
        match answer[0]:
            case "ok":
                generation, clock = int(answer[1]), _clock_from(float(answer[6]))
                try:
                    spec = AgentSpec.model_validate_json(answer[2])
                except ValidationError as error:
                    # Back to the queue, but unpublished: the outbox offers it again later, to a newer worker perhaps.
                    self.run("hand_over", agent_id, generation, "unreadable", 0)
                    log.error("agent.unreadable", agent_id=agent_id, error=str(error).splitlines()[0])
                    return Refused("unreadable")
                return Claim(
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
                )
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
        said: str = "",
        call: CallEnd | None = None,
        wish: SlotWish | None = None,
    ) -> Appended:
        """Append entries, the first as number `number`.

        `call` says how a call of the model has ended, `wish` asks for a slot for the next one.

        `settle` gives back what was reserved; `said` is the text that is left if the agent is ended from outside.

        Raises `NotOwner` or `AgentCancelled`, having changed nothing.
        """
        documents, digest, prefix = [], "", ""
        for entry in entries:
            if isinstance(entry, Started):
                entry, digest, prefix = self._prefixes.take_out(entry)
            documents.append(encode_entry(entry))
        changed = json.dumps(counters.changed() if counters else {})
        given = (
            *(claim.agent_id, claim.generation, number, clean_text(activity), changed, int(settle), clean_text(said)),
            *("" if call is None else call.encode(), "" if wish is None else wish.encode()),
        )
        answer = self.run("append", *given, digest, "", *documents)
        if answer[0] == "document":
            answer = self.run("append", *given, digest, prefix, *documents)
        self._check(answer, claim)
        if answer[0] != "ok":
            # A repeat: whoever the first attempt woke is in the outbox.
            return Appended(None, Signals())
        slot = None if wish is None else read_slot(wish.limit_class, answer[4])
        return Appended(int(answer[1]), Signals(publish=answer[2]), answer[3], slot)

    def judge_end(self, claim: Claim, number: int, entry: Verdict) -> Appended:
        """Append a verdict as entry `number`. Raises `NotOwner` or `AgentCancelled`, having changed nothing."""
        told = clean(entry).model_dump_json(include=set(VerdictView.model_fields))
        answer = self.run("judge_end", claim.agent_id, claim.generation, number, encode_entry(entry), told)
        self._check(answer, claim)
        if answer[0] != "ok":
            # A repeat.
            return Appended(None, Signals())
        return Appended(int(answer[1]), Signals(publish=answer[2]))

    def need(self, claim: Claim, needs: Needs) -> None:
        """Have only workers run the agent from now on that have this. Raises as `append`."""
        wanted = (needs.model_dump_json(), " ".join(needs.wants))
        self._check(self.run("need", claim.agent_id, claim.generation, *wanted), claim)

    def reserve(self, claim: Claim, wish: Wish, *, final: bool = False) -> Granted | Busy | OutOfBudget:
        """Set aside what a call takes, the last one if `final`."""
        wanted = (wish.tokens, wish.cost, wish.spare_tokens, wish.spare_cost, wish.closing_tokens, wish.closing_cost)
        answer = self.run("reserve", claim.agent_id, claim.generation, *wanted, int(final))
        match answer[0]:
            case "limit":
                return OutOfBudget(answer[1], int(answer[2]), int(answer[3]))
            case "wait":
                return Busy(int(answer[1]), int(answer[2]))
        self._check(answer, claim)
        return Granted(float(answer[1]), float(answer[2]))

    def spawn(
        self,
        claim: Claim,
        number: int,
        entry: Spawned | Grading,
        children: Sequence[AgentSpec | Continuation],
        *,
        closing: tuple[int, int] = (0, 0),
        prefixes: Mapping[str, str] | None = None,
        tools: Sequence[str] = (),
    ) -> Signals | NotSpawned:
        """Make all the children, or have them go on, or none. `closing` is kept for the parent's last reply from now on.

        `tools` are the parent's, which a fork begins with.

        `prefixes` names, by child, what requests begin with: of those that begin alike one begins first.
        """
        shared = prefixes or {}
        documents = [
            json.dumps(child_fields(child, tools) | ({"prefix": name} if (name := shared.get(child.agent_id)) else {}))
            for child in children
        ]
        answer = self.run("spawn", claim.agent_id, claim.generation, number, encode_entry(entry), *closing, *documents)
        match answer[0]:
            case "limit" | "children" as why:
                return NotSpawned(why, room=max(0, int(answer[1])))
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
    ) -> Signals | GoOn:
        """Park until the condition holds.

        `said` is what a teammate that goes idle tells its lead; `ask` the question that is asked in the same step.
        """
        wanted = condition.model_dump(exclude_defaults=True)
        if condition.rest:
            wanted["said"] = clean_text(said)
        if ask is not None:
            wanted["ask"] = clean(dict(ask))
        answer = self.run("park", claim.agent_id, claim.generation, number, encode_entry(entry), json.dumps(wanted))
        if answer[0] == "go on":
            return GoOn(answer[1])
        return self._effect(answer, claim)

    def hand_over(self, claim: Claim, why: str, *, last: bool = False) -> Signals:
        """Put the agent back on the queue, `last` of all if others come first; costs no attempt."""
        answer = self.run("hand_over", claim.agent_id, claim.generation, why, int(last))
        return self._effect(answer, claim)

    def finish(
        self, claim: Claim, number: int, entry: Finished, *, unless_mail: bool = False, regret: str = "It was not read."
    ) -> Signals | GoOn:
        """End the agent; its parent is told in the same step.

        With `unless_mail`, a message that it has not read forbids it; else its sender is told with `regret`.
        """
        answer = self.run(
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
            regret,
            entry.stopped_at,
        )
        if answer[0] == "mail":
            return GoOn("mail")
        return self._effect(answer, claim)

    # -- from outside --------------------------------------------------------------------------------------

    def cancel(self, agent_id: str, reason: str, *, by: tuple[str, int] = (USER, 0)) -> Signals:
        """Cancel an agent and all below it; `by` is the agent that does so, and its generation; or a person's name, and 0.

        Raises `UnknownAgent`, and `NotOwner` if that generation is over; one that has ended stays as it is.
        """
        answer = self.run("cancel", agent_id, reason, *by)
        if answer[0] == "unknown":
            raise UnknownAgent(f"no agent {agent_id}; `swarm tree JOB` lists a job's agents")
        if answer[0] == "refused":
            raise AgentCancelled(by[0])
        return Signals(*answer[1:])

    # -- outputs -------------------------------------------------------------------------------------------

    def keep_output(self, claim: Claim, key: str, text: str) -> None:
        """Keep a text that is too long for the conversation; it lives as long as the agent's record. Raises as `append`."""
        self._check(self.run("keep_output", claim.agent_id, claim.generation, key, clean_text(text)), claim)

    def load_output(self, agent_id: str, key: str) -> str | None:
        """A kept text."""
        value = self.client.hget(self.key("outputs", agent_id), key)
        return None if value is None else str(value)


def _clock_from(now: float) -> Callable[[], float]:
    """A clock that goes on from there, whatever becomes of this machine's."""
    began = time.monotonic()
    return lambda: now + time.monotonic() - began
