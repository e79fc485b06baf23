"""What agents are told about servers. Words only."""

from __future__ import annotations

from collections.abc import Mapping

from swarm.capabilities.mcp.pins import Pin

RESTARTED = (
    "[The MCP server {name} was started anew since your last call of it (another host, an end, or long without use): what it held in its "
    "memory is gone.]"
)
MAY_HAVE = (
    "It was not repeated, and may have taken effect, wholly or in part: check before you call it again. What the server held in its "
    "memory is gone; it is started anew with the next call."
)
BROKER_GONE = f"The process that speaks with the MCP server {{name}} ended during this call. {MAY_HAVE}"
ENDED = f"The MCP server {{name}} ended during this call: {{why}}. {MAY_HAVE}"
TIMED_OUT = (
    "The call of the MCP server {name}: {why}. Whether it obeyed is not known: the call may have taken effect, or still do. Check "
    "before you repeat it."
)
LOST = (
    "The MCP server {name} asked a person in the middle of this call, and was gone when the answer came ({answer}). The call was not "
    "repeated, and may have taken effect in part. Check, and make it again if it is still wanted; the person is asked again then."
)
NOT_STARTED = (
    "The MCP server {name} cannot be used now: {why}. The call was not made. Say so in your answer if you needed it; do not guess what "
    "it would have told."
)
ABSENT = (
    "Your type names MCP servers that this job has not: {names}. You do not have their tools. Say so where you needed them; do not guess "
    "what they would have told."
)


def introduce(pins: Mapping[str, Pin], missing: Mapping[str, str]) -> str:
    """What the system prompt says of servers; empty where there is nothing to say."""
    parts = []
    said = [f'<server name="{pin.server}">\n{pin.instructions}\n</server>' for pin in pins.values() if pin.instructions]
    if said:
        parts.append("How the MCP servers behind some of your tools say that they are used:\n" + "\n".join(said))
    parts += [
        f"The MCP server {name} is configured, and could not be started ({why}): you do not have its tools. Say so where you needed "
        "them; do not guess what they would have told."
        for name, why in missing.items()
    ]
    return "\n\n".join(parts)
