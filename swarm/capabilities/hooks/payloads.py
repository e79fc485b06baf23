"""Build hooks' input for an event, in the JSON that people's programs expect. Pure."""

from __future__ import annotations

import json
from typing import Any

from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.capabilities.hooks.events import HookEvent
from swarm.definitions.model import PermissionMode


def tell(
    event: HookEvent, spec: AgentSpec, mode: PermissionMode, transcript: str, given: dict[str, Any]
) -> dict[str, Any]:
    """Return the input of all hooks of an event; `given` holds the fields that had to be looked up."""
    told: dict[str, Any] = {
        "session_id": spec.job_id,
        "transcript_path": transcript,
        "cwd": spec.workspace,
        "permission_mode": mode,
        "hook_event_name": event.name,
        # The same after a rescue, so that a hook need not repeat its work for this event.
        "event_id": f"{spec.agent_id}/{event.id}",
    }
    if spec.parent_id is not None:
        told |= {"agent_id": spec.agent_id, "agent_type": spec.definition.name}
    if event.name in ("SubagentStop", "TeammateIdle"):
        told["agent_transcript_path"] = transcript
    return told | event.given | given


def write_transcript(history: History) -> str:
    """Render the conversation for hooks: one line of JSON per message."""
    lines = (
        json.dumps(
            {"type": message["role"], "message": message, "sessionId": history.spec.job_id if history.spec else ""}
        )
        for message in history.messages
    )
    return "".join(f"{line}\n" for line in lines)
