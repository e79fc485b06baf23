"""What hooks are told of an event, the JSON that people's programs expect, and what people are told of hooks. Pure."""

from __future__ import annotations

import json
from typing import Any

from swarm.agent.entries import Hooked, HookRun
from swarm.agent.life import Life
from swarm.agent.spec import AgentSpec
from swarm.capabilities.hooks.events import Event
from swarm.definitions.model import PermissionMode

_WORDS = {"failed": "failed", "timed_out": "took too long", "interrupted": "was interrupted", "not_run": "was not run"}


def tell(event: Event, spec: AgentSpec, mode: PermissionMode, transcript: str, given: dict[str, Any]) -> dict[str, Any]:
    """The input of all hooks of an event; `given` is what had to be looked up for it."""
    told: dict[str, Any] = {
        "session_id": spec.job_id,
        "transcript_path": transcript,
        "cwd": spec.workspace,
        "permission_mode": mode,
        "hook_event_name": event.name,
        # The same whoever goes on with the agent: what was done for it need not be done again.
        "event_id": f"{spec.agent_id}/{event.id}",
    }
    if spec.parent_id is not None:
        told |= {"agent_id": spec.agent_id, "agent_type": spec.definition.name}
    if event.name in ("SubagentStop", "TeammateIdle"):
        told["agent_transcript_path"] = transcript
    return told | event.given | given


def write_transcript(life: Life) -> str:
    """The conversation as hooks read it: a JSON document per line, one for each message."""
    lines = (
        json.dumps({"type": message["role"], "message": message, "sessionId": life.spec.job_id if life.spec else ""})
        for message in life.messages
    )
    return "".join(f"{line}\n" for line in lines)


def describe_hooked(hooked: Hooked) -> str:
    """What an event's hooks decided or changed, and what went wrong: `denied: no force pushes`."""
    told = []
    if hooked.decision:
        verb = {"deny": "denied", "block": "sent back", "ask": "wants a person asked", "allow": "allowed"}
        told.append(f"{verb[hooked.decision]}{f': {hooked.reason}' if hooked.reason else ''}")
    if hooked.input is not None:
        told.append("changed what the call is given")
    if hooked.output is not None:
        told.append("changed what the call returned")
    if hooked.text and hooked.decision != "block":
        told.append("told the agent something")
    if hooked.stop:
        told.append(hooked.stop)
    if hooked.said:
        told.append(hooked.said)
    told += [describe_run(run) for run in hooked.runs if run.outcome in _WORDS]
    return "; ".join(told) or "nothing to say"


def describe_run(run: HookRun) -> str:
    """What became of one that could not be heard."""
    return f"{run.label} ({run.source}) {_WORDS.get(run.outcome, run.outcome)}{f': {run.why}' if run.why else ''}"
