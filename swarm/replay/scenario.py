"""Make a scenario for the rehearsal server from a job's journals: its model's replies, to play again without a model. Pure."""

from __future__ import annotations

import re
from typing import Any

import yaml

from swarm.agent.entries import Assistant
from swarm.agent.history import History
from swarm.models import Block
from swarm.rehearsal.conversation import read_conversation
from swarm.replay.check import read_replies
from swarm.replay.past import Past

_PROMPT_CHARACTERS = 400
"""Enough of a prompt to tell agents of one definition apart."""
_HEAD = """# The replies of {job}, from its journals. To play them: swarm run --rehearse THIS_FILE with the order below.
#   agent: {agent}
#   prompt: {prompt}
"""


def make_scenario(past: Past) -> str:
    """Return the scenario as YAML: a rule for each reply, used once. Raises `JournalError`, `ConfigurationError`.

    Its tools run for real, in the folder of the new job. A conversation whose beginning was replaced by a summary is played up to there.
    """
    rules = [_make_rule(history, reply) for _, _, history, reply in read_replies(past)]
    root = past.agents[past.root].spec
    head = _HEAD.format(job=past.job_id, agent=root["definition"]["name"], prompt=_one_line(root["prompt"]))
    return head + yaml.safe_dump({"name": past.job_id, "rules": rules}, sort_keys=False, allow_unicode=True, width=120)


def _make_rule(history: History, reply: Assistant) -> dict[str, Any]:
    seen = read_conversation({"model": "", "system": history.system, "messages": history.messages})
    spec = history.spec
    when: dict[str, Any] = {"turn": seen.turn}
    if seen.definition:
        when["definition"] = re.escape(seen.definition)
    # A fork's conversation begins with its parent's prompt.
    if spec is not None and spec.fork is None:
        when["prompt"] = re.escape(spec.prompt[:_PROMPT_CHARACTERS])
    return {"when": when, "uses": 1, "reply": _make_reply(reply, seen.workspace)}


def _make_reply(reply: Assistant, workspace: str) -> dict[str, Any]:
    texts = [block["text"] for block in reply.content if block["type"] == "text"]
    thoughts = [block["thinking"] for block in reply.content if block["type"] == "thinking" and block["thinking"]]
    calls = [_make_call(block, workspace) for block in reply.content if block["type"] == "tool_use"]
    made: dict[str, Any] = {"text": _elsewhere("\n".join(texts), workspace)} if texts or not calls else {}
    if thoughts:
        made["thinking"] = "\n".join(thoughts)
    if calls:
        made["tools"] = calls
    if reply.stop_reason not in ("end_turn", "tool_use"):
        made["stop_reason"] = reply.stop_reason
    return made


def _make_call(block: Block, workspace: str) -> dict[str, Any]:
    return {"name": block["name"], "input": _elsewhere(block["input"], workspace)}


def _elsewhere(value: Any, workspace: str) -> Any:
    """Name the workspace by its placeholder, because the new job has another one."""
    match value:
        case str():
            return value.replace(workspace, "{workspace}") if workspace else value
        case dict():
            return {name: _elsewhere(each, workspace) for name, each in value.items()}
        case list():
            return [_elsewhere(each, workspace) for each in value]
    return value


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
