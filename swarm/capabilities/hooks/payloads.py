"""What hooks are told of an event, the JSON that people's programs expect. Pure."""

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


def write_transcript(history: History) -> str:
    """The conversation as hooks read it: a JSON document per line, one for each message."""
    lines = (
        json.dumps(
            {"type": message["role"], "message": message, "sessionId": history.spec.job_id if history.spec else ""}
        )
        for message in history.messages
    )
    return "".join(f"{line}\n" for line in lines)
