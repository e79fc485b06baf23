"""The decision: what an agent does next, from what its journal tells. Pure: the same life gives the same answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from swarm.agent import notes
from swarm.agent.compacting import Bounds, Compact, after_overflow, wants_compaction
from swarm.agent.coordination.rules import note_end
from swarm.agent.coordination.rules import refuse_end as refuse_unverified
from swarm.agent.cutting import TOO_LARGE
from swarm.agent.entries import Assistant, Finished, Grading, ModelFailed, Prompt, ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.life import OVERFLOWED, Life
from swarm.agent.notes import Limit
from swarm.agent.outcomes.deciding import next_step, refuse_end
from swarm.agent.results import MAX_CORRECTIONS, read_result
from swarm.agent.spec import AgentSpec
from swarm.definitions.tools import Kind
from swarm.models import Block

State = Literal["completed", "failed", "timed_out"]
MAX_AWAY_SECONDS = 6 * 3600.0
"""How long a model that is away is waited for in a job without a time limit of its own; one with such a limit waits until then."""
MAX_CONTINUATIONS = 3
"""How often a reply that hit its length limit is asked to go on."""


_NOT_WHOLE = {"max_tokens": notes.CUT_OFF, "refusal": notes.NOT_RUN, OVERFLOWED: notes.NOT_RUN}
"""After these a call may lack its end: it is not run."""
_ENDS = ("refusal", OVERFLOWED)


@dataclass(frozen=True)
class Begin:
    """The journal is empty: write `started` and the task."""


@dataclass(frozen=True)
class CallModel:
    """Ask the model for the next reply."""

    tools_allowed: bool = True
    not_before: float = 0.0
    """After a failed attempt: wait until this time (Unix seconds) first."""


@dataclass(frozen=True)
class RunTools:
    """Run these calls: several that have no effects, together, or a single one that has."""

    calls: list[Block]


@dataclass(frozen=True)
class Settle:
    """Write these results: the calls will not be run."""

    results: list[ToolFinished]


@dataclass(frozen=True)
class SpawnAgents:
    """Start a child for each of these calls, all together."""

    calls: list[Block]


@dataclass(frozen=True)
class CollectChildren:
    """Take in the results of these children (tool_use id → agent id), waiting for those that still live."""

    children: dict[str, str]


@dataclass(frozen=True)
class SendMessages:
    """Send what these calls say, in this order, and write each one's result in the same step as its message."""

    calls: list[Block]


@dataclass(frozen=True)
class Wait:
    """Carry out this call, which waits; `since` is what it has already parked for."""

    call: Block
    since: Condition | None


@dataclass(frozen=True)
class AwaitMail:
    """The agent was resumed: the message that did it comes first."""


@dataclass(frozen=True)
class RunCheck:
    """Run the command that the work must pass."""


@dataclass(frozen=True)
class Grade:
    """Start a grader that judges this end."""

    finished: Finished


@dataclass(frozen=True)
class AwaitGrader:
    """Take in the verdict of this grader, waiting for it if it still works."""

    grading: Grading


@dataclass(frozen=True)
class Say:
    """Put this text into the conversation first."""

    prompt: Prompt


@dataclass(frozen=True)
class End:
    """Write the last entry."""

    finished: Finished


@dataclass(frozen=True)
class Rest:
    """Nothing is left to do: wait for those who still work for the agent, and go on with `then` if there are none."""

    then: RunCheck | Grade | End


@dataclass(frozen=True)
class Done:
    """The life is over."""


_OfModel = CallModel | Compact | Say
_OfCalls = RunTools | Settle | SpawnAgents | CollectChildren | SendMessages | Wait
_OfEnd = RunCheck | Grade | AwaitGrader | Rest | End | Done
Action = Begin | AwaitMail | _OfModel | _OfCalls | _OfEnd


def next_action(life: Life, bounds: Bounds | None = None) -> Action:
    """What the agent does next. Pure: the same journal gives the same answer, anywhere, at any time.

    `bounds` say how long its conversation may get; without them it is never cut.
    """
    action = _next_action(life, bounds)
    if not isinstance(action, CallModel) or bounds is None:
        return action
    wanted = wants_compaction(life, bounds)
    if isinstance(wanted, Compact):
        return replace(wanted, not_before=action.not_before)
    return action if wanted is None else Say(notes.last_words("context", notes.CONTEXT_LEFT))


