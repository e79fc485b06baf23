"""Remove private data from a job's history. Pure: the job itself is not changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from swarm.core.secrets import strip_secrets
from swarm.replay.past import Past, PastAgent, PastEntry

Redaction = Literal["secrets", "words"]
_KEPT = {
    *(
        "t",
        "v",
        "kind",
        "purpose",
        "state",
        "stop_reason",
        "type",
        "id",
        "role",
        "name",
        "model",
        "limit",
        "by",
        "tool_use_id",
        "mode",
    ),
    *(
        "agent_id",
        "job_id",
        "parent_id",
        "cursor",
        "prefix",
        "instructions",
        "commit",
        "request_id",
        "request_sha",
        "grader",
        "trigger",
    ),
    *(
        "form",
        "error_kind",
        "source",
        "isolation",
        "tool",
        "from",
        "sort",
        "what",
        "seq",
        "agent",
        "parent",
        "definition",
        "change",
    ),
    *(
        "permission_mode",
        "after_plan",
        "effort",
        "merge",
        "stopped_at",
        "root",
        "definitions",
        "reply_to",
        "why",
        "memory",
        "files",
    ),
}
"""Fields whose values come from the runtime, not from a person or model."""
_GIVEN = {"input", "data"}
"""Fields in which every name and value is private."""
_ID = re.compile(r"(agent|job|question|request|msg|toolu|event)[-_][\w-]+|[\d.-]*|true|false")


def redact(past: Past, what: Redaction) -> Past:
    """Copy the history without secrets (apparent ones), or without words, of which only the lengths remain."""
    hide = _strip if what == "secrets" else _measure
    agents = {agent_id: _redact_agent(agent, hide) for agent_id, agent in past.agents.items()}
    return replace(
        past,
        fields=_redact_fields(past.fields, hide),
        # Documents are named by hashes, which redaction would invalidate.
        documents={} if what == "words" else {one: hide(text) for one, text in past.documents.items()},
        agents=agents,
        events=[(event_id, _redact_fields(fields, hide)) for event_id, fields in past.events],
        redacted=what,
    )


def _redact_agent(agent: PastAgent, hide: Callable[[str], str]) -> PastAgent:
    return PastAgent(
        agent.id,
        _redact_fields(agent.fields, hide),
        [PastEntry(one.number, one.seq, _redact(one.document, hide)) for one in agent.entries],
        [(mail_id, _redact_fields(fields, hide)) for mail_id, fields in agent.mail],
        {key: hide(text) for key, text in agent.outputs.items()},
    )


def _redact_fields(fields: dict[str, str], hide: Callable[[str], str]) -> dict[str, str]:
    return {name: value if name in _KEPT else _redact_text(value, hide) for name, value in fields.items()}


def _redact_text(value: str, hide: Callable[[str], str]) -> str:
    """Redact a field of a record, which may itself be JSON."""
    if value[:1] in "{[":
        try:
            return json.dumps(_redact(json.loads(value), hide), ensure_ascii=False)
        except ValueError:
            pass
    return value if _ID.fullmatch(value) else hide(value)


def _redact(value: Any, hide: Callable[[str], str], *, all_of_it: bool = False) -> Any:
    match value:
        case str():
            return value if not all_of_it and _ID.fullmatch(value) else hide(value)
        case list():
            return [_redact(one, hide, all_of_it=all_of_it) for one in value]
        case dict():
            return {
                key: one
                if key in _KEPT and isinstance(one, str) and not all_of_it
                else _redact(one, hide, all_of_it=all_of_it or key in _GIVEN)
                for key, one in value.items()
            }
    return value


def _strip(text: str) -> str:
    return strip_secrets(text).text


def _measure(text: str) -> str:
    return f"[{len(text)} characters]"
