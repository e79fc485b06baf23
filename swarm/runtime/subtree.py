"""What one agent sees of the others: its own subtree, which it may list and stop."""

from __future__ import annotations

from collections.abc import Callable

from swarm.agent.spec import TERMINAL_STATES, AgentSpec
from swarm.errors import MessageRefused, ToolError
from swarm.store.agents import Store
from swarm.store.values import Effect

_SHOWN = 100


class Subtree:
    """The agents below one agent, for its tools."""

    def __init__(self, spec: AgentSpec, store: Store, tell: Callable[[Effect | None], None]) -> None:
        self._spec, self._store, self._tell = spec, store, tell

    def list_agents(self) -> str:
        """A line for each agent below the caller, oldest first."""
        below = self._below()
        if not below:
            return "You have started no agents."
        now = self._store.now()
        lines = [_describe(agent_id, record, now) for agent_id, record in below.items()]
        hidden = [f"… and {len(lines) - _SHOWN} older ones"] if len(lines) > _SHOWN else []
        return "\n".join([*hidden, *lines[-_SHOWN:]])

    def stop_agent(self, who: str, reason: str) -> str:
        """Stop one of them, with all that is below it. Raises `ToolError`."""
        try:
            found = self._store.directory(self._spec.job_id).find(who, self._spec.agent_id)
        except MessageRefused as error:
            raise ToolError(str(error)) from error
        below = self._below()
        if len(found) != 1 or found[0].id not in below:
            raise ToolError(f"{who!r} is not below you: an agent can only stop what it, or its own agents, started.")
        receiver = found[0]
        state = below[receiver.id]["state"]
        # Below one that has ended, some may have gone on.
        self._tell(self._store.cancel(receiver.id, reason))
        if state in TERMINAL_STATES:
            return f"{receiver.name} had ended already: {state}."
        return f"{receiver.name} is stopped, and all that it had started."

    def _below(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for agent_id, record in self._store.agents_of(self._spec.job_id):
            # Parents come first, so one pass finds the whole subtree.
            if record.get("parent") == self._spec.agent_id or record.get("parent") in found:
                found[agent_id] = record
        return found


def _describe(agent_id: str, record: dict[str, str], now: float) -> str:
    name = f"{record['name']} " if record.get("name") else ""
    state = "idle" if record.get("idle") == "1" else record["state"]
    age = float(record.get("ended") or now) - float(record["created"])
    tokens = sum(int(record.get(counter, 0)) for counter in ("input", "output", "cache_write", "cache_read"))
    line = (
        f"- {name}{agent_id} ({record['label']}): {state}, {age:.0f} s, {record.get('turns', 0)} turns, {tokens} tokens"
    )
    if state in ("running", "queued", "parked") and record.get("activity"):
        line += f"; {record['activity']}, {now - float(record.get('active') or now):.0f} s ago"
    return line
