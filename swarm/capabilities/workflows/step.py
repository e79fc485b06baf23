"""Continue a workflow's program, journal its calls, give it results, and wait without a process.

The program is replayed once in a segment and then continues. Each of its calls is a call of the agent, so that rules, hooks, children
and interrupted effects are those of all agents. What ends a run is not told to the program: it is paused, and can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from swarm.agent import notes
from swarm.agent.decision import Action, Advance
from swarm.agent.entries import Advanced, Finished, ModelFailed, ToolFinished
from swarm.agent.journaled import Condition
from swarm.capabilities.workflows import kept
from swarm.core.errors import ConfigurationError, WorkflowChanged
from swarm.core.ids import question_id, root_agent_id
from swarm.core.plain import clean_text
from swarm.core.records import AgentView
from swarm.core.usage import Counters
from swarm.definitions.tools import Kind
from swarm.models import Block
from swarm.runtime.steps import Asking, Step, Turn
from swarm.runtime.wait import is_out_of_time
from swarm.store.questions import Ask
from swarm.store.spending import read_allowances
from swarm.workflows.desk import Desk, ProgramEnd
from swarm.workflows.front_ends import make_program
from swarm.workflows.replay import Replay
from swarm.workflows.results import as_text
from swarm.workflows.reuse import PAUSED, Reuse, ends_all

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

TAKEN_AT_ONCE = 200
"""Most results of one step, which must not occupy Redis for long."""
MOST_QUESTIONS = 50
"""Most questions and awaited events of one workflow that are open at a time; the next one follows an answer."""
_FOR_ALL = ("authentication", "billing", "spend_limit")
"""Kinds of refusals that every further agent would meet, too."""
_CONTINUE = " Continue it"
_DROPPED = "its result is no longer awaited"


class WorkflowStep(Step):
    """The program of one running agent."""

    takes = (Advance,)

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._stopped = False
        """Whether calls that the program gave up are known to be stopped."""
        self._refused: dict[str, str] = {}
        """Awaited agents that ended for a reason that all others would meet, with the reason."""
        self._looked_at = 0
        """How many entries of the program are known to end nothing."""
        self._waits = False
        """Whether the last thing it did was to wait."""

    def due(self, action: Action) -> Callable[[], Turn]:
        """Continue the program."""
        return self._advance

    def after_segment(self) -> None:
        """Drop the program and the history, unless they are kept; the next segment reads and replays them."""
        if "_replay" not in self.__dict__:
            return
        segment, replay = self.segment, self._replay
        worth = self._waits and kept.is_worth_keeping(segment.history.lived)
        if not (worth and kept.keep(segment.spec.agent_id, replay)):
            replay.program.close()
        if worth:
            segment.journal.keep()

    @cached_property
    def _replay(self) -> Replay:
        spec = self.segment.spec
        if (known := kept.take(spec.agent_id, self.segment.history.lived)) is not None:
            return known
        desk = Desk(seed=spec.agent_id, limits=spec.limits)
        return Replay(make_program(spec.definition, desk, spec.prompt), desk)

    @cached_property
    def _reuse(self) -> Reuse | None:
        spec = self.segment.spec
        whole = self.segment.carried("reuse", Reuse, "the results that it reuses")
        return None if whole is None else whole.of(spec.agent_id, root_agent_id(spec.job_id))

    def _advance(self) -> Turn:
        """Do the next thing that is due: one step in Redis, or none before a wait."""
        lived, segment, self._waits = self.segment.history.lived, self.segment, False
        if not lived:
            self._append(Advanced())
            return None
        if is_out_of_time(segment):
            return Finished(state="timed_out", reason="the time limit was reached")
        if reason := self._find_end_of_all(lived):
            return self._pause(reason)
        try:
            self._replay.follow(lived)
        except (WorkflowChanged, ConfigurationError) as error:
            return Finished(state="failed", reason=str(error))
        desk = self._replay.desk
        if self._replay.has_news:
            known = [] if self._reuse is None else self._reuse.take(desk.calls)
            self._append(Advanced(calls=desk.calls, dropped=desk.dropped, notes=desk.notes), known)
            return None
        if not self._stopped:
            self._stopped = True
            self._stop_dropped(lived)
        if self._replay.program.ended is not None:
            return _finish(self._replay.program.ended)
        if self._collect() or self._refused:
            return None
        turn = self._wait()
        self._waits = isinstance(turn, Condition | Asking)
        return turn

    # -- the journal ---------------------------------------------------------------------------------------

    def _append(self, entry: Advanced, results: Sequence[ToolFinished] = ()) -> None:
        """Journal the program's calls, or results for it, with the time and the job's use."""
        segment = self.segment
        [job] = segment.store.jobs.views([segment.spec.job_id])
        used = read_allowances(segment.store.keyspace, job.id, segment.spec.agent_id) if self._gives_allowances else {}
        update = {"spent_usd": job.reckoned_usd, "spent_tokens": job.usage.total_tokens, "allowances": used}
        entry = entry.model_copy(update=update)
        activity = self._describe()
        segment.journal.append([entry, *results], counters=Counters(tools=len(results)), activity=activity)
        for note in entry.notes:
            segment.store.events.emit(
                segment.spec.job_id, "note", segment.spec.agent_id, sort=note.kind, text=note.text
            )
        self._stopped = self._stopped and not entry.dropped

    @property
    def _gives_allowances(self) -> bool:
        return "_replay" in self.__dict__ and bool(self._replay.desk.allowances)

    def _describe(self) -> str:
        """Say where the program waits: its phase, its progress, and the line of its source."""
        if "_replay" not in self.__dict__:
            return "running"
        desk, program = self._replay.desk, self._replay.program
        place = [desk.phase and f"in {desk.phase}", desk.progress, program.place and f"at {program.place}"]
        return clean_text(f"waiting {', '.join(filter(None, place))}".rstrip())

    def _stop_dropped(self, lived: Sequence[Advanced | ToolFinished]) -> None:
        """End the agents, and close the questions, of calls that the program gave up. Repeating it is harmless."""
        segment = self.segment
        dropped = [call_id for entry in lived if isinstance(entry, Advanced) for call_id in entry.dropped]
        started = [segment.history.spawned[one] for one in dropped if one in segment.history.spawned]
        for child in segment.store.agents.find(started):
            if child is not None and not child.ended:
                by = (segment.spec.agent_id, segment.claim.generation)
                segment.publish(segment.store.agents.cancel(child.id, _DROPPED, by=by))
        for call_id in dropped:
            if call_id not in segment.history.spawned:
                asked = question_id(segment.spec.agent_id, call_id)
                if segment.store.questions.find(asked) is not None:
                    segment.store.questions.expire(asked)

    # -- results -------------------------------------------------------------------------------------------

    @property
    def _at_work(self) -> dict[str, str]:
        """Awaited agents: agent id → call id."""
        history = self.segment.history
        return {history.spawned[call_id]: call_id for call_id in history.pending if call_id in history.spawned}

    def _collect(self) -> bool:
        """Journal the results that have come, in the order of the agents' ends. Returns whether there were any."""
        calls = self._at_work
        ended = self.segment.store.agents.ended(list(calls)) if calls else {}
        ordered = sorted(ended.values(), key=lambda one: (one.ended_at or 0.0, one.id))[:TAKEN_AT_ONCE]
        fresh = (one for one in ordered if one.id not in self._refused)
        self._refused |= {one.id: _cause_of(one.reason) for one in fresh if self._ends_all(one)}
        told = [one for one in ordered if one.id not in self._refused]
        if not told:
            return False
        pending = self.segment.history.pending
        merging = [one for one in told if one.isolation != "none" and pending[calls[one.id]].get("merge", True)]
        merged = self.parts.isolation.collect(merging) if merging else None
        results = []
        for one in told:
            note = "" if merged is None else merged.notes.get(one.id, "")
            results.append(_result_of(one, calls[one.id], note))
        if merged is not None and merged.commit:
            results[-1] = results[-1].model_copy(update={"commit": merged.commit})
        self._append(Advanced(), results)
        return True

    def _find_end_of_all(self, lived: Sequence[Advanced | ToolFinished]) -> str:
        """Return why no further agent could work; empty if one could."""
        for entry in lived[self._looked_at :]:
            if isinstance(entry, ToolFinished) and ends_all(entry, self.segment.spec.limits):
                return entry.text
            self._looked_at += 1
        return next(iter(self._refused.values()), "")

    def _ends_all(self, one: AgentView) -> bool:
        """Whether every further agent would end as this one did."""
        if one.state == "completed":
            return False
        if one.stopped_at in ("tokens", "budget"):
            return not one.reason.startswith(notes.ALLOWANCE_USED)
        if one.reason.startswith(PAUSED):
            return notes.TOO_MANY_CHILDREN not in one.reason
        failures = [entry for entry in self.segment.store.journals.read(one.id) if isinstance(entry, ModelFailed)]
        return one.state == "failed" and bool(failures) and failures[-1].error_kind in _FOR_ALL

    def _pause(self, reason: str) -> Turn:
        """End the run once the agents at work have ended, so that nothing that was paid is lost."""
        if self._collect():
            return None
        alive = [one for one in self._at_work if one not in self._refused]
        if alive:
            return Condition(children=alive, mode="any")
        return Finished(
            state="failed", reason=f"{PAUSED}{reason}{_CONTINUE} with `swarm resume {self.segment.spec.job_id}`."
        )

    # -- waiting -------------------------------------------------------------------------------------------

    def _wait(self) -> Turn:
        """Return the program's wait: for agents, a moment, an answer."""
        history = self.segment.history
        asks = [call for call in history.pending.values() if history.kind_of(call) is Kind.ASK]
        asking = self._answer(asks) if asks else None
        if asks and asking is None:
            return None
        children, until = list(self._at_work), self._replay.program.until
        if until is not None and until <= self.segment.claim.now():
            self._append(Advanced())
            return None
        if not children and until is None and asking is None:
            if history.pending:
                return Finished(
                    state="failed", reason=f"nothing carries out {next(iter(history.pending.values()))['name']}"
                )
            return Finished(state="failed", reason="the program waits for something that nothing will give")
        condition = Condition(children=children, mode="any", until=until)
        if asking is None:
            return condition
        return replace(
            asking, condition=condition.model_copy(update=asking.condition.model_dump(exclude_defaults=True))
        )

    def _answer(self, asks: Sequence[Block]) -> Asking | None:
        """Journal answers that have come, or return the wait for the open questions."""
        decision = self.parts.approvals.decide(asks[:MOST_QUESTIONS])
        if decision.settled:
            results = sum(isinstance(entry, ToolFinished) for entry in decision.settled)
            self.segment.journal.append(decision.settled, counters=Counters(tools=results))
        elif decision.run:
            self.parts.calls.run(decision.run)
        elif decision.question is not None:
            asked_id, ask, call_id = decision.question
            event = ask.title if ask.kind == "event" else ""
            further = {one_id: _as_data(one) for one_id, one, _ in decision.questions[1:]}
            return Asking(
                Condition(question=asked_id, event=event, further=list(further)), call_id, _as_data(ask), further
            )
        return None


def _cause_of(reason: str) -> str:
    """Return why an agent was refused, without what a workflow adds to that."""
    return reason.removeprefix(PAUSED).partition(_CONTINUE)[0]


def _as_data(ask: Ask) -> dict[str, Any]:
    return ask.model_dump(exclude={"to"} if ask.to is None else None)


def _result_of(one: AgentView, call_id: str, note: str) -> ToolFinished:
    """Return an ended agent's result: its data as JSON, or its text; or its reason."""
    if one.state != "completed":
        text = f"{one.called} {one.state.replace('_', ' ')}: {one.reason or 'it gave no reason'}"
        return ToolFinished(tool_use_id=call_id, text=text, is_error=True)
    text = one.data or one.text
    if note and not note.startswith((notes.MERGED, notes.NOTHING_TO_MERGE)):
        return ToolFinished(tool_use_id=call_id, text=f"its changes were not merged: {note}\n\n{text}", is_error=True)
    return ToolFinished(tool_use_id=call_id, text=text)


def _finish(ended: ProgramEnd) -> Finished:
    if ended.error:
        return Finished(state="failed", reason=ended.error)
    return Finished(state="completed", text=as_text(ended.value), data=json.loads(json.dumps(ended.value)))
