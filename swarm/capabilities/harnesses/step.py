"""The step of the loop for an agent whose work another coding agent does: runs of its program, and questions about its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from swarm.agent import notes
from swarm.agent.decision import Action, CallModel, RunTools
from swarm.agent.entries import Finished, ToolFinished
from swarm.agent.journaled import Condition
from swarm.core.usage import Counters
from swarm.models import Block
from swarm.runtime.steps import Asking, Step, Turn
from swarm.runtime.wait import is_out_of_time
from swarm.tools.registry import describe_call


class HarnessStep(Step):
    """The harness of one running agent."""

    takes = (CallModel, RunTools)

    def due(self, action: Action) -> Callable[[], Turn] | None:
        """Run the program instead of a request to a model; decide about calls that it has left."""
        match action:
            case CallModel():
                return partial(self._run, action)
            case RunTools(calls=calls):
                return partial(self._decide, calls)
        return None

    def _run(self, action: CallModel) -> Turn:
        segment, history = self.segment, self.segment.history
        if action.not_before > segment.claim.now():
            return Condition(until=action.not_before)
        final = history.final_answer
        if is_out_of_time(segment) or (final is not None and final.limit == "time"):
            reason = "the time limit was reached"
            return Finished(state="timed_out", text=history.reply_text.text_at_hand(), reason=reason, stopped_at="time")
        if segment.journal.unread and not history.pending:
            self.parts.messenger.take_mail()
        from swarm.capabilities.harnesses.run import HarnessRun  # few agents are harnesses

        return HarnessRun(self.parts, tools_allowed=action.tools_allowed).carry_out()

    def _decide(self, calls: Sequence[Block]) -> Turn:
        """Ask about a call that the program was about to make when it ended; one that needs no question was simply not run."""
        segment = self.segment
        [call] = calls[:1]
        decision = self.parts.approvals.decide_outside(canonical(call))
        if decision.question is not None:
            asked_id, ask, call_id = decision.question
            if any(step.before_question(call, ask, in_call=False) for step in self.parts.steps):
                return None
            return Asking(Condition(question=asked_id), call_id, ask.model_dump(exclude={"to"}))
        if decision.settled:
            results = sum(isinstance(entry, ToolFinished) for entry in decision.settled)
            segment.journal.append(decision.settled, counters=Counters(tools=results))
            for denied, why in decision.denied:
                spec = segment.spec
                segment.store.events.emit(spec.job_id, "denied", spec.agent_id, call=describe_call(denied), why=why)
            return None
        segment.journal.append_results([ToolFinished(tool_use_id=call["id"], text=notes.STOPPED, is_error=True)])
        return None


def canonical(call: Block) -> Block:
    """Return a call under our name of its tool, by which rules and modes judge it."""
    from swarm.definitions.names import canonical_tool

    return {**call, "name": canonical_tool(call["name"])}
