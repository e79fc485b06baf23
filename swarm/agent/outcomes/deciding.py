"""What stands between an agent's last reply and its end: the check, then the grader; from the journal alone.

Every reply that would end the agent is an attempt. A verdict that refuses it comes back as text, unless it was the last attempt, or
last words; then the agent ends as `failed`, with the answer it gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from swarm.agent.entries import Finished, Verdict
from swarm.definitions.model import Outcome

if TYPE_CHECKING:
    from swarm.agent.life import Life

MOST_GRADERS = 2
"""Of one attempt: a grader that ends without a verdict has so many less one successors."""

Step = Literal["check", "grade", "end"]


def outcome_of(life: Life) -> Outcome | None:
    """What the agent's work must satisfy."""
    return None if life.spec is None else life.spec.definition.outcome


def attempt_of(life: Life) -> int:
    """The how manyeth attempt the reply at hand is."""
    return 1 + sum(not verdict.passed and verdict.text != "" for verdict in life.verdicts)


def may_go_on(life: Life, outcome: Outcome) -> bool:
    """Whether the agent has another attempt after this one."""
    return attempt_of(life) < outcome.tries and life.last_words is None


def next_step(life: Life, finished: Finished) -> Step:
    """What comes before this end; `end` when it is accepted, refused for good, or none that claims success."""
    outcome = outcome_of(life)
    if outcome is None or finished.state != "completed" or find_refusal(life) is not None:
        return "end"
    if outcome.check and "check" not in life.judged:
        return "check"
    return "grade" if outcome.rubric and "grader" not in life.judged else "end"


def find_refusal(life: Life) -> Verdict | None:
    """The verdict by which the reply at hand is refused for good."""
    return next((verdict for verdict in life.judged.values() if not verdict.passed), None)


def refuse_end(life: Life, finished: Finished) -> Finished:
    """The end as it is written: `failed` with the work that there is, if a verdict refuses it."""
    refusal, outcome = find_refusal(life), outcome_of(life)
    if finished.state != "completed" or refusal is None or outcome is None:
        return finished
    reason = refusal.summary if refusal.void else f"not accepted after {_attempts(refusal.attempt)}: {refusal.summary}"
    if finished.reason:
        reason = f"{finished.reason}; {reason}"
    return finished.model_copy(update={"state": "failed", "reason": reason, "text": finished.text or life.speech.said})


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
