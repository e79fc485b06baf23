"""Make a scenario for the rehearsal server from a job's journals: its model's replies, to play again without a model. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from swarm.agent.entries import Assistant
from swarm.agent.history import History
from swarm.rehearsal.conversation import read_conversation
from swarm.rehearsal.recorded import describe_reply, describe_request
from swarm.replay.check import read_replies
from swarm.replay.past import Past

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
    # A fork's conversation begins with its parent's prompt.
    prompt = spec.prompt if spec is not None and spec.fork is None else ""
    made = describe_reply(reply.content, reply.stop_reason, seen.workspace)
    return {"when": describe_request(seen, prompt), "uses": 1, "reply": made}


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
