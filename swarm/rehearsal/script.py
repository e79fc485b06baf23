"""Find the reply: the first matching rule, else the scenario's Python part; then fill in placeholders."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from swarm.rehearsal.conversation import Conversation, default_summary
from swarm.rehearsal.scenario import Scenario, ScenarioRule, ScriptedReply, When

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_WITHOUT_TOOLS = "(rehearsed) No tools may be used in this reply, and the scenario has no other words for it."


class Answer(NamedTuple):
    """A reply, ready to send, with its source."""

    reply: ScriptedReply
    source: str
    """Name or number of the rule, or name of the script."""


class Script:
    """A scenario in play: its rules, and the uses of each."""

    def __init__(
        self, scenario: Scenario, scripts: Mapping[str, Callable[[Conversation], ScriptedReply | None]]
    ) -> None:
        self._rules = scenario.rules
        self._taken = [0] * len(scenario.rules)
        self._lock = threading.Lock()
        self._script, self._scripts = scenario.script, scripts
        self._obeys = scenario.obeys_tool_choice

    def answer(self, conversation: Conversation) -> Answer | None:
        """Find the reply to this request, or None if the scenario has none."""
        found = self._from_rules(conversation)
        if found is None and conversation.summarizing:
            return Answer(ScriptedReply(text=default_summary(conversation.turn)), "summary")
        if found is None and self._script is not None:
            reply = self._scripts[self._script](conversation)
            found = Answer(reply, self._script) if reply else None
        if found is not None and found.reply.tools and not conversation.tools_allowed and self._obeys:
            # A real model obeys `tool_choice: none`, so a scripted reply must, too.
            found = Answer(_without_tools(found.reply), found.source)
        return found

    def _from_rules(self, conversation: Conversation) -> Answer | None:
        for index, rule in enumerate(self._rules):
            if conversation.summarizing and not rule.when.summarizing:
                continue
            groups = match(rule.when, conversation)
            if groups is not None and self._take(index, rule):
                return Answer(_fill_reply(rule.reply, conversation, groups), rule.name or f"rule {index + 1}")
        return None

    def _take(self, index: int, rule: ScenarioRule) -> bool:
        if rule.uses is None:
            return True
        with self._lock:
            if self._taken[index] >= rule.uses:
                return False
            self._taken[index] += 1
            return True


def match(when: When, conversation: Conversation) -> dict[str, str] | None:
    """Match a request: the named groups of the patterns, or None if a condition fails."""
    if when.turn is not None and not when.turn.holds(conversation.turn):
        return None
    if when.summarizing is not None and when.summarizing != conversation.summarizing:
        return None
    if when.tools_allowed is not None and when.tools_allowed != conversation.tools_allowed:
        return None
    if when.definition is not None and not when.definition.fullmatch(conversation.definition or ""):
        return None
    groups: dict[str, str] = {}
    for pattern, texts in (
        (when.model, (conversation.model,)),
        (when.prompt, (conversation.prompt,)),
        (when.last_text, (conversation.last_text,)),
        (when.last_result, conversation.last_results),
    ):
        if pattern is None:
            continue
        found = next(filter(None, map(pattern.search, texts)), None)
        if found is None:
            return None
        groups.update({name: value or "" for name, value in found.groupdict().items()})
    return groups


def _fill_reply(reply: ScriptedReply, conversation: Conversation, groups: dict[str, str]) -> ScriptedReply:
    values = {
        "prompt": conversation.prompt,
        "last_result": conversation.last_result,
        "last_text": conversation.last_text,
        "workspace": conversation.workspace,
        "turn": str(conversation.turn),
        **groups,
    }
    return reply.model_copy(
        update={
            "text": _fill(reply.text, values),
            "thinking": _fill(reply.thinking, values),
            "tools": tuple(call.model_copy(update={"input": _fill(call.input, values)}) for call in reply.tools),
        }
    )


def _fill(value: Any, values: dict[str, str]) -> Any:
    """Replace known placeholders; other braces belong to code and stay."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), value) if "{" in value else value
    if isinstance(value, dict):
        return {key: _fill(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    return value


def _without_tools(reply: ScriptedReply) -> ScriptedReply:
    stop_reason = None if reply.stop_reason == "tool_use" else reply.stop_reason
    return reply.model_copy(update={"tools": (), "text": reply.text or _WITHOUT_TOOLS, "stop_reason": stop_reason})
