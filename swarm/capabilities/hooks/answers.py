"""Read hooks' answers (exit codes, JSON) and combine them. Pure.

A hook that fails (an exit code other than 0 and 2, a timeout, invalid JSON) has no effect and the work continues, as people's hooks
expect. Hooks of the operator, or with `onFailure: block`, are the exception: one that could refuse and fails has refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from swarm.agent.entries import Hooked, HookOutcome, HookRun
from swarm.capabilities.hooks.events import HookEvent
from swarm.capabilities.hooks.responses import render_output
from swarm.definitions.hooks import Hook
from swarm.mailbox import render_hook

MAX_TEXT = 10_000
"""Most characters of each text from a hook."""
_TOLD_AS_TEXT = ("SessionStart", "UserPromptSubmit", "PreCompact", "SubagentStart")
"""Events whose hooks' plain output goes to the agent."""
BEFORE_CALLS = ("PreToolUse", "PermissionRequest", "TaskCreated", "TaskCompleted")
_ENDS = ("Stop", "SubagentStop", "TeammateIdle")
_RETRY = "A hook says that the denied call may be made again."
AFTER_CALLS = ("PostToolUse", "PostToolUseFailure")
_ENDED_BY_BLOCK = {"UserPromptSubmit": "a hook refused the prompt", "PostToolBatch": "a hook ended it after its calls"}
"""Events whose refusal ends the run, with the reason's first words."""
_CANNOT_REFUSE = (
    *("SessionStart", "SessionEnd", "SubagentStart", "Notification", "PermissionDenied", "PostCompact", "StopFailure"),
)
_FAIL_OPEN = (*_CANNOT_REFUSE, *AFTER_CALLS, "PermissionRequest")
"""Events at which the work goes on, or the person is asked, without an answer from a required hook."""
_RANK = {"": 0, "allow": 1, "ask": 2, "block": 3, "deny": 4}
_DECISIONS: dict[str, Literal["allow", "ask", "deny"]] = {
    **{"approve": "allow", "allow": "allow", "block": "deny", "deny": "deny"},
    **{"ask": "ask", "defer": "ask"},
}


@dataclass(frozen=True)
class HookAnswer:
    """One hook's answer to one event."""

    hook: Hook
    outcome: HookOutcome = "ok"
    why: str = ""
    decision: Literal["", "allow", "ask", "deny", "block"] = ""
    reason: str = ""
    input: dict[str, Any] | None = None
    output: str | None = None
    context: str = ""
    profile: str = ""
    stop: str = ""
    message: str = ""
    seconds: float = 0.0


def read_exit(event: HookEvent, hook: Hook, code: int, out: str, err: str, *, timed_out: bool) -> HookAnswer:
    """Read the answer of a command. A JSON object counts with every exit code but 2; a required hook's only with 0."""
    if timed_out:
        return fail(event, hook, f"it took longer than {hook.seconds:g} s", outcome="timed_out")
    if code == 2:
        return _refuse(event, hook, err.strip() or out.strip() or "no reason was given")
    if code != 0 and (hook.fails_closed or not _holds_object(out)):
        last = (err.strip() or out.strip()).splitlines()[-1:]
        return fail(event, hook, f"exit code {code}{f': {last[0][:200]}' if last else ''}")
    return read_text(event, hook, out)


def _holds_object(out: str) -> bool:
    try:
        return isinstance(json.loads(out), dict)
    except (ValueError, RecursionError):
        return False


