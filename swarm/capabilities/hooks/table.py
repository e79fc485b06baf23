"""Which hooks are run for an event, and where. Pure."""

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
    """All hooks that hold for one agent on one worker."""

    job: Hooks
    of_type: Sequence[Hook]
    """Of its definition."""
    managed: Managed
    user_place: Place = "sandbox"

    def __bool__(self) -> bool:
        return bool(self.managed.hooks) or (not self.managed.only and bool(self.job.hooks or self.of_type))

    def choose(self, event: HookEvent, workspace: Path) -> list[Hook]:
        """Those for an event, each once."""
        others = () if self.managed.only else (*self.job.hooks, *map(_of_type, self.of_type))
        both = Hooks(hooks=(*others, *self.managed.hooks.hooks))
        found = [*both.of(event.name, *event.subjects)]
        return [hook for hook in found if event.call is None or holds(hook, event.call, workspace)]

    def place(self, hook: Hook) -> Place:
        """Where it may be run by whose it is: the operator's as the worker, a repository's in the agent's sandbox."""
        if hook.origin == "managed":
            return "host"
        return self.user_place if hook.origin == "user" else "sandbox"


def _of_type(hook: Hook) -> Hook:
    """A definition speaks of its agent's end as of the end of a job's first one, which it hardly ever is."""
    return hook.model_copy(update={"event": "SubagentStop"}) if hook.event == "Stop" else hook


def holds(hook: Hook, call: Block, workspace: Path) -> bool:
    """Whether a call is as the hook's condition says; a condition that is no rule holds of every call."""
    if not hook.condition:
        return True
    try:
        rule = parse_rule(hook.condition, "deny", hook.source)
    except InvalidRule:
        return True
    given: dict[str, Any] = call["input"] if isinstance(call["input"], dict) else {}
    asked = JudgedCall(call["name"], given, Rules(rules=(rule,)), "bypassPermissions", workspace, sandboxed=True)
    return judge(asked).rule == rule
