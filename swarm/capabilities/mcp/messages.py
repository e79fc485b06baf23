"""Messages to agents about servers. Text only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarm.capabilities.mcp.pins import Pin

_MAX_SCHEMA = 4_000
RESTARTED = (
    "[The MCP server {name} was restarted since your last call of it (on another host, after it ended, or after long idleness). What it "
    "held in memory is lost.]"
)
MAY_HAVE = (
    "The call was not repeated. It may have taken effect, wholly or in part: check before you call it again. What the server held in "
    "memory is lost; the next call restarts it."
)
BROKER_GONE = f"The process that speaks with the MCP server {{name}} ended during this call. {MAY_HAVE}"
ENDED = f"The MCP server {{name}} ended during this call: {{why}}. {MAY_HAVE}"
TIMED_OUT = (
    "The call of the MCP server {name}: {why}. The outcome is unknown: the call may have taken effect, or still may. Check "
    "before you repeat it."
)
LOST = (
    "The MCP server {name} asked a person during this call, and had ended when the answer came ({answer}). The call was not "
    "repeated, and may have taken effect in part. Check, and make it again if it is still wanted; the person is asked again then."
)
NOT_STARTED = (
    "The MCP server {name} cannot be used now: {why}. The call was not made. Say so in your answer if you needed it; do not guess its "
    "result."
)
ABSENT = (
    "Your type names MCP servers that this job does not have: {names}. You do not have their tools. Say so where you needed them; do not "
    "guess their results."
)


def explain_change(
    server: str, added: Sequence[str], gone: Sequence[str], other: Mapping[str, str], search: str
) -> str:
    """Tell an agent that a server has changed its tools; `other` has the new parameters of changed ones, by name."""
    lines = [f"[The MCP server {server} has changed its tools."]
    how = f"; {search} shows their parameters" if search else ""
    lines += [f"New ones, which you can call from now on{how}: {', '.join(added)}."] if added else []
    lines += [f"It no longer offers: {', '.join(gone)}."] if gone else []
    lines += [f"{name} now takes: {parameters[:_MAX_SCHEMA]}" for name, parameters in other.items()]
    return "\n".join(lines) + "]"


def introduce(pins: Mapping[str, Pin], missing: Mapping[str, str]) -> str:
    """The system prompt's part about servers; may be empty."""
    parts = []
    said = [f'<server name="{pin.server}">\n{pin.instructions}\n</server>' for pin in pins.values() if pin.instructions]
    if said:
        parts.append(
            "Usage instructions of the MCP servers behind some of your tools, in their own words:\n" + "\n".join(said)
        )
    parts += [
        f"The MCP server {name} is configured, and could not be started ({why}): you do not have its tools. Say so where you needed "
        "them; do not guess their results."
        for name, why in missing.items()
    ]
    return "\n\n".join(parts)