def read_text(event: HookEvent, hook: Hook, out: str) -> HookAnswer:
    """Read the output of a command that succeeded, or an address's response."""
    out = out.strip()
    if not out.startswith("{"):
        return HookAnswer(hook, context=out[:MAX_TEXT] if event.name in _TOLD_AS_TEXT else "")
    try:
        answer = json.loads(out)
        if not isinstance(answer, dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        return fail(event, hook, f"its answer is not JSON: {error}")
    try:
        return _read_answer(event, hook, answer)
    except ValueError as error:
        return fail(event, hook, f"its answer cannot be used: {error}")


def read_ruling(event: HookEvent, hook: Hook, *, ok: bool, reason: str) -> HookAnswer:
    """Read a model's answer: a refusal, which ends the run where no one else would read its reason."""
    if ok:
        return HookAnswer(hook)
    reason = reason or "no reason was given"
    said = _refuse(event, hook, reason)
    return replace(said, stop=reason[:MAX_TEXT]) if event.name == "PostToolUse" and not hook.goes_on else said


def fail(event: HookEvent, hook: Hook, why: str, *, outcome: HookOutcome = "failed") -> HookAnswer:
    """The answer for a hook that failed."""
    said = HookAnswer(hook, outcome=outcome, why=why)
    if hook.fails_closed and event.may_refuse and event.name not in _FAIL_OPEN:
        return _decide(
            event, said, f"a required hook{' of the operator' if hook.origin == 'managed' else ''} failed: {why}"
        )
    return said


def interrupt(event: HookEvent, hook: Hook) -> HookAnswer:
    """The answer for a hook whose worker may have died during it: it is not run again for this event."""
    why = "its worker died during it; it may or may not have run"
    said = fail(event, hook, why, outcome="interrupted")
    if said.decision or event.name not in BEFORE_CALLS or event.name in _FAIL_OPEN or hook.listens:
        return said
    # The call is neither repeated nor lost: another call is another event.
    reason = f"the hook that decides about this call was interrupted: {why}. Make the call again if it is still needed"
    return _decide(event, said, reason)


def refuse_unrun(event: HookEvent, hook: Hook, why: str) -> HookAnswer:
    """The answer for a hook that may not run here."""
    return fail(event, hook, why, outcome="not_run")


def _refuse(event: HookEvent, hook: Hook, reason: str) -> HookAnswer:
    said = HookAnswer(hook, outcome="refused")
    if event.name in _CANNOT_REFUSE:
        return replace(said, outcome="failed", why=reason[:300], message=reason[:MAX_TEXT])
    return _decide(event, said, reason)


def _decide(event: HookEvent, said: HookAnswer, reason: str) -> HookAnswer:
    decision: Literal["deny", "block"] = "deny" if event.name in BEFORE_CALLS else "block"
    return replace(said, decision=decision, reason=reason[:MAX_TEXT])


def _read_answer(event: HookEvent, hook: Hook, answer: dict[str, Any]) -> HookAnswer:
    own = answer.get("hookSpecificOutput") or {}
    if not isinstance(own, dict):
        raise ValueError("`hookSpecificOutput` is no object")
    if (named := own.get("hookEventName", event.name)) != event.name:
        raise ValueError(f"`hookEventName` is {named!r:.60}, but the event is {event.name}")
    said = HookAnswer(hook, message=_text(answer, "systemMessage"), context=_text(own, "additionalContext"))
    if answer.get("continue") is False:
        said = replace(said, stop=_text(answer, "stopReason") or "no reason was given")
    changed = own.get("updatedInput")
    if changed is not None and not isinstance(changed, dict):
        raise ValueError("`updatedInput` is no object")
    if event.name == "PreToolUse":
        said = replace(said, input=changed)
    if event.name == "PermissionRequest":
        return _read_permission(event, said, own.get("decision"))
    if event.name == "PermissionDenied" and own.get("retry") is True:
        said = replace(said, context=f"{said.context}\n{_RETRY}".strip())
    if event.name == "Elicitation" and own.get("action") is not None:
        return _read_elicited(said, own)
    if event.name in AFTER_CALLS:
        output = own.get("updatedToolOutput", own.get("updatedMCPToolOutput"))
        said = replace(said, output=render_output(output))
    return _read_decision(event, said, answer, own)


def _read_elicited(said: HookAnswer, own: dict[str, Any]) -> HookAnswer:
    """Read an answer to an MCP server, given in the person's place, in the words that a person would use."""
    match own:
        case {"action": "decline" | "cancel" as action}:
            return replace(said, output=action)
        case {"action": "accept"} if said.hook.origin == "project":
            return said
        case {"action": "accept"} if isinstance(own.get("content", {}), dict):
            return replace(said, output=json.dumps(own.get("content", {}), ensure_ascii=False))
    raise ValueError("`action` is not accept, decline or cancel, or `content` is no object")


def _read_permission(event: HookEvent, said: HookAnswer, decision: Any) -> HookAnswer:
    """Read the answer to a question for permission, given in the person's place."""
    match decision:
        case None:
            return said
        case {"behavior": "allow"} if said.hook.origin == "project":
            return said
        case {"behavior": "allow"}:
            changed = decision.get("updatedInput")
            if changed is not None and not isinstance(changed, dict):
                raise ValueError("`updatedInput` is no object")
            return replace(said, decision="allow", input=changed)
        case {"behavior": "deny"}:
            reason = _text(decision, "message") or "no reason was given"
            stop = reason if decision.get("interrupt") is True else said.stop
            return replace(_decide(event, said, reason), outcome="refused", stop=stop)
    raise ValueError('`decision` is not like {"behavior": "allow"}')


def _read_decision(event: HookEvent, said: HookAnswer, answer: dict[str, Any], own: dict[str, Any]) -> HookAnswer:
    word, reason = _text(answer, "decision"), _text(answer, "reason")
    if event.name == "PreToolUse":
        word = _text(own, "permissionDecision") or word
        reason = _text(own, "permissionDecisionReason") or reason
    if word and word not in _DECISIONS:
        raise ValueError(f"{word!r:.60} is not a decision")
    decision = _DECISIONS.get(word)
    if decision == "deny":
        return _refuse_by_word(event, said, reason or "no reason was given")
    if decision is not None and event.name == "PreToolUse":
        return replace(said, decision=decision, reason=reason)
    return said


def _refuse_by_word(event: HookEvent, said: HookAnswer, reason: str) -> HookAnswer:
    if event.name in _CANNOT_REFUSE:
        return replace(said, message=said.message or reason)
    return replace(_decide(event, said, reason), outcome="refused")


def _text(table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is no text")
    return value[:MAX_TEXT]


# -- all hooks of an event ---------------------------------------------------------------------------------


def put_together(event: HookEvent, said: Sequence[HookAnswer]) -> Hooked:
    """Combine the answers to an event: deny before ask before allow; of changes the last, the operator's after others."""
    order = {"project": 0, "user": 1, "managed": 2}
    hook_state = sorted(map(_bound, said), key=lambda one: order[one.hook.origin])
    winner = max(hook_state, key=lambda one: _RANK[one.decision]).decision
    decision = "" if winner == "block" and not _takes_block(event) else winner
    reasons = _given(hook_state, "reason", winner) if winner else []
    reason = "\n".join(dict.fromkeys(text for _, text in reasons))
    parts = _given(hook_state, "context")
    if decision == "block" and event.name in (*_ENDS, *AFTER_CALLS):
        parts = [*reasons, *parts]
    stop = _find_stop(event, hook_state, decision, reason)
    if stop and event.name in _ENDS:
        stop, decision, parts = "", "", []
    told = [text for _, text in _given(hook_state, "message")]
    if event.bound and (winner == "block" or parts):
        told.append(event.bound)
    return Hooked(
        event=event.id,
        name=event.name,
        tool_use_id=(event.call or {}).get("id", ""),
        runs=list(map(_tell_run, said)),
        decision=decision,
        reason=reason,
        input=None if decision == "deny" else _last_given(hook_state, "input"),
        output=_last_given(hook_state, "output"),
        text=_render(event, parts),
        stop=stop,
        profile="\n".join(text for _, text in _given(hook_state, "profile")),
        said="\n".join(told),
    )


def _find_stop(event: HookEvent, hook_state: Sequence[HookAnswer], decision: str, reason: str) -> str:
    if stop := next((one.stop for one in hook_state if one.stop), ""):
        return f"a hook ended it: {stop}"
    ended = _ENDED_BY_BLOCK.get(event.name) if decision == "block" else None
    return f"{ended}: {reason}" if ended else ""


def _takes_block(event: HookEvent) -> bool:
    return event.may_refuse or event.name in AFTER_CALLS


def _given(hook_state: Sequence[HookAnswer], name: str, decision: str = "") -> list[tuple[str, str]]:
    """The texts of one name, each with its hook's source; of all answers, or of those with this decision."""
    wanted = (one for one in hook_state if not decision or one.decision == decision)
    return [(one.hook.source, text) for one in wanted if (text := getattr(one, name))]


def _last_given(hook_state: Sequence[HookAnswer], name: str) -> Any:
    return next((given for one in reversed(hook_state) if (given := getattr(one, name)) is not None), None)


def _bound(said: HookAnswer) -> HookAnswer:
    """Reduce an answer to its permitted effects.

    A listening hook has none. A repository's hook allows nothing, because an agent could change its script.
    """
    if said.hook.listens:
        return HookAnswer(said.hook, said.outcome, said.why, seconds=said.seconds)
    if said.hook.origin == "project" and said.decision == "allow":
        return replace(said, decision="", reason="")
    return said


def _render(event: HookEvent, parts: Sequence[tuple[str, str]]) -> str:
    if event.name == "PreCompact":
        return "\n\n".join(text for _, text in parts)
    if event.name in ("SessionEnd", *_ENDS) and not event.may_refuse:
        return ""
    return "\n\n".join(render_hook(event.name, source, text) for source, text in parts)


def _tell_run(said: HookAnswer) -> HookRun:
    hook = said.hook
    return HookRun(
        id=hook.id,
        label=hook.label[:200],
        origin=hook.origin,
        source=hook.source,
        outcome=said.outcome,
        why=said.why[:300],
        duration_seconds=said.seconds,
    )
