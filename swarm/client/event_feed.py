"""Turns a job's events and its agents' journals into the stream of typed events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from swarm.agent.entries import decode_entry
from swarm.agent.items import Item
from swarm.agent.transcript import Narrator
from swarm.client.swarm import Job, Swarm
from swarm.core.records import AgentView, Event
from swarm.store.questions import Question
from swarm.streaming.events import (
    AgentEnded,
    AgentSpawned,
    AgentState,
    JobEnded,
    JobStarted,
    MessageSent,
    ModelFailed,
    Notice,
    ProgramCalls,
    Prompt,
    QuestionAsked,
    QuestionClosed,
    Reply,
    StreamEvent,
    ToolResult,
)

_SPENT = ("usage", "cost_usd", "estimated_usd", "unpriced_tokens")
_OF_AGENT = ("text", "stopped_at", "turns", "tools", *_SPENT)
_OF_JOB = ("data", "reason", "stopped_at", "agents", "turns", *_SPENT, "rehearsed")
_TOLD: dict[str, type[Prompt | Reply | ToolResult | ModelFailed]] = {
    **{"prompt": Prompt, "reply": Reply, "result": ToolResult, "failure": ModelFailed},
}
"""Event type of each kind of item."""
_STATES: dict[str, Any] = {
    **{"running": "running", "parked": "parked"},
    **dict.fromkeys(("woken", "handed_over", "rescued", "resumed"), "queued"),
}


def stream(swarm: Swarm, job: Job) -> Iterator[StreamEvent]:
    """Yield all events of a job, past and future, until it ends. Raises `JobLost`."""
    notifier = EventFeed(swarm, job)
    for event in job.follow():
        yield from notifier.tell(event)


class EventFeed:
    """Translates one job's events, in order, without omitting any journal entry. Not thread-safe."""

    def __init__(self, swarm: Swarm, job: Job) -> None:
        self._swarm, self._job = swarm, job
        self._read: dict[str, int] = {}
        """Number of reported entries of each agent's journal."""
        self._agents: dict[str, AgentView] = {}
        self._narrators: defaultdict[str, Narrator] = defaultdict(Narrator)
        self._waits: dict[str, str] = {}

    def tell(self, event: Event) -> list[StreamEvent]:
        """Translate the next event: first its agent's journal up to it, then the event itself."""
        about = self._about(event)
        told = [found for seq, item in self._items(event) for found in self._tell_item(seq, item, about)]
        lifecycle = self.happened(event)
        return [*told, *([lifecycle] if lifecycle is not None else [])]

    def happened(self, event: Event) -> StreamEvent | None:
        """Translate the event alone."""
        return self._tell_event(event, {**self._about(event), "seq": event.seq, "at": event.at})

    def _about(self, event: Event) -> dict[str, Any]:
        if not event.agent_id.startswith("agent-"):  # the person
            return {"job_id": self._job.id, "agent_id": event.agent_id, "label": "user"}
        agent = self._agents.get(event.agent_id)
        if agent is None or event.kind in ("ended", "job_ended"):
            agent = self._agents[event.agent_id] = self._swarm.store.agents.get(event.agent_id)
        return {"job_id": self._job.id, "agent_id": agent.id, "label": agent.label}

    # -- journal entries ---------------------------------------------------------------------------------------

    def _items(self, event: Event) -> Iterator[tuple[int, Item]]:
        """The journal items before the event, each with its number in the job."""
        if event.agent_id not in self._agents:
            return
        while page := self._swarm.store.journals.stored(event.agent_id, after=self._read.get(event.agent_id, 0)):
            for stored in page:
                if stored.seq > event.seq:
                    return
                self._read[event.agent_id] = stored.number
                entry = decode_entry(stored.document, agent_id=event.agent_id, number=stored.number)
                yield stored.seq, self._narrators[event.agent_id].item(entry)

    def _tell_item(self, seq: int, item: Item, about: dict[str, Any]) -> Iterator[StreamEvent]:
        about = {**about, "seq": seq, "at": item.at}
        if item.kind == "reply" and "model" not in item.facts:
            if item.facts["tool_calls"]:
                yield ProgramCalls(**about, **item.facts)
        elif made := _TOLD.get(item.kind):
            yield made(**about, **item.facts)
        elif item.kind == "cut":
            yield Notice(**about, kind="compacted", about=item.facts)
        elif item.kind == "wait":
            self._waits[about["agent_id"]] = item.facts["waits_for"]

    # -- lifecycle events --------------------------------------------------------------------------------------

    def _tell_event(self, event: Event, about: dict[str, Any]) -> StreamEvent | None:
        fields = event.fields
        match event.kind:
            case "progress" | "read":
                return None  # the journal reports this
            case "job_started":
                view = self._job.view()
                return JobStarted(**about, title=view.title, workspace=view.workspace, rehearsed=view.rehearsed)
            case "spawned":
                agent = self._agents[event.agent_id]
                told = {
                    "definition": agent.definition,
                    "model": agent.model,
                    "depth": agent.depth,
                    "phase": agent.phase,
                }
                return AgentSpawned(**about, parent_id=agent.parent_id or "", **told)
            case "message":
                return self._tell_message(event, about)
            case "question" | "answered":
                question = self._swarm.questions.find(fields["question"])
                return None if question is None else _tell_question(event, question, about)
            case "ended":
                agent = self._agents[event.agent_id]
                told = {name: getattr(agent, name) for name in _OF_AGENT}
                return AgentEnded(**about, **told, state=fields["state"], reason=fields.get("reason", ""))
            case "job_ended":
                view = self._job.view()
                sums = {name: getattr(view, name) for name in _OF_JOB}
                return JobEnded(**about, state=fields["state"], result=view.text, **sums)
            case kind if kind in _STATES:
                waits_for = self._waits.get(event.agent_id, "") if kind == "parked" else ""
                return AgentState(**about, state=_STATES[kind], why=kind, waits_for=waits_for)
            case kind:
                return Notice(**about, kind=kind, about=fields)

    def _tell_message(self, event: Event, about: dict[str, Any]) -> MessageSent:
        to, message_id = event.fields.get("to", ""), event.fields.get("id", "")
        found = self._swarm.store.mail.get(self._job.id if to == "user" else to, message_id)
        told = {
            "sender": about["label"] if found is None else found.sender,
            "body": "" if found is None else found.body,
        }
        return MessageSent(**about, to=to, kind=event.fields.get("sort", "message"), message_id=message_id, **told)


def _tell_question(event: Event, question: Question, about: dict[str, Any]) -> StreamEvent:
    if event.kind == "question":
        names = ("kind", "title", "detail", "expires_at")
        told = {name: getattr(question, name) for name in names}
        return QuestionAsked(**about, question_id=question.id, options=question.options, **told)
    state: Any = event.fields.get("state", "answered")
    return QuestionClosed(
        **about, question_id=question.id, state=state, answer=question.answer, by=event.fields.get("by", "")
    )
