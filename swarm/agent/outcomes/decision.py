"""Steps from an agent's last reply to its end: the check, then the grader. Pure.

Every reply that would end the agent is an attempt. A refusal comes back as text, except after the last attempt or a final answer:
then the agent ends as `failed`, with the answer it gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from swarm.agent.entries import Finished, Verdict
from swarm.definitions.model import Outcome

if TYPE_CHECKING:
    from swarm.agent.history import History

MOST_GRADERS = 2
"""Most graders of one attempt: one that ends without a verdict has a successor."""

Step = Literal["check", "grade", "end"]


def outcome_of(history: History) -> Outcome | None:
    """Return the conditions that the agent's work must satisfy."""
    return None if history.spec is None else history.spec.definition.outcome


def attempt_of(history: History) -> int:
    """Return the number of the current attempt, from 1."""
    return 1 + sum(not verdict.passed and verdict.text != "" for verdict in history.verdicts)


def may_go_on(history: History, outcome: Outcome) -> bool:
    """Whether the agent has another attempt after this one."""
    return attempt_of(history) < outcome.tries and history.final_answer is None


def next_step(history: History, finished: Finished) -> Step:
    """Return the next step; `end` if the work is accepted, refused for good, or failed anyway."""
    outcome = outcome_of(history)
    if outcome is None or finished.state != "completed" or find_refusal(history) is not None:
        return "end"
    if outcome.check and "check" not in history.judged:
        return "check"
    return "grade" if outcome.rubric and "grader" not in history.judged else "end"


def find_refusal(history: History) -> Verdict | None:
    """Return the verdict that refuses the current reply for good."""
    return next((verdict for verdict in history.judged.values() if not verdict.passed), None)


def refuse_end(history: History, finished: Finished) -> Finished:
    """Return the end to write: `failed`, with the work at hand, if a verdict refuses it."""
    refusal, outcome = find_refusal(history), outcome_of(history)
    if finished.state != "completed" or refusal is None or outcome is None:
        return finished
    reason = refusal.summary if refusal.void else f"not accepted after {_attempts(refusal.attempt)}: {refusal.summary}"
    if finished.reason:
        reason = f"{finished.reason}; {reason}"
    return finished.model_copy(
        update={"state": "failed", "reason": reason, "text": finished.text or history.reply_text.said}
    )


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
