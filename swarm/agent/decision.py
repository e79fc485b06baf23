"""Decide an agent's next action. Pure: the same history gives the same action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from swarm.agent import notes
from swarm.agent.compaction import Compact, ContextBounds, after_overflow, wants_compaction
from swarm.agent.coordination.rules import note_end
from swarm.agent.coordination.rules import refuse_end as refuse_unverified
from swarm.agent.cut import TOO_LARGE
from swarm.agent.entries import Assistant, Finished, Grading, ModelFailed, Prompt, Switched, SwitchReason, ToolFinished
from swarm.agent.history import OVERFLOWED, History
from swarm.agent.journaled import Condition
from swarm.agent.notes import Limit
from swarm.agent.outcomes.decision import next_step, refuse_end
from swarm.agent.results import MAX_CORRECTIONS, read_result
from swarm.agent.spec import AgentSpec
from swarm.definitions.tools import Kind
from swarm.models import Block

State = Literal["completed", "failed", "timed_out"]
MAX_AWAY_SECONDS = 6 * 3600.0
"""Longest wait for an unavailable model in a job without a time limit. A job with one waits until then."""
MAX_CONTINUATIONS = 3
"""How often a reply that hit its length limit is continued."""


_NOT_WHOLE = {"max_tokens": notes.CUT_OFF, "refusal": notes.NOT_RUN, OVERFLOWED: notes.NOT_RUN}
"""Stop reasons after which a call may be incomplete. It is not run."""
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
class WantedModel:
    """A person's choice of another model."""

    id: str
    model: str
    """Full id of the model."""
    by: str = ""


@dataclass(frozen=True)
class SwitchModel:
    """Ask another model from now on, if one can take over; else take the action `otherwise`."""

    reason: SwitchReason
    otherwise: Action
    why: str = ""
    wanted: WantedModel | None = None


@dataclass(frozen=True)
class Advance:
    """Continue the workflow's program, or wait for its calls."""


@dataclass(frozen=True)
class RunTools:
    """Run these calls: several without effects together, or a single one with effects."""

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
    """Collect these children's results (tool_use id → agent id), waiting for unfinished ones."""

    children: dict[str, str]


@dataclass(frozen=True)
class SendMessages:
    """Send these calls' messages in order, each result in the same step as its message."""

    calls: list[Block]


@dataclass(frozen=True)
class Wait:
    """Carry out this call, which waits; `since` is the condition it already parked for."""

    call: Block
    since: Condition | None


@dataclass(frozen=True)
class AwaitMail:
    """Take in the message that resumed the agent."""


@dataclass(frozen=True)
class RunCheck:
    """Run the command that the work must pass."""


@dataclass(frozen=True)
class Grade:
    """Start a grader that judges this end."""

    finished: Finished


@dataclass(frozen=True)
class AwaitGrader:
    """Take in this grader's verdict, waiting for it if needed."""

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
    """Wait for everybody who still works for the agent, then continue with `then`."""

    then: RunCheck | Grade | End


@dataclass(frozen=True)
class Done:
    """The agent has ended."""


_OfMind = CallModel | Compact | Say | Advance | SwitchModel
_OfCalls = RunTools | Settle | SpawnAgents | CollectChildren | SendMessages | Wait
_OfEnd = RunCheck | Grade | AwaitGrader | Rest | End | Done
Action = Begin | AwaitMail | _OfMind | _OfCalls | _OfEnd


def next_action(history: History, bounds: ContextBounds | None = None, chosen: WantedModel | None = None) -> Action:
    """Return the agent's next action. Pure: the same journal always gives the same action.

    `bounds` limit the conversation's length; without them it is never cut. `chosen` is a person's choice of a model.
    """
    action = _next_action(history, bounds)
    if chosen is not None and chosen.id != history.chosen_id and isinstance(action, CallModel | SwitchModel):
        return SwitchModel("chosen", action, chosen.by, chosen)
    if not isinstance(action, CallModel) or bounds is None:
        return action
    wanted = wants_compaction(history, bounds)
    if isinstance(wanted, Compact):
        return replace(wanted, not_before=action.not_before)
    return action if wanted is None else Say(notes.final_answer("context", notes.CONTEXT_LEFT))


