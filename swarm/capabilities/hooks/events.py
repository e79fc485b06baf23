"""Which events hooks are due for, before the runtime does what is next. Pure: the same life and action give the same events.

An event has an id within its agent, made of what it is about: a call's id, the number of a reply. So whoever goes on with the agent
finds the same event, and the journal tells whether its hooks have been run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarm.agent.compacting import Compact
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
from swarm.agent.life import Life
from swarm.agent.spec import AgentSpec
from swarm.definitions.tools import row_of
from swarm.models import Block

MAX_BLOCKS = 8
"""How often in a row an end can be refused."""
_COMPLETES_TASK = "completetask"
_NAMES_ELSEWHERE = {"task": "Task", "multiedit": "MultiEdit", "taskcreate": "TaskCreate", "taskupdate": "TaskUpdate"}
"""What matchers of the wild call tools that have another name here."""


@dataclass(frozen=True)
class Event:
    """Something that hooks are told of."""

    name: str
    key: str
    """What it is about."""
    subjects: tuple[str, ...] = ()
    """What matchers are compared with: all names of one thing."""
    call: Block | None = None
    may_refuse: bool = True
    """A refusal changes anything."""
    given: dict[str, Any] = field(default_factory=dict)
    """What hooks are told beside what they are told of every event."""

    @property
    def id(self) -> str:
        """Unlike that of every other event of its agent."""
        return f"{self.name} {self.key}"


def find_events(life: Life, action: Action) -> Iterator[list[Event]]:
    """The events before this action, in stages: what the hooks of one have said comes before the next."""
    if life.spec is None or life.finished is not None:
        return
    yield [_after(life, call) for call in life.hooks.ended.values()]
    if life.hooks.stopped and not isinstance(action, End):
        return
    match action:
        case CallModel():
            yield from _before_request(life, life.spec)
        case Compact(trigger=trigger, wanted=wanted, bare=bare):
            trigger_name = "manual" if trigger == "manual" else "auto"
            given = {"trigger": trigger_name, "custom_instructions": wanted.focus if wanted is not None else ""}
            key = f"{life.turns}.{life.context.failures}"
            may_refuse = trigger != "overflow" and not bare
            yield [Event("PreCompact", key, (trigger_name,), may_refuse=may_refuse, given=given)]
        case RunTools(calls=calls) | SpawnAgents(calls=calls) | SendMessages(calls=calls):
            yield from _before_calls(life, calls)
        case Wait(call=call):
            yield from _before_calls(life, [call])
        case RunCheck() | Grade() | End() | Rest():
            yield from _before_end(life, life.spec, action)


def name_tool(tool: str) -> tuple[str, ...]:
    """The names that matchers may have for a tool."""
    aliases = row_of(tool).aliases.split()
    return (tool, *(_NAMES_ELSEWHERE[alias] for alias in aliases if alias in _NAMES_ELSEWHERE))


def _before_request(life: Life, spec: AgentSpec) -> Iterator[list[Event]]:
    runs = life.context.runs
    if spec.helper:
        return
    if life.turns > life.turns_before:
        if life.context.fresh and spec.parent_id is None:
            yield [_session_start(spec, "compact", f"compact {life.turns}")]
    elif spec.parent_id is not None:
        if runs == 1:
            yield [Event("SubagentStart", str(runs), (spec.definition.name,), may_refuse=False)]
    else:
        yield [_session_start(spec, "startup" if runs == 1 else "resume", str(runs))]
        if runs == 1:
            yield [Event("UserPromptSubmit", str(runs), given={"prompt": spec.prompt})]


def _session_start(spec: AgentSpec, source: str, key: str) -> Event:
    given = {"source": source, "model": spec.model}
    return Event("SessionStart", key, (source,), may_refuse=False, given=given)


def _before_calls(life: Life, calls: Sequence[Block]) -> Iterator[list[Event]]:
    held = [call for call in calls if call["name"] in life.tool_names()]
    yield [before_call(call) for call in held]
    yield [
        Event("TaskCompleted", call["id"], call=call)
        for call in held
        if _COMPLETES_TASK in row_of(call["name"]).aliases.split()
    ]


def before_call(call: Block) -> Event:
    """That a call is about to be made."""
    return Event("PreToolUse", call["id"], name_tool(call["name"]), call, given=_about(call))


def _after(life: Life, call: Block) -> Event:
    result = life.result_of(call["id"])
    text, failed = _plain(result.get("content")), bool(result.get("is_error"))
    given = _about(call)
    if failed:
        given |= {"error": text, "is_interrupt": False}
    else:
        given["tool_response"] = describe_response(call, text)
    name = "PostToolUseFailure" if failed else "PostToolUse"
    return Event(name, call["id"], name_tool(call["name"]), call, given=given)


def _about(call: Block) -> dict[str, Any]:
    return {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}


def describe_response(call: Block, text: str) -> dict[str, Any]:
    """A result as hooks know those of such a tool."""
    row, told = row_of(call["name"]), {"content": text}
    if row.matching == "command":
        return told | {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    path = call["input"].get(row.subject) if isinstance(call["input"], dict) else None
    if row.matching in ("edited", "read") and isinstance(path, str):
        return told | {"filePath": path, "success": True}
    return told


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content or "")


def _before_end(life: Life, spec: AgentSpec, action: RunCheck | Grade | End | Rest) -> Iterator[list[Event]]:
    finished = getattr(action, "finished", None)
    completes = finished is None or finished.state == "completed"
    may_refuse = completes and life.last_words is None and not life.leaving and life.hooks.blocks < MAX_BLOCKS
    given = {"stop_hook_active": life.hooks.blocks > 0, "last_assistant_message": life.speech.text_at_hand()}
    if not spec.helper and (life.last is not None or spec.parent_id is not None):
        name, subjects = ("Stop", ()) if spec.parent_id is None else ("SubagentStop", (spec.definition.name,))
        if isinstance(action, Rest) and spec.teammate:
            name, subjects = "TeammateIdle", ()
        yield [Event(name, str(life.turns), subjects, may_refuse=may_refuse, given=given)]
    if isinstance(action, End) and spec.parent_id is None:
        key = f"{life.context.runs}.{life.turns}"
        yield [Event("SessionEnd", key, ("other",), may_refuse=False, given={"reason": "other"})]
