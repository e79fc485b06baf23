"""One segment of an agent's life: load the journal, ask what is next, do it, until the agent ends or gives its process back.

`swarm.agent.life.next_action` decides; everything here acts. Each step is journaled before the next is asked for, so a process
that dies between two lines of this file costs at most the step it was in.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from swarm.agent.decision import (
    WAIT_TOOL,
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
    WaitAgents,
    next_action,
)
from swarm.agent.entries import (
    Condition,
    Finished,
    Prompt,
    Spawned,
    Started,
    ToolFinished,
    ToolStarted,
)
from swarm.agent.life import Life
from swarm.agent.prompts import child_result, system_prompt, task_message
from swarm.agent.spec import AgentSpec
from swarm.errors import AgentCancelled, Interrupted, JournalError, NotOwner
from swarm.log import EventLog
from swarm.mailbox import PAGE_BYTES
from swarm.models import Block, Model
from swarm.runtime.approvals import Gate
from swarm.runtime.journal import Journal
from swarm.runtime.messaging import Post
from swarm.runtime.model_call import ModelCall
from swarm.runtime.spawning import DEPTH_TEXT, Plan, plan_children
from swarm.runtime.stop import Stop
from swarm.runtime.team import NO_TEAM_TEXT
from swarm.runtime.toolbox import Toolbox
from swarm.settings import Settings
from swarm.store.agents import Store
from swarm.store.values import Claim, Counters, Effect, GoOn, NotSpawned

log = EventLog("swarm.segment")

WAIT_IN_PLACE_SECONDS = 5.0
"""A shorter wait for the model is slept through; a longer one gives the process back."""
CONCURRENT_READS = 8
WARN_AT_SHARE = 0.8
MAX_REPLY_TOKENS = 32_000
EXPECTED_REPLY_TOKENS = 4_000
"""What is set aside for a reply before its size is known."""


@dataclass(frozen=True)
class Ended:
    """The agent is over."""

    state: str
    summary: str


@dataclass(frozen=True)
class Parked:
    """The agent waits, holding no process."""

    condition: Condition


@dataclass(frozen=True)
class HandedOver:
    """The agent is back on the queue, runnable."""

    why: str


@dataclass(frozen=True)
class GaveUp:
    """The agent is no longer ours: it was cancelled, or another worker claimed it."""

    why: str
    cancelled: bool = False


Outcome = Ended | Parked | HandedOver | GaveUp


class Segment:
    """Runs one claimed segment. Not reusable."""

    def __init__(
        self,
        claim: Claim,
        *,
        store: Store,
        model: Model,
        settings: Settings,
        tell: Callable[[Effect | None], None],
        draining: Callable[[], bool],
        stop: Stop,
    ) -> None:
        self.claim, self.spec = claim, claim.spec
        self.store, self.tell, self.draining, self.stop = store, tell, draining, stop
        self.journal = Journal(claim, store)
        self.post = Post(self.journal)
        self.toolbox = Toolbox(self.journal, settings, tell, stop.check)
        self.gate = Gate(self.journal, has_effects=self.toolbox.has_effects, sandboxed=self.toolbox.is_sandboxed)
        self.toolbox.may_read = self.gate.may_read
        self.model_call = ModelCall(self.journal, model, settings, stop, self.toolbox.activity)
        self._yield_at = time.monotonic() + settings.segment_seconds

    def run(self) -> Outcome:
        """Run until the agent ends or gives its process back."""
        try:
            self.journal.load()
            while True:
                self.stop.check()
                outcome = self._step()
                if outcome is not None:
                    return outcome
        except AgentCancelled:
            return self._cancelled()
        except NotOwner as error:
            return GaveUp(str(error))
        except JournalError as error:
            # A newer worker can probably read it. Back to the queue, but unpublished: the outbox offers it again later.
            log.error("agent.unreadable", agent_id=self.claim.agent_id, error=error)
            self.store.hand_over(self.claim, "unreadable")
            return HandedOver(str(error))
        except Interrupted:
            return self._interrupted()

    @property
    def life(self) -> Life:
        """What the journal tells so far."""
        return self.journal.life

    def _step(self) -> Outcome | None:
        match next_action(self.life, self.toolbox.has_effects):
            case Begin():
                return self._begin()
            case Say(prompt=prompt):
                self.journal.append([prompt])
            case CallModel() as action:
                return self._call_model(action)
            case RunTools(calls=calls):
                return self._admit(calls, self._run_tools)
            case Settle(results=results):
                self.journal.append(results, counters=Counters(tools=len(results)))
            case SpawnAgents(calls=calls):
                return self._admit(calls, self._spawn)
            case CollectChildren(children=children):
                return self._collect(children)
            case SendMessages(calls=calls):
                return self._admit(calls, lambda admitted: self.post.send(admitted, self.tell))
            case WaitAgents(call=call, since=since):
                return self._wait(call, since)
            case AwaitMail():
                return None if self.post.take_mail() else self._park(Condition(mail="any"))
            case Rest(finished=finished):
                return self._rest(finished)
            case End(finished=finished):
                return self._end(finished)
            case Done():
                return GaveUp("it had ended already")
        return None

    # -- the actions ---------------------------------------------------------------------------------------

    def _begin(self) -> Outcome | None:
        if not Path(self.spec.workspace).is_dir():
            where = f"the workspace {self.spec.workspace} does not exist on the worker's host {socket.gethostname()}"
            reason = f"{where}; share the folder with the workers under the same path, or run a worker where it is"
            return self._end(Finished(state="failed", reason=reason))
        task = Prompt(text=task_message(self.spec, now=self.spec.created_at or time.time()))
        if self.spec.fork is not None:
            self.journal.append([Started(spec=self.spec), task], activity="starting")
            # The parent's conversation comes before the task.
            self.journal.load()
            return None
        tools = self.toolbox.choose()
        system = system_prompt(self.spec, {tool.name for tool in tools})
        self.journal.append(
            [Started(spec=self.spec, system=system, tools=[tool.schema() for tool in tools]), task], activity="starting"
        )
        return None

    def _call_model(self, action: CallModel) -> Outcome | None:
        if self.draining():
            return self._hand_over("its worker is going away")
        if time.monotonic() > self._yield_at:
            return self._hand_over("others wait for the process", last=True)
        between_turns = self.life.messages[-1]["role"] == "user" and self.life.last_words is None
        # What does not fit into one turn stays in the mailbox for the next ones.
        room = self.life.mail_taken < PAGE_BYTES
        if self.journal.unread and between_turns and room and self.post.take_mail():
            return None
        wait = action.not_before - time.time()
        if wait > WAIT_IN_PLACE_SECONDS:
            return self._park(Condition(until=action.not_before))
        if wait > 0:
            with self.stop.waiting():
                self.stop.event.wait(wait)
            self.stop.check()
        match self.model_call.set_aside():
            case Finished() as finished:
                return self._end(finished)
            case True:
                self.model_call.request(action)
        return None

    def _admit(self, calls: Sequence[Block], run: Callable[[Sequence[Block]], None]) -> Outcome | None:
        """Run the calls that may be run, settle those that may not; park when all that is left must be asked about."""
        admission = self.gate.admit(calls)
        if admission.settled:
            results = sum(isinstance(entry, ToolFinished) for entry in admission.settled)
            self.journal.append(admission.settled, counters=Counters(tools=results))
            for call, why in admission.denied:
                self.store.note(
                    self.spec.job_id, "denied", self.spec.agent_id, call=self.toolbox.activity(call), why=why
                )
        if admission.run:
            run(admission.run)
        elif not admission.settled and admission.question is not None:
            asked_id, ask, call_id = admission.question
            condition = Condition(question=asked_id)
            answer = self.journal.park(
                condition, tool_use_id=call_id, ask=ask.model_dump(exclude={"to"} if ask.to is None else None)
            )
            if not isinstance(answer, GoOn):
                self.tell(answer)
                return Parked(condition)
        return None

    def _run_tools(self, calls: Sequence[Block]) -> None:
        if len(calls) == 1 and self.toolbox.has_effects(calls[0]["name"]):
            self.journal.append([ToolStarted(tool_use_id=calls[0]["id"])], activity=self.toolbox.activity(calls[0]))
        if len(calls) == 1:
            results = [self.toolbox.run(calls[0])]
        else:
            with ThreadPoolExecutor(min(CONCURRENT_READS, len(calls))) as pool:
                results = list(pool.map(self.toolbox.run, calls))
        self.journal.append(results, counters=Counters(tools=len(results)))

    def _spawn(self, calls: Sequence[Block]) -> None:
        plan = plan_children(
            calls, self.life, self.toolbox.catalogue, lambda who: self.post.find_child(who, teammates=False)
        )
        while plan.children:
            entry = self.journal.stamp(
                Spawned(
                    children={call_id: child.agent_id for call_id, child in plan.children.items()},
                    background=plan.background(),
                )
            )
            answer = self.store.spawn(self.claim, self.journal.next_number, entry, list(plan.children.values()))
            if isinstance(answer, Effect):
                self.life.apply(entry)
                self.tell(answer)
                break
            _refuse(plan, answer, self.spec.limits.max_agents)
        if plan.refused:
            refused = [ToolFinished(tool_use_id=i, text=text, is_error=True) for i, text in plan.refused.items()]
            self.journal.append(refused, counters=Counters(tools=len(refused)))

    def _collect(self, children: dict[str, str]) -> Outcome | None:
        ended = self.store.ended(list(children.values()))
        alive = [agent_id for agent_id in children.values() if agent_id not in ended]
        if alive:
            return self._park(Condition(children=alive))
        results = []
        for call_id, agent_id in children.items():
            text, failed = child_result(agent_id, ended[agent_id])
            results.append(ToolFinished(tool_use_id=call_id, text=self.toolbox.fit(call_id, text), is_error=failed))
        self.journal.append(results, counters=Counters(tools=len(results)))
        return None

    def _wait(self, call: Block, since: Condition | None) -> Outcome | None:
        effect = (self.post if call["name"] == WAIT_TOOL else self.toolbox.board).wait(call, since)
        if effect is None:
            return None
        self.tell(effect)
        return Parked(Condition(mail="talk"))

    # -- ways out ------------------------------------------------------------------------------------------

    def _park(self, condition: Condition) -> Outcome | None:
        answer = self.journal.park(condition)
        if isinstance(answer, GoOn):
            self.journal.unread += answer.why == "mail"
            return None
        self.tell(answer)
        return Parked(condition)

    def _rest(self, finished: Finished) -> Outcome | None:
        # Woken by a message: no need to try and park first.
        if self.journal.unread and self.post.take_mail():
            return None
        condition = Condition(rest=True)
        match self.journal.park(condition):
            case GoOn(why="mail"):
                self.post.take_mail()
                return None
            case GoOn():
                return self._end(finished)
            case effect:
                self.tell(effect)
                return Parked(condition)

    def _hand_over(self, why: str, *, last: bool = False) -> HandedOver:
        self.tell(self.store.hand_over(self.claim, why, last=last))
        return HandedOver(why)

    def _end(self, finished: Finished) -> Outcome | None:
        finished = self.journal.stamp(finished)
        # Whoever is asked something while it gives its answer takes the question in and goes on.
        unless_mail = finished.state == "completed" and self.life.last_words is None and not self.life.leaving
        answer = self.store.finish(self.claim, self.journal.next_number, finished, unless_mail=unless_mail)
        if isinstance(answer, GoOn):
            self.post.take_mail()
            return None
        self.tell(answer)
        self.life.apply(finished)
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
        return GaveUp("it was cancelled", cancelled=True)


def _refuse(plan: Plan, answer: NotSpawned, max_agents: int) -> None:
    """Move the calls that the store could not serve from the plan's children to its refusals."""
    ids = {call_id: child.agent_id for call_id, child in plan.children.items()}
    fresh = [call_id for call_id, child in plan.children.items() if isinstance(child, AgentSpec)]
    match answer.why:
        case "name":
            text = f"The name {answer.detail!r} is taken in this job, and names are not reused. Choose another one."
            chosen = [call_id for call_id, agent_id in ids.items() if agent_id == answer.child]
        case "resume":
            state = answer.detail or "not yours"
            text = f"{answer.child} is {state}: it cannot go on. Start a new agent."
            chosen = [call_id for call_id, agent_id in ids.items() if agent_id == answer.child]
        case "depth":
            text, chosen = DEPTH_TEXT, fresh
        case "team":
            text = NO_TEAM_TEXT
            chosen = [i for i, child in plan.children.items() if isinstance(child, AgentSpec) and child.teammate]
        case "limit":
            # The first ones start, the others are told why not.
            text = f"The job's limit of {max_agents} agents is reached: this one was not started. Do it yourself."
            chosen = fresh[answer.room :]
    for call_id in chosen:
        del plan.children[call_id]
        plan.refused[call_id] = text
