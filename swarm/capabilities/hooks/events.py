"""Find the events that need hooks before the runtime's next action. Pure: a function of history and action.

An event's id is made of its subject within the agent: a call's id, the number of a reply. So after a rescue another worker finds the same
event, and the journal shows whether its hooks ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarm.agent.compaction import Compact
from swarm.agent.decision import (
    Action,
    CallModel,
    End,
    Grade,
    Rest,
    RunCheck,
    RunTools,
    SendMessages,
    SpawnAgents,
    Wait,
)
from swarm.agent.entries import Ruled
from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.capabilities.hooks.responses import describe_error, describe_response
from swarm.definitions.tools import row_of
from swarm.models import Block
from swarm.store.questions import Ask

MAX_SENT_BACK = 8
"""How many times in a row hooks can send an agent back from its end."""
BOUND = f"the end was accepted: hooks had sent the agent back {MAX_SENT_BACK} times in a row"
_OF_TASKS = {"createtask": "TaskCreated", "completetask": "TaskCompleted"}
"""Events before calls, by the alias of the tool."""
_FAILURES = {
    **{"rate_limit": "rate_limit", "overloaded": "overloaded", "authentication": "authentication_failed"},
    **dict.fromkeys(("bad_request", "too_large", "bad_image"), "invalid_request"),
    **dict.fromkeys(("server", "cut", "connection", "timeout"), "server_error"),
}
_NAMES_ELSEWHERE = {"task": "Task", "multiedit": "MultiEdit", "taskcreate": "TaskCreate", "taskupdate": "TaskUpdate"}
"""Names that people's matchers use for tools that have another name here."""


@dataclass(frozen=True)
class HookEvent:
    """An event that hooks are notified of."""

    name: str
    key: str
    """The event's subject: it ends with a call's id, or is the number of a reply."""
    subjects: tuple[str, ...] = ()
    """All names of the subject, which matchers are compared with."""
    call: Block | None = None
    may_refuse: bool = True
    """Whether a refusal has an effect."""
    bound: str = ""
    """Explains to people why a refusal no longer has an effect."""
    given: dict[str, Any] = field(default_factory=dict)
    """The hooks' input for this event, besides the fields of every event."""

    @property
    def id(self) -> str:
        """The event's id, unique within its agent."""
        return f"{self.name} {self.key}"


def find_events(history: History, action: Action) -> Iterator[list[HookEvent]]:
    """Yield the events before this action in stages; hooks of one stage answer before the next begins."""
    if history.spec is None or history.finished is not None:
        return
    yield from _after_calls(history, action)
    if not history.hooks.stopped or isinstance(action, End):
        yield from _before_action(history, history.spec, action)


def _after_calls(history: History, action: Action) -> Iterator[list[HookEvent]]:
    denied = [entry for entry in history.ruled.values() if entry.answer == "deny"]
    ended = [_after(history, call) for call in history.hooks.ended.values()]
    yield [*ended, *filter(None, (_after_denial(history, entry) for entry in denied))]
    if ended and isinstance(action, CallModel | Compact):
        tool_calls = [{"tool_response": event.given.get("error"), **event.given} for event in ended]
        yield [HookEvent("PostToolBatch", ended[-1].key, given={"tool_calls": tool_calls})]


def _before_action(history: History, spec: AgentSpec, action: Action) -> Iterator[list[HookEvent]]:
    match action:
        case CallModel():
            yield from _before_request(history, spec)
        case Compact():
            yield [_before_summary(history, action)]
        case RunTools(calls=calls) | SpawnAgents(calls=calls) | SendMessages(calls=calls):
            yield from _before_calls(history, calls)
        case Wait(call=call):
            yield from _before_calls(history, [call])
        case RunCheck() | Grade() | End() | Rest():
            yield from _before_end(history, spec, action)


def name_tool(tool: str) -> tuple[str, ...]:
    """The names that matchers may use for a tool."""
    aliases = row_of(tool).aliases.split()
    return (tool, *(_NAMES_ELSEWHERE[alias] for alias in aliases if alias in _NAMES_ELSEWHERE))


def _before_request(history: History, spec: AgentSpec) -> Iterator[list[HookEvent]]:
    runs = history.context.runs
    if spec.helper:
        return
    if history.context.fresh:
        yield [_after_summary(history)]
    if history.turns > history.turns_before:
        if history.context.fresh and spec.parent_id is None:
            yield [_session_start(history, spec, "compact", f"compact {history.turns}")]
    elif spec.parent_id is not None:
        if runs == 1:
            yield [HookEvent("SubagentStart", str(runs), (spec.definition.name,), may_refuse=False)]
    else:
        yield [_session_start(history, spec, "startup" if runs == 1 else "resume", str(runs))]
        if runs == 1:
            yield [HookEvent("UserPromptSubmit", str(runs), given={"prompt": spec.prompt})]


def _before_summary(history: History, action: Compact) -> HookEvent:
    trigger = "manual" if action.trigger == "manual" else "auto"
    focus = action.wanted.focus if action.wanted is not None else ""
    return HookEvent(
        "PreCompact",
        f"{history.turns}.{history.context.failures}",
        (trigger,),
        may_refuse=action.trigger != "overflow" and not action.bare,
        given={"trigger": trigger, "custom_instructions": focus},
    )


