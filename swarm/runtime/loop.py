"""The loop: load the journal, decide, act, until the agent ends or gives its process back.

`swarm.agent.decision.next_action` decides; everything here acts. Each step is journaled before the next one is decided, so a process
that dies here costs at most its current step. Capabilities of some agents are `Step` objects, and not named here.
"""

from __future__ import annotations

import errno
import json
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from swarm.agent.compaction import Compact
from swarm.agent.decision import (
    Action,
    AwaitMail,
    Begin,
    CallModel,
    CollectChildren,
    Done,
    End,
    Rest,
    RunTools,
    Say,
    SendMessages,
    Settle,
    SpawnAgents,
    SwitchModel,
    Wait,
    WantedModel,
    next_action,
)
from swarm.agent.entries import Finished, ToolFinished
from swarm.agent.history import History
from swarm.agent.journaled import Condition
from swarm.agent.notes import refuse_mail
from swarm.core.errors import (
    AgentCancelled,
    GitFailed,
    HubAway,
    Interrupted,
    NotOwner,
    QuestionClosed,
    UnfitWorker,
    UnknownQuestion,
    UnreadableRecord,
)
from swarm.core.log import EventLog
from swarm.mailbox import PAGE_BYTES
from swarm.models import Block
from swarm.runtime.children import SPAWNED_AT_ONCE
from swarm.runtime.model_call import Reserved, awaited
from swarm.runtime.parts import Parts
from swarm.runtime.request_prefix import begin, redefine
from swarm.runtime.scratch import clear_scratch
from swarm.runtime.segment import Ended, GaveUp, HandedOver, NoRoom, Outcome, Segment, Unserved, Waits
from swarm.runtime.steps import Again, Asking, Step, Turn
from swarm.runtime.wait import is_out_of_time, keep_to_time, leave_undone, park, wait_for, wait_for_slot
from swarm.store.questions import Ask
from swarm.store.values import Counters, GoOn
from swarm.tools import AwaitsAnswer
from swarm.tools.registry import describe_call

log = EventLog("swarm.segment")

WAIT_IN_PLACE_SECONDS = 2.0
"""The longest wait for the model that is slept through. A longer one gives the process back."""