def _next_action(history: History, bounds: ContextBounds | None) -> Action:
    if history.finished is not None:
        return Done()
    if history.spec is None:
        return Begin()
    if not history.messages:
        return Say(Prompt(text=history.spec.prompt or "(The task is empty.)"))
    if history.spec.definition.workflow is not None:
        return _next_of_program(history)
    return _next_of_model(history, history.spec, bounds)


def _next_of_program(history: History) -> Action:
    """Return the next action of an agent with a program: its calls that can run, then the program again."""
    if history.hooks.stopped:
        return _fail(history, history.hooks.stopped)
    calls = [call for call in history.pending.values() if call["id"] not in history.spawned]
    if unrun := _settle_interrupted(history, calls):
        return unrun
    # Questions are answered while others are at work.
    calls = [call for call in calls if history.kind_of(call) not in (Kind.ASK, Kind.WAIT)]
    return _next_to_run(history, calls) if calls else Advance()


def _next_of_model(history: History, spec: AgentSpec, bounds: ContextBounds | None) -> Action:
    if history.pending:
        return _next_for_calls(history) if spec.definition.harness is None else _next_of_harness(history)
    if history.hooks.stopped:
        return _fail(history, history.hooks.stopped)
    if history.grading is not None:
        return AwaitGrader(history.grading)
    if history.plan:
        plan = Finished(state="completed", text=history.plan, reason=notes.NOBODY_FOR_PLAN)
        return End(close(plan, spec))
    if history.failure is not None:
        return _next_after_failure(history, history.failure, bounds)
    if history.messages[-1]["role"] == "assistant" or _is_complete(history):
        # Resumed: the new run's message is still in the mailbox.
        return AwaitMail() if history.last is None else _next_after_reply(history, bounds)
    return _next_request(history, spec)


def _next_request(history: History, spec: AgentSpec) -> Action:
    if stubborn := notes.note_stubborn(history.context.denials):
        return _fail(history, stubborn)
    if history.context.bare and history.final_answer is None:
        return Say(notes.final_answer("context", notes.CONTEXT_LEFT))
    turns = history.turns - max(history.turns_before, history.turns_elsewhere)
    if turns >= _max_turns(spec) and not history.final_answer:
        return Say(notes.final_answer("turns", f"You have used all of your {turns} turns."))
    call = CallModel(tools_allowed=history.final_answer is None)
    return call if history.switched is None or not _returns(history, history.switched) else SwitchModel("new run", call)


def _returns(history: History, switched: Switched) -> bool:
    """Whether a new run asks the first model of the chain again, before its first request. A person's choice lasts."""
    if switched.reason in ("chosen", "new run") or history.turns != history.turns_before:
        return False
    return history.switched_in < history.context.runs


def _is_complete(history: History) -> bool:
    """Whether the last reply is final, although the conversation does not end with it."""
    last = history.last
    if last is None or history.context.fresh:
        return False
    return not last.content or history.final_answer_given or last.stop_reason in _ENDS


def _max_turns(spec: AgentSpec) -> int:
    # The job's limits already include the root definition's, unless the person set others.
    own = spec.definition.max_turns
    return spec.limits.max_turns if own is None or spec.parent_id is None else min(own, spec.limits.max_turns)


def _next_for_calls(history: History) -> Action:
    calls = list(history.pending.values())
    return _settle_unrun(history, calls) or _next_to_run(history, calls)


def _next_of_harness(history: History) -> Action:
    """Return the next action for calls that a harness has left: they are decided, and the harness itself carries them out."""
    calls = list(history.pending.values())
    if interrupted := _settle_interrupted(history, calls):
        return interrupted
    unanswered = [call for call in calls if call["id"] not in history.answers]
    return RunTools(unanswered[:1]) if unanswered else CallModel(tools_allowed=history.final_answer is None)