def _after_summary(history: History) -> HookEvent:
    trigger = "manual" if history.context.cut_by == "manual" else "auto"
    [block, *_] = history.messages[0]["content"]
    given = {"trigger": trigger, "compact_summary": str(block.get("content") or block.get("text") or "")}
    return HookEvent("PostCompact", str(history.context.compactions), (trigger,), may_refuse=False, given=given)


def _session_start(history: History, spec: AgentSpec, source: str, key: str) -> HookEvent:
    given = {"source": source, "model": history.model_of(spec)}
    return HookEvent("SessionStart", key, (source,), may_refuse=False, given=given)


def _before_calls(history: History, calls: Sequence[Block]) -> Iterator[list[HookEvent]]:
    held = [call for call in calls if call["name"] in history.tool_names()]
    yield [before_call(call) for call in held]
    yield [
        HookEvent(name, call["id"], call=call)
        for call in held
        for alias, name in _OF_TASKS.items()
        if alias in row_of(call["name"]).aliases.split()
    ]


def before_question(call: Block, ask: Ask, *, in_call: bool) -> Iterator[list[HookEvent]]:
    """Yield the events before a question to a person, in stages; `in_call` is one that a running call asks."""
    if ask.to is not None or ask.kind == "event":
        return
    if ask.kind == "permission" and not in_call:
        yield [HookEvent("PermissionRequest", call["id"], name_tool(call["name"]), call, given=_about(call))]
    kind = "elicitation_dialog" if in_call else "agent_needs_input" if ask.kind == "question" else "permission_prompt"
    given = {"notification_type": kind, "title": ask.title, "message": f"An answer is needed: {ask.title}"}
    yield [HookEvent("Notification", f"{kind} {call['id']}", (kind,), may_refuse=False, given=given)]


def before_answer(question_id: str, told: Mapping[str, Any]) -> HookEvent:
    """The event before a question of an MCP server."""
    return HookEvent("Elicitation", question_id, (str(told["mcp_server_name"]),), given=dict(told))


def before_call(call: Block) -> HookEvent:
    """The event before a call."""
    return HookEvent("PreToolUse", call["id"], name_tool(call["name"]), call, given=_about(call))


def _after(history: History, call: Block) -> HookEvent:
    result = history.result_of(call["id"])
    text, failed = _plain(result.get("content")), bool(result.get("is_error"))
    given = _about(call)
    if failed:
        given |= {"error": describe_error(call, text), "is_interrupt": False}
    else:
        given["tool_response"] = describe_response(call, text, history.spawned.get(call["id"], ""))
    name = "PostToolUseFailure" if failed else "PostToolUse"
    return HookEvent(name, call["id"], name_tool(call["name"]), call, given=given)


def _after_denial(history: History, entry: Ruled) -> HookEvent | None:
    """The event after a small model's denial; None while the call waits for its result."""
    calls = [block for block in (history.last.content if history.last else ()) if block.get("id") == entry.tool_use_id]
    if not calls or entry.tool_use_id in history.pending:
        return None
    given = {**_about(calls[0]), "reason": entry.reason}
    return HookEvent("PermissionDenied", entry.tool_use_id, name_tool(calls[0]["name"]), may_refuse=False, given=given)


def _about(call: Block) -> dict[str, Any]:
    return {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content or "")


def _before_end(history: History, spec: AgentSpec, action: RunCheck | Grade | End | Rest) -> Iterator[list[HookEvent]]:
    if spec.helper:
        return
    if (event := _failed_or_stopped(history, spec, action)) is not None:
        yield [event]
    if isinstance(action, End) and spec.parent_id is None:
        key = f"{history.context.runs}.{history.turns}"
        yield [HookEvent("SessionEnd", key, ("other",), may_refuse=False, given={"reason": "other"})]


def _failed_or_stopped(history: History, spec: AgentSpec, action: RunCheck | Grade | End | Rest) -> HookEvent | None:
    finished = getattr(action, "finished", None)
    given = {
        "stop_hook_active": history.hooks.sent_back > 0,
        "last_assistant_message": history.reply_text.text_at_hand(),
    }
    if history.failure is not None and finished is not None and finished.state == "failed":
        error = _FAILURES.get(history.failure.error_kind, "unknown")
        given = {"error": error, "error_details": history.failure.error, **given}
        return HookEvent("StopFailure", f"{history.turns}.{history.failures}", (error,), may_refuse=False, given=given)
    if history.last is None and spec.parent_id is None:
        return None
    name, subjects = ("Stop", ()) if spec.parent_id is None else ("SubagentStop", (spec.definition.name,))
    if isinstance(action, Rest) and spec.teammate:
        name, subjects = "TeammateIdle", ()
    completes = finished is None or finished.state == "completed"
    can_go_on = completes and history.final_answer is None and not history.leaving
    often = can_go_on and history.hooks.sent_back >= MAX_SENT_BACK
    may_refuse, bound = can_go_on and not often, BOUND if often else ""
    return HookEvent(name, str(history.turns), subjects, may_refuse=may_refuse, bound=bound, given=given)
