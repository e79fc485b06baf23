"""The loop: load the journal, ask what is next, do it, until the agent ends or gives its process back.

`swarm.agent.decision.next_action` decides; everything here acts. Each step is journaled before the next is asked for, so a process
that dies between two lines of this file costs at most the step it was in.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from swarm.agent.compacting import Compact
from swarm.agent.decision import (
    AwaitGrader,
    AwaitMail,
    Begin,
    CallModel,
    CollectChildren,
    Done,
    End,
    Grade,
    Rest,
    RunCheck,
    RunTools,
    Say,
    SendMessages,
    Settle,
    SpawnAgents,
    Wait,
    next_action,
)
from swarm.agent.entries import Finished, ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.life import Life
from swarm.agent.needs import needs_of
from swarm.agent.notes import refuse_mail
from swarm.core.errors import AgentCancelled, GitFailed, HubAway, Interrupted, NotOwner, UnfitWorker, UnreadableRecord
from swarm.core.log import EventLog
from swarm.mailbox import PAGE_BYTES
from swarm.models import Block, Model
from swarm.runtime.approvals import Approvals
from swarm.runtime.auto_mode import AutoMode
from swarm.runtime.batching import leave_to_batch, refuse_turn
from swarm.runtime.children import SPAWNED_AT_ONCE, Children
from swarm.runtime.commands import Calls, Commands, SettingUp
from swarm.runtime.compacting import Compacting
from swarm.runtime.consulting import Consulting
from swarm.runtime.entering import begin, enter, redefine
from swarm.runtime.guidance import Guidance
from swarm.runtime.hooking import Hooking, hooking_of
from swarm.runtime.isolation import Isolation
from swarm.runtime.judging import Judging
from swarm.runtime.messaging import Exchanging, Messaging
from swarm.runtime.model_call import ModelCall, Reserved, Told
from swarm.runtime.reading import keeping_of
from swarm.runtime.segment import Ended, GaveUp, HandedOver, Outcome, Segment, Unserved, Waits
from swarm.runtime.summing import Summing
from swarm.runtime.toolbox import Toolbox
from swarm.runtime.waiting import is_out_of_time, keep_to_time, leave_undone, park, wait_for, wait_for_slot
from swarm.store.values import Busy, Counters, GoOn
from swarm.tools import AwaitsAnswer

log = EventLog("swarm.segment")

WAIT_IN_PLACE_SECONDS = 2.0
"""A shorter wait for the model is slept through; a longer one gives the process back."""


class Loop:
    """Runs one claimed segment. Not reusable."""

    def __init__(self, segment: Segment, model: Model, *, draining: Callable[[], bool]) -> None:
        self.segment, self.draining = segment, draining
        self.journal, self.store, self.stop, self.spec = segment.journal, segment.store, segment.stop, segment.spec
        self.messaging = Messaging(segment)
        self.files = keeping_of(segment, draining)
        self.isolation = Isolation(segment, self.files)
        exchange = Exchanging(segment) if self.spec.definition.command else None
        consulting = Consulting(segment, model)
        self.toolbox = Toolbox(segment, consulting, self.isolation.merge, exchange)
        self.guidance = Guidance(segment)
        self.approvals = Approvals(segment, self.toolbox, AutoMode(segment, consulting))
        self.calls = Calls(segment, self.toolbox, self.guidance, self.files)
        self.model_call = ModelCall(segment, model, self.toolbox.activity)
        self.children = Children(
            segment, self.toolbox, self.model_call, self.isolation, self.files, self._refuse_member
        )
        self.toolbox.start_members = self.children.start_members
        self.compacting = Compacting(segment, model, self.model_call, self.toolbox)
        commands = Commands(segment, self.toolbox, self.files)
        self.judging = Judging(segment, commands, self.model_call)
        self.setting_up = SettingUp(segment, commands, self.files)
        self.summing = Summing(segment, model)
        self._yield_at = time.monotonic() + segment.settings.segment_seconds

    def run(self) -> Outcome:
        """Run until the agent ends or gives its process back."""
        try:
            self.journal.load()
            outcome = self._enter()
            while outcome is None:
                self.stop.check()
                outcome = self._step()
            return outcome
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as error:
            return GaveUp(str(error))
        except HubAway as error:
            return self._hand_over(str(error), last=True)
        except GitFailed as error:
            return self._set_back(error)
        except UnfitWorker as error:
            self.segment.publish(self.store.agents.hand_over(self.segment.claim, "its worker cannot have the model"))
            return Unserved(error.model, str(error))
        except UnreadableRecord as error:
            # A newer worker can probably read it. Back to the queue, but unpublished: the outbox offers it again later.
            log.error("agent.unreadable", agent_id=self.spec.agent_id, error=error)
            self.store.agents.hand_over(self.segment.claim, "unreadable")
            return HandedOver(str(error))
        except Interrupted:
            return self._interrupted()
        finally:
            self.files.leave()

    @cached_property
    def hooks(self) -> Hooking | None:
        """What has its hooks run; None where it has none."""
        return hooking_of(self.segment, self.toolbox, self.files)

    def _refuse_member(self, call: Block) -> str:
        return self.approvals.refuse(call) or (self.hooks.refuse(call) if self.hooks is not None else "")

    @property
    def life(self) -> Life:
        """What the journal tells so far."""
        return self.segment.life

    def _enter(self) -> Outcome | None:
        match enter(self.segment, self.isolation, self.files):
            case Finished() as finished:
                return self._end(finished)
            case Condition() as condition:
                return self._park(condition)
        refused = redefine(self.segment, self.toolbox)
        return None if refused is None else self._end(refused)

    def _set_back(self, error: GitFailed) -> Outcome:
        """What is wrong is this host's (a full disk, say): the agent is offered again later, perhaps to another one."""
        log.error("agent.set_back", agent_id=self.spec.agent_id, host=socket.gethostname(), error=error)
        try:
            if error.trouble == "missing" and self.life.finished is None:
                why = f"the hub has lost what the workspace held: {error}"
                return self._end(Finished(state="failed", text=self.life.speech.text_at_hand(), reason=why)) or Ended(
                    "failed", why
                )
            self.store.agents.hand_over(self.segment.claim, f"its files cannot be kept on {socket.gethostname()}")
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as lost:
            return GaveUp(str(lost))
        return HandedOver(str(error))

    def _step(self) -> Outcome | None:
        action = next_action(self.life, self.compacting.bounds() if self.life.spec is not None else None)
        action = keep_to_time(self.segment, action)
        if isinstance(action, RunTools | SpawnAgents | SendMessages | Wait) and is_out_of_time(self.segment):
            action = leave_undone(self.life) or action
        if self.setting_up.is_due(action) and not is_out_of_time(self.segment):
            if (out := self._leave()) is None:
                self.setting_up.run()
            return out
        if self.hooks is not None and (due := self.hooks.due(action)):
            if (out := self._leave()) is None:
                self.hooks.run(due)
            return out
        match action:
            case Begin():
                return self._begin()
            case Say(prompt=prompt):
                self.journal.append([prompt])
            case CallModel():
                return self._call_model(action)
            case Compact():
                return self._compact(action)
            case RunTools(calls=calls):
                return self._leave() or self._run_approved(calls, self.calls.run)
            case Settle(results=results):
                self.journal.append_results(results)
            case SpawnAgents(calls=calls):
                return self._run_approved(calls[:SPAWNED_AT_ONCE], self.children.spawn)
            case CollectChildren(children=children):
                return self._collect(children)
            case SendMessages(calls=calls):
                return self._run_approved(calls, self.messaging.send)
            case Wait(call=call, since=since):
                return wait_for(self.segment, self.toolbox, call, since)
            case AwaitMail():
                return None if self.messaging.take_mail() else self._park(Condition(mail="any"))
            case RunCheck() | Grade() | End():
                return self._conclude(action)
            case AwaitGrader(grading=grading):
                return self.judging.collect(grading)
            case Rest(then=then):
                return self._rest(then)
            case Done():
                return GaveUp("it had ended already")
        return None

    # -- the actions ---------------------------------------------------------------------------------------

    def _begin(self) -> Outcome | None:
        if self.toolbox.servers.cannot_be_had:
            needs = needs_of(self.segment.claim.spec, serving=True, servers=self.toolbox.servers.at_home)
            self.store.agents.need(self.segment.claim, needs)
            return self._hand_over("its worker has not what it takes for its MCP servers")
        finished = begin(self.segment, self.toolbox, self.guidance, self.summing)
        return None if finished is None else self._end(finished)

    def _leave(self) -> HandedOver | None:
        """Begin nothing more on a worker that is going away."""
        return self._hand_over("its worker is going away") if self.draining() else None

    def _give_way(self) -> HandedOver | None:
        """Give the process up between two calls of the model, if anybody else has a use for it."""
        if (out := self._leave()) is not None or time.monotonic() <= self._yield_at:
            return out
        return self._hand_over("others wait for the process", last=True)

    def _call_model(self, action: CallModel) -> Outcome | None:
        if self.spec.patient and (refusal := refuse_turn(self.segment)) is not None:
            return self._end(refusal)
        if (handed_over := self._give_way()) is not None:
            return handed_over
        between_turns = self.life.messages[-1]["role"] == "user" and self.life.last_words is None
        # What does not fit into one turn stays in the mailbox for the next ones.
        room = self.life.mail_taken < PAGE_BYTES and not self.spec.definition.command  # which reads it as it comes
        if self.journal.unread and between_turns and room and not self.spec.patient and self.messaging.take_mail():
            return None
        if (parked := self._wait_until(action.not_before)) is not None:
            return parked
        if (waits := wait_for_slot(self.segment)) is not None:
            return waits if isinstance(waits, Waits) else None
        match self.model_call.reserve():
            case Finished() as finished:
                return self._end(finished)
            case Busy(tokens=tokens, cost=cost):
                return self._park(Condition(purse=(tokens, cost)))
            case Reserved() as reserved if self.spec.patient:
                awaited = leave_to_batch(self.segment, self.model_call, action, reserved)
                return None if awaited is None else self._park(awaited)
            case Reserved() as reserved:
                self.summing.consider()
                self.model_call.request(action, reserved)
            case Told():
                pass
        return None

    def _wait_until(self, moment: float) -> Waits | None:
        wait = moment - self.segment.claim.now()
        if wait > WAIT_IN_PLACE_SECONDS:
            return self._park(Condition(until=moment))
        if wait > 0:
            with self.stop.waiting():
                self.stop.event.wait(wait)
            self.stop.check()
        return None

    def _compact(self, action: Compact) -> Outcome | None:
        if (out := self._give_way() or self._wait_until(action.not_before)) is not None:
            return out
        if (waits := wait_for_slot(self.segment)) is not None:
            return waits if isinstance(waits, Waits) else None
        match self.compacting.run(action):
            case Finished() as finished:
                return self._end(finished)
            case Busy(tokens=tokens, cost=cost):
                return self._park(Condition(purse=(tokens, cost)))
        return None

    def _run_approved(self, calls: Sequence[Block], run: Callable[[Sequence[Block]], None]) -> Outcome | None:
        """Run the calls that may be run, settle those that may not; park when all that is left must be asked about."""
        decision = self.approvals.decide(calls)
        if decision.settled:
            results = sum(isinstance(entry, ToolFinished) for entry in decision.settled)
            self.journal.append(decision.settled, counters=Counters(tools=results))
            for call, why in decision.denied:
                self.store.events.emit(
                    self.spec.job_id, "denied", self.spec.agent_id, call=self.toolbox.activity(call), why=why
                )
        if decision.run:
            try:
                run(decision.run)
            except AwaitsAnswer as awaited:
                asking = awaited.ask.model_dump(exclude={"to"})
                return self._park(Condition(question=awaited.question_id), tool_use_id=awaited.tool_use_id, ask=asking)
        elif not decision.settled and decision.question is not None:
            asked_id, ask, call_id = decision.question
            question = ask.model_dump(exclude={"to"} if ask.to is None else None)
            event = ask.title if ask.kind == "event" else ""
            return self._park(Condition(question=asked_id, event=event), tool_use_id=call_id, ask=question)
        return None

    def _collect(self, children: dict[str, str]) -> Outcome | None:
        alive = self.children.collect(children)
        if not alive:
            return None
        # Whose failure ends the others must be seen as soon as it is there.
        watched = self.children.abort_siblings(children, alive)
        return self._park(Condition(children=alive, mode="any" if watched else "all"))

    # -- ways out ------------------------------------------------------------------------------------------

    def _park(self, condition: Condition, **asking: Any) -> Waits | None:
        parked = park(self.segment, condition, **asking)
        return parked if isinstance(parked, Waits) else None

    def _conclude(self, action: RunCheck | Grade | End) -> Outcome | None:
        """Come to an end, or to what has to be said about the work before it."""
        match action:
            case End(finished=finished):
                return self._end(finished)
            case RunCheck():
                if (out := self._leave()) is not None:
                    return out
                self.judging.run_check()
            case Grade(finished=finished):
                self.judging.start_grader(finished)
        return None

    def _rest(self, then: RunCheck | Grade | End) -> Outcome | None:
        # Woken by a message: no need to try and park first.
        if self.journal.unread and self.messaging.take_mail():
            return None
        match park(self.segment, Condition(rest=True)):
            case Waits() as waits:
                return waits
            case GoOn(why="mail"):
                self.messaging.take_mail()
                return None
            case GoOn():
                return self._conclude(then)

    def _hand_over(self, why: str, *, last: bool = False) -> HandedOver:
        self.segment.publish(self.store.agents.hand_over(self.segment.claim, why, last=last))
        return HandedOver(why)

    def _end(self, finished: Finished) -> Outcome | None:
        finished = self.journal.stamp(finished.model_copy(update={"commit": self.isolation.leave()}))
        # Whoever is asked something while it gives its answer takes the question in and goes on.
        unless_mail = finished.state == "completed" and self.life.last_words is None and not self.life.leaving
        unless_mail = unless_mail and not self.spec.patient
        answer = self.store.agents.finish(
            self.segment.claim,
            self.journal.next_number,
            finished,
            unless_mail=unless_mail,
            regret=refuse_mail(self.spec, finished),
        )
        if isinstance(answer, GoOn):
            self.messaging.take_mail()
            return None
        self.segment.publish(answer)
        self.life.apply(finished)
        self.summing.sum_up(finished)
        self.toolbox.clear()
        summary = (
            finished.reason
            or f"{self.life.turns} turns, {self.life.tool_calls} tool calls, {self.life.usage.total_tokens} tokens"
        )
        return Ended(finished.state, summary)

    def _interrupted(self) -> Outcome:
        """Told to stop: cancelled, or (a signal that came too late for somebody else) handed over unharmed."""
        try:
            return self._hand_over("interrupted")
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as error:
            return GaveUp(str(error))

    def _cancelled(self) -> Outcome:
        self.toolbox.clear()
        self.files.show_result()
        return GaveUp("it was cancelled", cancelled=True)
