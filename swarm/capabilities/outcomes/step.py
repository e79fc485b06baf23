"""Judge an agent's work before its end: run the check, start the grader, journal their verdicts.

A check that was interrupted by its worker's death is run again, so its command must tolerate repetition. A grader is an agent: it survives
its author's worker and is itself rescued. The step that makes it also journals it, so there is never a second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from swarm.agent.decision import Action, AwaitGrader, Grade, RunCheck
from swarm.agent.entries import Finished, Grading, Verdict
from swarm.agent.journaled import Condition
from swarm.agent.outcomes import messages
from swarm.agent.outcomes.decision import MOST_GRADERS, attempt_of, may_go_on, outcome_of
from swarm.agent.outcomes.grader import make_grader
from swarm.core.errors import ToolError
from swarm.core.records import AgentView
from swarm.definitions.model import Outcome
from swarm.runtime.steps import Step, Turn
from swarm.store.values import Signals
from swarm.workspace import OUTPUT_PREFIX


class OutcomeStep(Step):
    """The check and grader of one running agent."""

    takes = (RunCheck, Grade, AwaitGrader)

    def due(self, action: Action) -> Callable[[], Turn] | None:
        match action:
            case RunCheck():
                return self._run_check
            case Grade(finished=finished):
                return partial(self._start_grader, finished)
            case AwaitGrader(grading=grading):
                return partial(self._collect, grading)
        return None

    @property
    def _outcome(self) -> Outcome:
        outcome = outcome_of(self.segment.history)
        assert outcome is not None, "an agent without an outcome is not judged"
        return outcome

    # -- the check -----------------------------------------------------------------------------------------

    def _run_check(self) -> None:
        """Run the check and journal its result."""
        segment, outcome, attempt = self.segment, self._outcome, attempt_of(self.segment.history)
        segment.store.events.show_activity(segment.claim, f"check {attempt} of {outcome.tries}: {outcome.check}")
        began = time.monotonic()
        try:
            ran = self.parts.commands.run(
                outcome.check, name="check", seconds=outcome.check_seconds, by_person=outcome.by_person
            )
        except ToolError as error:
            summary = f"the check could not be run: {error}"
            self._note(Verdict(by="check", attempt=attempt, passed=False, void=True, summary=summary))
            return
        output, context = ran.output, ran.context
        is_long = len(output) > messages.SHOWN_OUTPUT
        kept = is_long and not context.outputs.keep(context.tool_use_id, output).over
        handle = f"{OUTPUT_PREFIX}{context.tool_use_id}" if kept else ""
        summary = messages.sum_up_check(outcome.check, ran.exit_code, ran.timed_out, outcome.check_seconds)
        report = messages.cut_output(output, handle)
        self._note(
            Verdict(
                by="check",
                attempt=attempt,
                passed=ran.passed,
                summary=summary,
                exit_code=ran.exit_code,
                report=report,
                duration_seconds=time.monotonic() - began,
                text="" if ran.passed else self._send_back(messages.refuse_by_check, summary, report),
            )
        )

    # -- the grader ----------------------------------------------------------------------------------------

    def _start_grader(self, finished: Finished, number: int = 1) -> None:
        """Make the grader of this end, and journal that it exists."""
        segment, attempt = self.segment, attempt_of(self.segment.history)
        entry_number = segment.journal.next_number
        check = segment.history.judged.get("check")
        grader = make_grader(
            segment.history.as_now(segment.spec),
            self._outcome,
            attempt=attempt,
            entry=entry_number,
            mode=segment.mode,
            commit=segment.history.commit,
            answer=finished.text,
            check="" if check is None else check.summary,
        )
        entry = segment.journal.stamp(Grading(grader=grader.agent_id, attempt=attempt, number=number))
        closing = self.parts.model_call.closing(0, graded=False)
        answer = segment.store.agents.spawn(segment.claim, entry_number, entry, [grader], closing=closing)
        if isinstance(answer, Signals):
            segment.history.apply(entry)
            segment.publish(answer)
            return
        summary = f"it could not be graded: no grader could be started ({answer.why})"
        self._note(Verdict(by="grader", attempt=attempt, passed=False, void=True, summary=summary))

    def _collect(self, grading: Grading) -> Turn:
        """Take the grader's verdict; without one, wait for it or start another grader."""
        segment = self.segment
        ended = segment.store.agents.ended([grading.grader])
        if grading.grader not in ended:
            return Condition(children=[grading.grader])
        record = ended[grading.grader]
        if record.state == "completed" and record.data:
            self._note_grade(grading, json.loads(record.data), record)
        elif grading.number < MOST_GRADERS and record.state == "failed" and not record.stopped_at:
            self._start_grader(
                Finished(state="completed", text=segment.history.reply_text.text_at_hand()), grading.number + 1
            )
        else:
            why = record.reason or "it gave no verdict"
            summary = f"it could not be graded: the grader {record.state.replace('_', ' ')} ({why})"
            verdict = Verdict(by="grader", attempt=grading.attempt, passed=False, void=True, summary=summary)
            self._note(verdict.model_copy(update={"grader": grading.grader}))
        return None

    def _note_grade(self, grading: Grading, data: dict[str, Any], record: AgentView) -> None:
        passed, summary, report = messages.read_grade(data)
        self._note(
            Verdict(
                by="grader",
                attempt=grading.attempt,
                passed=passed,
                summary=summary,
                report=report,
                grader=grading.grader,
                duration_seconds=max(0.0, (record.ended_at or 0.0) - record.created_at),
                text="" if passed else self._send_back(messages.refuse_by_grader, summary, report),
            )
        )

    # -- both ----------------------------------------------------------------------------------------------

    def _send_back(self, say: messages.Refuse, summary: str, report: str) -> str:
        """Return the message for the agent; empty if the agent cannot continue."""
        history, outcome = self.segment.history, self._outcome
        return say(summary, report, outcome.tries - attempt_of(history)) if may_go_on(history, outcome) else ""

    def _note(self, verdict: Verdict) -> None:
        self.segment.journal.append_verdict(verdict)