class Loop:
    """Runs one claimed segment. Not reusable."""

    def __init__(self, segment: Segment, *, draining: Callable[[], str]) -> None:
        self.segment, self.draining = segment, draining
        self.journal, self.store, self.stop, self.spec = segment.journal, segment.store, segment.stop, segment.spec
        self.parts = Parts(segment, draining)
        self.steps: Sequence[Step] = ()
        """The agent's capabilities, once its journal is read."""
        self._yield_at = time.monotonic() + segment.settings.segment_seconds

    def run(self) -> Outcome:
        """Run until the agent ends or gives its process back."""
        try:
            return self._run()
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as error:
            return GaveUp(str(error))
        except HubAway as error:
            return self._hand_over(str(error), last=True)
        except GitFailed as error:
            return self._set_back(error)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return self._set_back(GitFailed(str(error), "disk"))
        except UnfitWorker as error:
            self.segment.publish(self.store.agents.hand_over(self.segment.claim, "its worker cannot use the model"))
            return Unserved(error.model, str(error))
        except UnreadableRecord as error:
            # A newer worker can probably read it. Requeued but unpublished: the outbox offers it again later.
            log.error("agent.unreadable", agent_id=self.spec.agent_id, error=error)
            self.store.agents.hand_over(self.segment.claim, "unreadable")
            return HandedOver(str(error))
        except Interrupted:
            return self._interrupted()
        finally:
            for step in self.steps:
                step.after_segment()

    def _run(self) -> Outcome:
        try:
            self.journal.load()
            self.segment.follow_switch(self.segment.claim.slot)
            self.steps = self.parts.steps
            outcome = self._enter()
            while outcome is None:
                self.stop.check()
                outcome = self._step()
            return outcome
        finally:
            # Whatever ends the segment, a reply is paid for.
            self.journal.flush()

    @property
    def history(self) -> History:
        """The history folded from the journal so far."""
        return self.segment.history

    # -- the next action -----------------------------------------------------------------------------------

    def _enter(self) -> Outcome | None:
        """Restore the workspace to its journaled state before anything else reads it."""
        if self.history.finished is not None:
            return None
        if why := self.segment.keep_below_ceiling():
            return self._end(Finished(state="failed", reason=why))
        for step in self.steps:
            if (outcome := self._turn(step.before_segment())) is not None:
                return outcome
        history, spec = self.history, self.spec
        if history.spec is None or spec.fork is not None or history.spec.definition == spec.definition:
            return None
        return self._turn(redefine(self.parts))

    def _step(self) -> Outcome | None:
        return self._do(self._next())

    def _next(self) -> Action:
        segment = self.segment
        wanted = self.journal.chosen
        chosen = WantedModel(**json.loads(wanted)) if wanted else None
        action = next_action(self.history, self.parts.model_call.bounds(), chosen)
        if self.spec.max_seconds is not None:
            action = keep_to_time(segment, action)
        if isinstance(action, RunTools | SpawnAgents | SendMessages | Wait) and is_out_of_time(segment):
            return leave_undone(self.history) or action
        return action

    def _do(self, action: Action) -> Outcome | None:
        for step in self.steps:
            if isinstance(action, step.takes) and (work := step.due(action)) is not None:
                self.journal.flush()
                return self._leave() or self._turn(work())
        if not isinstance(action, RunTools):
            self.journal.flush()
        match action:
            case CallModel() | Compact():
                return self._ask_model(action)
            case RunTools() | SpawnAgents() | SendMessages() | Wait() | CollectChildren() | Settle():
                return self._answer_calls(action)
            case Begin():
                return self._begin()
            case SwitchModel():
                return self._switch(action)
            case Say(prompt=prompt):
                self.journal.append([prompt])
            case AwaitMail():
                return None if self.parts.messenger.take_mail() else self._park(Condition(mail="any"))
            case End(finished=finished):
                return self._end(finished)
            case Rest(then=then):
                return self._rest(then)
            case Done():
                return GaveUp("it had ended already")
            case _:
                raise AssertionError(f"no step of this agent carries it out: {action}")
        return None

    def _turn(self, turn: Turn) -> Outcome | None:
        """Apply the result of a piece of work: end the agent, or wait."""
        match turn:
            case Finished() as finished:
                return self._end(finished)
            case Condition() as condition:
                return self._park(condition)
            case Asking(condition, tool_use_id, ask, further):
                return self._park(condition, tool_use_id=tool_use_id, ask=ask, further=further)
            case Again(why):
                return self._hand_over(why)
        return None

    # -- the actions ---------------------------------------------------------------------------------------

    def _begin(self) -> Outcome | None:
        for step in self.steps:
            if why := step.unfit():
                return self._hand_over(why)
        return self._turn(begin(self.parts))

    def _leave(self) -> HandedOver | None:
        """Hand over if the worker takes no agents."""
        return self._hand_over(why) if (why := self.draining()) else None

    def _give_way(self) -> HandedOver | None:
        """Hand over between two model calls if another agent needs the process."""
        if (out := self._leave()) is not None or time.monotonic() <= self._yield_at:
            return out
        return self._hand_over("others wait for the process", last=True)

    def _ask_model(self, action: CallModel | Compact) -> Outcome | None:
        if (handed_over := self._give_way()) is not None:
            return handed_over
        if isinstance(action, CallModel) and self._take_mail_between_turns():
            return None
        if (parked := self._wait_until(action.not_before)) is not None:
            return parked
        if not self.journal.share.is_ready and (waits := wait_for_slot(self.segment)) is not None:
            return waits if isinstance(waits, Waits) else None
        for step in self.steps:
            if isinstance(action, step.takes) and (turn := step.before_request(action)) is not None:
                return None if isinstance(turn, bool) else self._turn(turn)
        assert isinstance(action, CallModel), "nothing here cuts a conversation"
        reserved = self.parts.model_call.reserve()
        if not isinstance(reserved, Reserved):
            return self._turn(awaited(reserved))
        self.parts.model_call.request(action, reserved)
        return None

    def _switch(self, action: SwitchModel) -> Outcome | None:
        from swarm.runtime.switching import switch

        instead = switch(self.parts, action)
        return None if instead is None else self._do(instead)

    def _take_mail_between_turns(self) -> bool:
        # Mail that does not fit into one turn stays in the mailbox for the next ones.
        # A program reads its mail as it arrives.
        room = self.history.mail_taken < PAGE_BYTES and not self.spec.definition.command
        if not self.journal.unread or not room or self.spec.batch:
            return False
        between_turns = self.history.messages[-1]["role"] == "user" and self.history.final_answer is None
        return between_turns and self.parts.messenger.take_mail()

    def _wait_until(self, moment: float) -> Waits | None:
        wait = moment - self.segment.claim.now()
        if wait > WAIT_IN_PLACE_SECONDS:
            return self._park(Condition(until=moment, model=True))
        if wait > 0:
            with self.stop.waiting():
                self.stop.event.wait(wait)
            self.stop.check()
        return None

    def _answer_calls(
        self, action: RunTools | SpawnAgents | SendMessages | Wait | CollectChildren | Settle
    ) -> Outcome | None:
        parts = self.parts
        match action:
            case RunTools(calls=calls):
                return self._leave() or self._run_approved(calls, parts.calls.run)
            case SpawnAgents(calls=calls):
                return self._run_approved(calls[:SPAWNED_AT_ONCE], parts.children.spawn)
            case SendMessages(calls=calls):
                return self._run_approved(calls, parts.messenger.send)
            case Wait(call=call, since=since):
                return wait_for(self.segment, parts.toolbox, call, since)
            case CollectChildren(children=children):
                return self._turn(parts.children.collect(children))
            case Settle(results=results):
                self.journal.append_results(results)
        return None

    def _run_approved(
        self, calls: Sequence[Block], run: Callable[[Sequence[Block]], Condition | None]
    ) -> Outcome | None:
        """Run allowed calls and settle denied ones. Parks if only open questions are left, or `run` returns what to wait for."""
        decision = self.parts.approvals.decide(calls)
        if decision.settled:
            results = sum(isinstance(entry, ToolFinished) for entry in decision.settled)
            self.journal.append(decision.settled, counters=Counters(tools=results))
            for call, why in decision.denied:
                self.store.events.emit(
                    self.spec.job_id, "denied", self.spec.agent_id, call=describe_call(call), why=why
                )
        if decision.run:
            try:
                if (condition := run(decision.run)) is not None:
                    return self._park(condition)
            except AwaitsAnswer as awaited:
                return self._put_question(awaited)
        elif not decision.settled and decision.question is not None:
            asked_id, ask, call_id = decision.question
            if self._before_question(call_id, ask):
                return None
            question = ask.model_dump(exclude={"to"} if ask.to is None else None)
            event = ask.title if ask.kind == "event" else ""
            return self._park(Condition(question=asked_id, event=event), tool_use_id=call_id, ask=question)
        return None

    def _put_question(self, awaited: AwaitsAnswer) -> Outcome | None:
        """Park a running call until its question is answered, perhaps at once in the person's place."""
        found = (step.answer(awaited) for step in self.steps)
        answer = next(filter(None, found), "") or ("" if self.segment.ask_seconds > 0 else awaited.otherwise)
        if not answer:
            self._before_question(awaited.tool_use_id, awaited.ask, in_call=True)
        asking = awaited.ask.model_dump(exclude={"to"})
        parked = self._park(Condition(question=awaited.question_id), tool_use_id=awaited.tool_use_id, ask=asking)
        if parked is not None and answer:
            # The parked agent is woken in the step that stores the answer. If this process dies before, a person is asked.
            with suppress(QuestionClosed, UnknownQuestion):
                self.segment.publish(self.store.questions.answer(awaited.question_id, answer, by="a hook"))
        return parked

    def _before_question(self, call_id: str, ask: Ask, *, in_call: bool = False) -> bool:
        call = self.history.pending[call_id]
        return any(step.before_question(call, ask, in_call=in_call) for step in self.steps)

    def _rest(self, then: Action) -> Outcome | None:
        # A message woke the agent: no need to try and park first.
        if self.journal.unread and self.parts.messenger.take_mail():
            return None
        match park(self.segment, Condition(rest=True)):
            case Waits() as waits:
                return waits
            case GoOn(why="mail"):
                self.parts.messenger.take_mail()
                return None
            case GoOn():
                return self._do(then)

    # -- ways out ------------------------------------------------------------------------------------------

    def _park(self, condition: Condition, **asking: Any) -> Waits | None:
        parked = park(self.segment, condition, **asking)
        return parked if isinstance(parked, Waits) else None

    def _hand_over(self, why: str, *, last: bool = False) -> HandedOver:
        self.journal.flush()
        self.segment.publish(self.store.agents.hand_over(self.segment.claim, why, last=last))
        return HandedOver(why)

    def _end(self, finished: Finished) -> Outcome | None:
        for step in self.steps:
            finished = step.before_end(finished)
        finished = self.journal.stamp(finished)
        # An agent that gets a question while it answers takes the question in and continues.
        unless_mail = finished.state == "completed" and self.history.final_answer is None and not self.history.leaving
        answer = self.store.agents.finish(
            self.segment.claim,
            self.journal.next_number,
            finished,
            unless_mail=unless_mail and not self.spec.batch,
            rejection=refuse_mail(self.spec, finished),
        )
        if isinstance(answer, GoOn):
            self.parts.messenger.take_mail()
            return None
        self.segment.publish(answer)
        self.history.apply(finished)
        for step in self.steps:
            step.at_end(finished)
        self._clear()
        summary = (
            finished.reason
            or f"{self.history.turns} turns, {self.history.tool_calls} tool calls, {self.history.usage.total_tokens} tokens"
        )
        return Ended(finished.state, summary)

    def _clear(self) -> None:
        clear_scratch(self.segment.settings, self.spec.agent_id)
        for step in self.steps:
            step.clear()

    def _set_back(self, error: GitFailed) -> Outcome:
        """Requeue the agent after a failure of this host: for others if its disk is full, else for later."""
        host = socket.gethostname()
        log.error("agent.set_back", agent_id=self.spec.agent_id, host=host, error=error)
        try:
            if error.trouble == "missing" and self.history.finished is None:
                why = f"the hub has lost the workspace's files: {error}"
                return self._end(
                    Finished(state="failed", text=self.history.reply_text.text_at_hand(), reason=why)
                ) or Ended("failed", why)
            if error.trouble == "disk":
                why = f"the disk of {host} is full"
                return NoRoom(str(error), self.store.agents.hand_over(self.segment.claim, why))
            self.store.agents.hand_over(self.segment.claim, f"its files cannot be kept on {host}")
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as lost:
            return GaveUp(str(lost))
        return HandedOver(str(error))

    def _interrupted(self) -> Outcome:
        """Handle an interruption: the agent was cancelled, or is handed over unharmed.

        The latter follows a late signal that was meant for another agent.
        """
        try:
            return self._hand_over("interrupted")
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as error:
            return GaveUp(str(error))

    def _cancelled(self) -> Outcome:
        self._clear()
        return GaveUp("it was cancelled", cancelled=True)
