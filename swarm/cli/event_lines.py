"""The events of a job as lines for people: the time, who, and what, in words."""

from __future__ import annotations

import time
from collections import defaultdict

from swarm.cli.output import one_line, show_cost, show_count, show_number
from swarm.streaming.events import (
    AgentEnded,
    AgentSpawned,
    AgentState,
    JobEnded,
    JobStarted,
    MessageSent,
    ModelFailed,
    Notice,
    ProgramCalls,
    Prompt,
    QuestionAsked,
    QuestionClosed,
    Reply,
    StreamEvent,
    ToolResult,
)

_LONG = 200
_LONGEST = 1_000
"""Maximum characters of a message to the person; `_LONG` applies to other texts."""
_NOTICES = {
    "note": "{sort}: {text}",
    "denied": "denied {call}: {why}",
    "hooked": "hook on {event}: {why}",
    "verdict": "{by} of attempt {attempt}: {summary}",
    "summary": "{sort}: {text}",
    "board": "task {task} {change}: {subject}",
    "bounded": "bounded by its worker: {why}",
    "server": "goes without an MCP server: {why}",
    "switched": "asks {model} from now on, no longer {was} ({reason}): {why}",
    "lacking": "works without all of its repository: {why}",
    "pushed": "pushed: {why}",
    "pull_request": "pull request: {why}",
    "held": "kept from being obeyed outside: {what}",
}
"""Formats of the notices that people read most."""


def describe_event(event: StreamEvent) -> str:
    """Format an event as one line; empty for events of no interest to people."""
    moment = time.strftime("%H:%M:%S", time.localtime(event.at)) + f".{int(event.at * 1000) % 1000:03d}"
    said = say_event(event)
    return f"{moment}  {said}" if said else ""


def say_event(event: StreamEvent) -> str:
    """Format an event without the time; empty for events of no interest to people."""
    what = _describe(event)
    return f"{one_line(event.label, 60)} ({event.agent_id})  {what}" if what else ""


def _describe(event: StreamEvent) -> str:
    match event:
        case JobStarted():
            return f"started {event.job_id}{' (rehearsed)' if event.rehearsed else ''}: {one_line(event.title, _LONG)}"
        case AgentSpawned():
            return f"spawned by {event.parent_id}"
        case AgentState():
            return event.why.replace("_", " ") + (f", waits for {event.waits_for}" if event.waits_for else "")
        case Prompt():
            return "" if event.purpose == "task" else f"is told: {one_line(event.text, _LONG)}"
        case Reply():
            return _describe_reply(event)
        case ProgramCalls():
            return f"calls {one_line(', '.join(call.name for call in event.tool_calls), _LONG)}"
        case ToolResult():
            return f"{event.name} {'failed' if event.is_error else 'returned'}: {one_line(event.text, _LONG)}"
        case ModelFailed():
            return f"the model failed ({event.error_kind}): {one_line(event.error, _LONG)}"
        case AgentEnded() | JobEnded():
            return _describe_end(event)
        case MessageSent() | QuestionAsked() | QuestionClosed() | Notice():
            return _describe_notice(event)


def _describe_notice(event: MessageSent | QuestionAsked | QuestionClosed | Notice) -> str:
    match event:
        case MessageSent():
            length = _LONGEST if event.to == "user" else _LONG
            return f"{event.kind.replace('_', ' ')} to {event.to}: {one_line(event.body, length)}"
        case QuestionAsked():
            return f"asks {event.question_id} ({event.kind}): {one_line(event.title, _LONG)}"
        case QuestionClosed():
            by = f" by {event.by}" if event.by else ""
            return f"{event.question_id} {event.state}: {one_line(event.answer, _LONG)}{by}".rstrip()
        case Notice():
            said = {name: one_line(value, _LONGEST) for name, value in event.about.items() if value}
            if event.kind in _NOTICES:
                return _NOTICES[event.kind].format_map(defaultdict(str, said))
            return " ".join([event.kind, *(f"{name}={value!r}" for name, value in said.items())])


def _describe_reply(event: Reply) -> str:
    calls = ", ".join(call.name for call in event.tool_calls)
    said = one_line(event.text, _LONG)
    return (
        f"says {said!r}{f', calls {calls}' if calls else ''}" if said else f"calls {calls}" if calls else "says nothing"
    )


def _describe_end(event: AgentEnded | JobEnded) -> str:
    who = f"{event.job_id} " if isinstance(event, JobEnded) else ""
    limit = f" at its limit of {event.stopped_at}" if event.stopped_at else ""
    reason = f": {one_line(event.reason, _LONG)}" if event.reason else ""
    tokens = f"{show_count(event.usage.total_tokens)} tokens"
    cost = show_cost(event.cost_usd, event.unpriced_tokens, event.estimated_usd)
    spent = f"{show_number(event.turns, 'turn')}, {tokens}, {cost}"
    return f"{who}{event.state.replace('_', ' ')}{limit} ({spent}){reason}"