def _next_action(life: Life, bounds: Bounds | None) -> Action:
    if life.finished is not None:
        return Done()
    if life.spec is None:
        return Begin()
    if not life.messages:
        return Say(Prompt(text=life.spec.prompt or "(The task is empty.)"))
    if life.pending:
        return _next_for_calls(life)
    if life.hooks.stopped:
        return _fail(life, life.hooks.stopped)
    if life.grading is not None:
        return AwaitGrader(life.grading)
    if life.plan:
        plan = Finished(state="completed", text=life.plan, reason=notes.NOBODY_FOR_PLAN)
        return End(close(plan, life.spec))
    if life.failure is not None:
        return _next_after_failure(life, life.failure, bounds)
    if life.messages[-1]["role"] == "assistant" or _is_complete(life):
        # Resumed, and what the new run is about is still in the mailbox.
        return AwaitMail() if life.last is None else _next_after_reply(life, bounds)
    return _next_request(life, life.spec)


def _next_request(life: Life, spec: AgentSpec) -> Action:
    if stubborn := notes.note_stubborn(life.context.denials):
        return _fail(life, stubborn)
    if life.context.bare and life.last_words is None:
        return Say(notes.last_words("context", notes.CONTEXT_LEFT))
    turns = life.turns - max(life.turns_before, life.turns_elsewhere)
    if turns >= _max_turns(spec) and not life.last_words:
        return Say(notes.last_words("turns", f"You have used all of your {turns} turns."))
    return CallModel(tools_allowed=life.last_words is None)


def _is_complete(life: Life) -> bool:
    """Whether nothing can be made of the last reply but what it is, although the conversation does not end with it."""
    last = life.last
    if last is None or life.context.fresh:
        return False
    return not last.content or life.last_words_given or last.stop_reason in _ENDS


def _max_turns(spec: AgentSpec) -> int:
    # What the root's definition says is in the job's limits already, unless the person said something else.
    own = spec.definition.max_turns
    return spec.limits.max_turns if own is None or spec.parent_id is None else min(own, spec.limits.max_turns)


def _next_for_calls(life: Life) -> Action:
    calls = list(life.pending.values())
    return _settle_unrun(life, calls) or _next_to_run(life, calls)


def _settle_unrun(life: Life, calls: list[Block]) -> Settle | None:
    """The results of calls that will not be run, if there are such calls."""
    assert life.last is not None
    if life.last.stop_reason in _NOT_WHOLE:
        return settle(calls, _NOT_WHOLE[life.last.stop_reason])
    if life.last_words:
        return settle(calls, notes.NO_TOOLS_LEFT)
    # One that asked somebody in the middle of it is not interrupted: it is carried on with, once.
    begun = [call for call in calls if call["id"] in life.tools_started and call["id"] not in life.waits]
    if interrupted := [call for call in begun if life.kind_of(call) is not Kind.IDEMPOTENT]:
        carried = life.spec is not None and life.spec.is_carried
        return settle(interrupted, notes.UNDONE if carried else notes.INTERRUPTED)
    if life.hooks.stopped:
        return settle(calls, notes.STOPPED_BY_HOOK)
    if broken_off := [call for call in calls if call["id"] in life.broken_off]:
        return settle(broken_off, notes.STOPPED)
    return None


def _next_to_run(life: Life, calls: list[Block]) -> Action:
    # Children see what this reply's other calls did, so those run first.
    if ordinary := _of_kinds(life, calls, Kind.LOOK, Kind.ASK, Kind.EFFECT, Kind.IDEMPOTENT, Kind.SHARED):
        together = list(takewhile(lambda call: life.kind_of(call) in (Kind.LOOK, Kind.ASK), ordinary))
        return RunTools(together or ordinary[:1])
    spawning = _of_kinds(life, calls, Kind.SPAWN)
    unspawned = [call for call in spawning if call["id"] not in life.spawned]
    if unspawned:
        return SpawnAgents(unspawned)
    background = [call["id"] for call in spawning if call["id"] in life.background]
    if background:
        return Settle(
            [
                ToolFinished(tool_use_id=i, text=_noted(life, i, notes.started_in_background(life.spawned[i])))
                for i in background
            ]
        )
    if about_agents := _of_kinds(life, calls, Kind.AGENTS, Kind.SEND):
        messages = list(takewhile(lambda call: life.kind_of(call) is Kind.SEND, about_agents))
        return SendMessages(messages) if messages else RunTools(about_agents[:1])
    if waiting := _of_kinds(life, calls, Kind.WAIT):
        return Wait(waiting[0], life.waits.get(waiting[0]["id"]))
    return CollectChildren({call["id"]: life.spawned[call["id"]] for call in spawning})


def _noted(life: Life, call_id: str, text: str) -> str:
    return f"{life.notes[call_id]}\n{text}" if call_id in life.notes else text