def _settle_unrun(history: History, calls: list[Block]) -> Settle | None:
    """Return the results of calls that will not be run, if there are such calls."""
    assert history.last is not None
    if history.last.stop_reason in _NOT_WHOLE:
        return settle(calls, _NOT_WHOLE[history.last.stop_reason])
    if history.final_answer:
        return settle(calls, notes.NO_TOOLS_LEFT)
    if interrupted := _settle_interrupted(history, calls):
        return interrupted
    if history.hooks.stopped:
        return settle(calls, notes.STOPPED_BY_HOOK)
    if broken_off := [call for call in calls if call["id"] in history.broken_off]:
        return settle(broken_off, notes.STOPPED)
    return None


def _settle_interrupted(history: History, calls: list[Block]) -> Settle | None:
    # A call that asked somebody while it ran is not interrupted: it continues, once.
    begun = [call for call in calls if call["id"] in history.tools_started and call["id"] not in history.waits]
    if interrupted := [call for call in begun if history.kind_of(call) is not Kind.IDEMPOTENT]:
        carried = history.spec is not None and history.spec.is_carried
        return settle(interrupted, notes.UNDONE if carried else notes.INTERRUPTED)
    return None


def _next_to_run(history: History, calls: list[Block]) -> Action:
    # Children see what this reply's other calls did, so those run first.
    if ordinary := _of_kinds(history, calls, Kind.LOOK, Kind.ASK, Kind.EFFECT, Kind.IDEMPOTENT, Kind.SHARED):
        together = list(takewhile(lambda call: history.kind_of(call) in (Kind.LOOK, Kind.ASK), ordinary))
        return RunTools(together or ordinary[:1])
    spawning = _of_kinds(history, calls, Kind.SPAWN)
    unspawned = [call for call in spawning if call["id"] not in history.spawned]
    if unspawned:
        return SpawnAgents(unspawned)
    background = [call["id"] for call in spawning if call["id"] in history.background]
    if background:
        return Settle(
            [
                ToolFinished(tool_use_id=i, text=_noted(history, i, notes.started_in_background(history.spawned[i])))
                for i in background
            ]
        )
    if about_agents := _of_kinds(history, calls, Kind.AGENTS, Kind.SEND):
        messages = list(takewhile(lambda call: history.kind_of(call) is Kind.SEND, about_agents))
        return SendMessages(messages) if messages else RunTools(about_agents[:1])
    if waiting := _of_kinds(history, calls, Kind.WAIT):
        return Wait(waiting[0], history.waits.get(waiting[0]["id"]))
    return CollectChildren({call["id"]: history.spawned[call["id"]] for call in spawning})


def _noted(history: History, call_id: str, text: str) -> str:
    return f"{history.notes[call_id]}\n{text}" if call_id in history.notes else text


def settle(calls: list[Block], text: str) -> Settle:
    """Refuse all these calls with the same text."""
    return Settle([ToolFinished(tool_use_id=call["id"], text=text, is_error=True) for call in calls])


def _of_kinds(history: History, calls: list[Block], *kinds: Kind) -> list[Block]:
    return [call for call in calls if history.kind_of(call) in kinds]


def _next_after_failure(history: History, failure: ModelFailed, bounds: ContextBounds | None) -> Action:
    assert history.spec is not None
    if failure.error_kind == TOO_LARGE and (cut := after_overflow(history, bounds)) is not None:
        return cut
    bounded = history.spec.limits.timeout_seconds is None
    if bounded and failure.away_since and failure.retry_at - failure.away_since > MAX_AWAY_SECONDS:
        return _fail(
            history, f"the model was away for {MAX_AWAY_SECONDS / 3600:g} hours; the last failure: {failure.error}"
        )
    if (history.spec.fallbacks or history.switched) and (reason := _why_leave(history, failure)) is not None:
        stay = _fail(history, failure.error) if failure.permanent else _ask_again(history, failure)
        return SwitchModel(reason, stay, failure.error)
    if failure.permanent:
        return _fail(history, failure.error)
    if history.context.overflows and not history.context.fresh and (cut := after_overflow(history, bounds)) is not None:
        return replace(cut, not_before=failure.retry_at)
    return _ask_again(history, failure)


