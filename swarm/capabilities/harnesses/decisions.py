"""Decide about each call of a harness: by the rules, modes and hooks of its job, or by a person's answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm.agent.entries import Answered, ToolFinished, ToolStarted
from swarm.agent.harnesses import ALLOWED, ALONE, BEGUN_BEFORE, NOT_OF_CHILDREN, find_put_off
from swarm.capabilities.harnesses.step import canonical
from swarm.capabilities.harnesses.store import HarnessStore
from swarm.core.usage import Counters
from swarm.definitions.tools import Kind, row_of
from swarm.models import Block
from swarm.store.questions import Ask
from swarm.tools.registry import describe_call

if TYPE_CHECKING:
    from swarm.capabilities.harnesses.run import HarnessRun

_STRICT = ("deny", "ask", "allow")


def has_effects(call: Block) -> bool:
    """Return whether a call may change something, so that it must not be made twice."""
    return row_of(canonical(call)["name"]).kind is not Kind.LOOK


class HeldQuestion(NamedTuple):
    """A question that keeps the program waiting."""

    call: Block
    until: float
    """The end of its wait, by the monotonic clock."""


class CallDecisions:
    """The decisions of one run. All on the thread that runs the agent."""

    def __init__(self, run: HarnessRun) -> None:
        self._run, self._parts, self._segment = run, run.parts, run.segment
        self._history, self._journal = run.history, run.journal
        self._held: HeldQuestion | None = None
        self._granted: list[tuple[str, Any]] = []
        """Calls that a person has allowed and the program must make again."""
        self.put_off = False
        """Whether the program ends because a person is asked."""

    def grant_allowed(self) -> None:
        """Grant the calls that a person has allowed to a program that cannot continue at them: the model makes them again."""
        for call in find_put_off(self._history):
            if call["id"] in self._history.pending and self._history.answers[call["id"]].allowed:
                self._granted.append((call["name"], call["input"]))
                self._journal.append_results([ToolFinished(tool_use_id=call["id"], text=ALLOWED)])

    def judge_child(self, call: Block) -> tuple[bool, str]:
        """Judge a call of the program's own agent, which can ask no one."""
        verdict = self._parts.approvals.judge(canonical(call))
        return verdict.action == "allow", verdict.reason if verdict.action == "deny" else NOT_OF_CHILDREN

    def decide(self, call: Block, paths: Sequence[str] = ()) -> None:
        """Decide about a call that the program is about to make; the adapter gets the answer, perhaps later.

        `paths` are all files that it changes, if more than one: the strictest judgement holds.
        """
        call_id = call["id"]
        if call_id in self._history.tools_started or call_id not in self._history.pending:
            known = self._history.known_result(call_id) or {}
            self._run.adapter.answer(call_id, False, str(known.get("content") or "") or BEGUN_BEFORE)
            return
        if (grant := (call["name"], call["input"])) in self._granted:
            self._granted.remove(grant)
            self._journal.append([Answered(tool_use_id=call_id, allowed=True)])
        self._apply(self._strictest(call, paths))

    def _strictest(self, call: Block, paths: Sequence[str]) -> Block:
        """Return the call as one about the file that is judged most strictly."""
        about = [{**call, "input": {**call["input"], "file_path": path}} for path in paths]
        return min(
            about, key=lambda one: _STRICT.index(self._parts.approvals.judge(canonical(one)).action), default=call
        )

    def _apply(self, call: Block) -> bool:
        """Apply the decision about a call, if there is one; else see to its question. Returns whether it is decided."""
        call_id, approvals = call["id"], self._parts.approvals
        decision = approvals.decide_outside(canonical(call))
        if decision.question is None:
            results = sum(isinstance(entry, ToolFinished) for entry in decision.settled)
            if decision.settled:
                self._journal.append(decision.settled, counters=Counters(tools=results))
            for denied, why in decision.denied:
                self._segment.store.events.emit(
                    self._segment.spec.job_id,
                    "denied",
                    self._segment.spec.agent_id,
                    call=describe_call(denied),
                    why=why,
                )
            if decision.run:
                self._begin_call(call)
                self._run.adapter.answer(call_id, True, "")
            else:
                text = next(entry.text for entry in decision.settled if isinstance(entry, ToolFinished))
                self._run.adapter.answer(call_id, False, text)
            return True
        if self._held is None:
            self._see_to_question(call, decision.question[1])
        return False

    def _see_to_question(self, call: Block, ask: Ask) -> None:
        """Keep the program waiting for a while, or have it put the call off."""
        hold = self._run.harness.question_hold
        if hold <= 0 or self._held is not None:
            self._put_off_or_refuse(call)
            return
        steps = HarnessStore(self._segment.store.keyspace, self._segment.claim)
        self._segment.publish(steps.ask(self._parts.approvals.question_id(call), ask))
        self._run.tell(f"asks: {ask.title}")
        self._held = HeldQuestion(call, time.monotonic() + hold)

    def look_at_question(self) -> None:
        """Apply the answer to the question that keeps the program waiting, if there is one; else end a wait that has lasted too long."""
        held = self._held
        if held is None:
            return
        if self._apply(held.call):
            self._held = None
        elif time.monotonic() > held.until:
            self._held = None
            self._put_off_or_refuse(held.call)

    def _put_off_or_refuse(self, call: Block) -> None:
        """Have the program put a call off. It can do that with the only call of a reply; the model must make any other again."""
        if all(one == call["id"] for one in self._history.pending):
            self.put_off = True
            self._run.adapter.put_off(call["id"])
            return
        self._segment.store.questions.expire(self._parts.approvals.question_id(call))
        self._journal.append_results([ToolFinished(tool_use_id=call["id"], text=ALONE, is_error=True)])
        self._run.adapter.answer(call["id"], False, ALONE)

    def _begin_call(self, call: Block) -> None:
        """Journal that a call with effects begins, before it does."""
        if not has_effects(call):
            return
        if self._run.session is not None and self._run.adapter.keeps_each_call:
            # Its own record of the reply goes first, or it would make the call again.
            self._run.session.keep()
        self._journal.append([ToolStarted(tool_use_id=call["id"])], activity=describe_call(call))
        for step in self._parts.steps:
            step.before_call(call)
