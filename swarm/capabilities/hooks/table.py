"""Choose the hooks for an event, and where they run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from swarm.capabilities.hooks.events import HookEvent
from swarm.capabilities.hooks.files import Managed
from swarm.definitions.hooks import Hook, Hooks
from swarm.models import Block
from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.rules import InvalidRule, Rules, parse_rule

Place = Literal["sandbox", "host", "off"]


@dataclass(frozen=True)
class HookTable:
    """All hooks that apply to one agent on one worker."""

    job: Hooks
    of_type: Sequence[Hook]
    """The hooks of the agent's definition."""
    managed: Managed
    user_place: Place = "sandbox"

    def __bool__(self) -> bool:
        return bool(self.managed.hooks) or (not self.managed.only and bool(self.job.hooks or self.of_type))

    def choose(self, event: HookEvent, workspace: Path) -> list[Hook]:
        """The hooks for an event, each once."""
        others = () if self.managed.only else (*self.job.hooks, *map(_of_type, self.of_type))
        both = Hooks(hooks=(*others, *self.managed.hooks.hooks))
        found = [*both.of(event.name, *event.subjects)]
        return [hook for hook in found if event.call is None or holds(hook, event.call, workspace)]

    def place(self, hook: Hook) -> Place:
        """Where a hook may run, by its owner: the operator's as the worker, a repository's in the agent's sandbox."""
        if hook.origin == "managed":
            return "host"
        return self.user_place if hook.origin == "user" else "sandbox"


def _of_type(hook: Hook) -> Hook:
    """Adapt a definition's hook: its `Stop` means its agent's end, mostly not the end of a job's first agent."""
    return hook.model_copy(update={"event": "SubagentStop"}) if hook.event == "Stop" else hook


def holds(hook: Hook, call: Block, workspace: Path) -> bool:
    """Whether a call meets the hook's condition; a condition that is not a rule holds for every call."""
    if not hook.condition:
        return True
    try:
        rule = parse_rule(hook.condition, "deny", hook.source)
    except InvalidRule:
        return True
    given: dict[str, Any] = call["input"] if isinstance(call["input"], dict) else {}
    asked = JudgedCall(call["name"], given, Rules(rules=(rule,)), "bypassPermissions", workspace, sandboxed=True)
    return judge(asked).rule == rule