def _why_leave(history: History, failure: ModelFailed) -> SwitchReason | None:
    from swarm.agent.chains import why_leave

    return why_leave(history, failure)


def _ask_again(history: History, failure: ModelFailed) -> CallModel:
    return CallModel(tools_allowed=history.final_answer is None, not_before=failure.retry_at)


def _next_after_reply(history: History, bounds: ContextBounds | None) -> Action:
    assert history.last is not None
    match history.last.stop_reason:
        case "pause_turn" if history.last.content and not history.final_answer_given:
            return CallModel(tools_allowed=history.final_answer is None)
        case "refusal":
            return _end(history, "failed", "the model refused to answer")
        case "model_context_window_exceeded":
            too_long = "the conversation no longer fits the model's context"
            return after_overflow(history, bounds) or _end(history, "failed", too_long)
        case "max_tokens" if history.continuations <= MAX_CONTINUATIONS and not history.final_answer:
            return Say(Prompt(text=notes.GO_ON, purpose="continue"))
    return _end_at_limit(history, history.last) or _next_after_answer(history)


def _end_at_limit(history: History, last: Assistant) -> Action | None:
    """Return the end of an agent that a limit stopped, or whose answer hit its length limit."""
    cut_off = "the answer was cut off at its length limit" if last.stop_reason == "max_tokens" else ""
    if history.final_answer is not None and (limit := history.final_answer.limit):
        state: State = "timed_out" if limit == "time" else "completed"
        why = notes.CONTEXT_FULL if limit == "context" else f"stopped at its limit of {limit}"
        return _end(history, state, cut_off or why, limit)
    return _end(history, "completed", cut_off) if cut_off else None


def _next_after_answer(history: History) -> Action:
    assert history.spec is not None
    if too_early := refuse_unverified(history):
        return Say(too_early)
    finished = Finished(state="completed", text=history.reply_text.text(), reason=note_end(history))
    schema = history.spec.definition.result_schema
    if schema is not None:
        data, error = read_result(finished.text, schema)
        if error and history.corrections < MAX_CORRECTIONS and not history.spec.batch:
            return Say(Prompt(text=error, purpose="schema"))
        if error:
            return _end(history, "completed", "")
        finished = finished.model_copy(update={"data": data})
    if (history.background or history.wrote or history.spec.teammate) and not history.leaving:
        return Rest(conclude(history, finished))
    return conclude(history, finished)


def _fail(history: History, reason: str) -> End:
    return End(Finished(state="failed", text=history.reply_text.text_at_hand(), reason=reason))


def conclude(history: History, finished: Finished) -> RunCheck | Grade | End:
    """Return the end, or the check or grading that must precede it."""
    match next_step(history, finished):
        case "check":
            return RunCheck()
        case "grade":
            return Grade(finished)
        case _:
            return End(refuse_end(history, finished))


def _end(history: History, state: State, reason: str, stopped_at: Limit | Literal[""] = "") -> RunCheck | Grade | End:
    """Return an end with the text at hand. With a schema, only a valid answer is `completed`."""
    assert history.spec is not None
    finished = Finished(state=state, text=history.reply_text.text_at_hand(), reason=reason, stopped_at=stopped_at)
    return conclude(history, close(finished, history.spec))


def close(finished: Finished, spec: AgentSpec) -> Finished:
    """Complete a forced end: with its text as data if a schema was asked for, or as `failed`."""
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