def settle(calls: list[Block], text: str) -> Settle:
    """All these calls are refused in the same words."""
    return Settle([ToolFinished(tool_use_id=call["id"], text=text, is_error=True) for call in calls])


def _of_kinds(life: Life, calls: list[Block], *kinds: Kind) -> list[Block]:
    return [call for call in calls if life.kind_of(call) in kinds]


def _next_after_failure(life: Life, failure: ModelFailed, bounds: Bounds | None) -> Action:
    assert life.spec is not None
    if failure.error_kind == TOO_LARGE and (cut := after_overflow(life, bounds)) is not None:
        return cut
    if failure.permanent:
        return _fail(life, failure.error)
    if life.context.overflows and not life.context.fresh and (cut := after_overflow(life, bounds)) is not None:
        return replace(cut, not_before=failure.retry_at)
    bounded = life.spec.limits.timeout_seconds is None
    if bounded and failure.away_since and failure.retry_at - failure.away_since > MAX_AWAY_SECONDS:
        return _fail(
            life, f"the model was away for {MAX_AWAY_SECONDS / 3600:g} hours; the last failure: {failure.error}"
        )
    return CallModel(tools_allowed=life.last_words is None, not_before=failure.retry_at)


def _next_after_reply(life: Life, bounds: Bounds | None) -> Action:
    assert life.last is not None
    match life.last.stop_reason:
        case "pause_turn" if life.last.content and not life.last_words_given:
            return CallModel(tools_allowed=life.last_words is None)
        case "refusal":
            return _end(life, "failed", "the model refused to answer")
        case "model_context_window_exceeded":
            too_long = "the conversation no longer fits the model's context"
            return after_overflow(life, bounds) or _end(life, "failed", too_long)
        case "max_tokens" if life.continuations <= MAX_CONTINUATIONS and not life.last_words:
            return Say(Prompt(text=notes.GO_ON, purpose="continue"))
    return _end_at_limit(life, life.last) or _next_after_answer(life)


def _end_at_limit(life: Life, last: Assistant) -> Action | None:
    """The end of an agent that a limit stopped, or whose answer hit its length limit."""
    cut_off = "the answer was cut off at its length limit" if last.stop_reason == "max_tokens" else ""
    if life.last_words is not None and (limit := life.last_words.limit):
        state: State = "timed_out" if limit == "time" else "completed"
        why = notes.CONTEXT_FULL if limit == "context" else f"stopped at its limit of {limit}"
        return _end(life, state, cut_off or why, limit)
    return _end(life, "completed", cut_off) if cut_off else None


def _next_after_answer(life: Life) -> Action:
    assert life.spec is not None
    if too_early := refuse_unverified(life):
        return Say(too_early)
    finished = Finished(state="completed", text=life.speech.text(), reason=note_end(life))
    schema = life.spec.definition.result_schema
    if schema is not None:
        data, error = read_result(finished.text, schema)
        if error and life.corrections < MAX_CORRECTIONS and not life.spec.patient:
            return Say(Prompt(text=error, purpose="schema"))
        if error:
            return _end(life, "completed", "")
        finished = finished.model_copy(update={"data": data})
    if (life.background or life.wrote or life.spec.teammate) and not life.leaving:
        return Rest(conclude(life, finished))
    return conclude(life, finished)


def _fail(life: Life, reason: str) -> End:
    return End(Finished(state="failed", text=life.speech.text_at_hand(), reason=reason))


def conclude(life: Life, finished: Finished) -> RunCheck | Grade | End:
    """The end, or what has to be said about the work before it."""
    match next_step(life, finished):
        case "check":
            return RunCheck()
        case "grade":
            return Grade(finished)
        case _:
            return End(refuse_end(life, finished))


def _end(life: Life, state: State, reason: str, stopped_at: Limit | Literal[""] = "") -> RunCheck | Grade | End:
    """The end with the text that is at hand; where a schema was asked for, nothing is `completed` that does not fit it."""
    assert life.spec is not None
    finished = Finished(state=state, text=life.speech.text_at_hand(), reason=reason, stopped_at=stopped_at)
    return conclude(life, close(finished, life.spec))


def close(finished: Finished, spec: AgentSpec) -> Finished:
    """An end that did not come by itself, with its text as data if a schema was asked for, or `failed`."""
    schema = spec.definition.result_schema
    if schema is None or finished.state == "failed":
        return finished
    data, error = read_result(finished.text, schema)
    if not error:
        return finished.model_copy(update={"data": data})
    if finished.state == "completed":
        fault = f"the answer does not fit its schema: {error}"
        reason = f"{finished.reason}; {fault}" if finished.reason else fault
        return finished.model_copy(update={"state": "failed", "reason": reason})
    return finished
